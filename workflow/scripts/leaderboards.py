from psibench.config.leaderboards import Leaderboard
from psibench.stages.job import job
from psibench.stages.summaries import run_leaderboards

with job(snakemake.log[0], threads=snakemake.threads):
    run_leaderboards(
        snakemake.input.averages,
        boards=[Leaderboard(**board) for board in snakemake.params.boards],
        parquet=snakemake.output.parquet,
        csv=snakemake.output.csv,
    )
