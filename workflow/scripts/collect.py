from psibench.metrics.summaries import run_collect
from psibench.stages.job import job
from psibench.tables import SPECS

with job(snakemake.log[0], threads=snakemake.threads):
    run_collect(
        list(snakemake.input),
        SPECS[snakemake.params.table],
        parquet=snakemake.output.parquet,
        csv=snakemake.output.get("csv"),
    )
