from psibench.generate.recipes import run_assemble
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_assemble(
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        length_tokenizer=snakemake.params.length_tokenizer,
        corpus=snakemake.output.corpus,
        queries=snakemake.output.queries,
        qrels=snakemake.output.qrels,
    )
