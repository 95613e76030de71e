from psibench.stages.job import job
from psibench.stages.ledger import run_ledger

with job(snakemake.log[0], threads=snakemake.threads):
    run_ledger(snakemake.params.places, **dict(snakemake.output.items()))
