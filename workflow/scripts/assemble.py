from psibench.generate.recipes import run_assemble
from psibench.stages.job import job
from psibench.tables.domains import OfDomain

with job(snakemake.log[0], threads=snakemake.threads):
    run_assemble(
        documents=OfDomain(snakemake.input.documents, snakemake.wildcards.domain),
        candidates=OfDomain(snakemake.input.candidates, snakemake.wildcards.domain),
        length_tokenizer=snakemake.params.length_tokenizer,
        corpus=snakemake.output.corpus,
        queries=snakemake.output.queries,
        qrels=snakemake.output.qrels,
    )
