from psibench.stages.job import job
from psibench.stages.summaries import run_language_averages

with job(snakemake.log[0], threads=snakemake.threads):
    run_language_averages(
        snakemake.input[0],
        parquet=snakemake.output.parquet,
        csv=snakemake.output.csv,
    )
