from psibench.stages.job import job
from psibench.stages.summaries import run_position_trend

with job(snakemake.log[0], threads=snakemake.threads):
    run_position_trend(
        snakemake.input[0],
        parquet=snakemake.output.parquet,
        csv=snakemake.output.csv,
    )
