from pathlib import Path

from psibench.config.leaderboards import Leaderboard
from psibench.metrics.summaries import run_summaries
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_summaries(
        psi=snakemake.input.psi,
        buckets=snakemake.input.buckets,
        comparisons=snakemake.input.comparisons,
        boards=[Leaderboard(**board) for board in snakemake.params.boards],
        folder=Path(snakemake.output[0]).parent,
    )
