from psibench.generate.recipes import run_subset
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_subset(
        snakemake.params.section,
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        corpus_out=snakemake.output.corpus,
        queries_out=snakemake.output.queries,
        qrels_out=snakemake.output.qrels,
    )
