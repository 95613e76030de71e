from psibench.stages.job import job
from psibench.stages.ledger import run_ledger

with job(snakemake.log[0], threads=snakemake.threads):
    run_ledger(
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=snakemake.input.documents,
        steps_dropped=snakemake.input.dropped,
        steps_flow=snakemake.input.flow,
        steps_usage=snakemake.input.usage,
        dropped=snakemake.output.dropped,
        flow=snakemake.output.flow,
        usage=snakemake.output.usage,
    )
