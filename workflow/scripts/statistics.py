from psibench.stages.job import job
from psibench.stages.statistics import run_statistics

with job(snakemake.log[0], threads=snakemake.threads):
    run_statistics(
        benchmark=snakemake.wildcards.benchmark,
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        schemes=snakemake.params.schemes,
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        statistics=snakemake.output.statistics,
        histogram=snakemake.output.histogram,
    )
