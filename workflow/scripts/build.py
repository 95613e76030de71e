from psibench.generate.recipes import run_build
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_build(
        snakemake.params.section,
        corpus=snakemake.output.corpus,
        queries=snakemake.output.queries,
        qrels=snakemake.output.qrels,
        dropped=snakemake.output.dropped,
    )
