from psibench.stages.job import job
from psibench.stages.summaries import run_position_trend

with job(snakemake.log[0], threads=snakemake.threads):
    run_position_trend(
        snakemake.input[0],
        min_bucket_size=snakemake.params.min_bucket_size,
        parquet=snakemake.output.parquet,
        csv=snakemake.output.csv,
    )
