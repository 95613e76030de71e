from psibench.metrics.summaries import run_csv
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_csv(snakemake.input[0], snakemake.output[0])
