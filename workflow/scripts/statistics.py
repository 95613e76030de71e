from psibench.metrics.statistics import run_statistics
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_statistics(
        benchmark=snakemake.wildcards.benchmark,
        domains=snakemake.params.domains,
        schemes=snakemake.params.schemes,
        corpora=list(snakemake.input.corpora),
        queries=list(snakemake.input.queries),
        qrels=list(snakemake.input.qrels),
        **dict(snakemake.output.items()),
    )
