from psibench.stages.job import job
from psibench.stages.ledger import run_ledger

with job(snakemake.log[0], threads=snakemake.threads):
    documents = snakemake.input.get("documents")
    run_ledger(
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=documents if isinstance(documents, str) else None,
        steps_dropped=snakemake.input.dropped,
        steps_flow=snakemake.input.flow,
        steps_usage=snakemake.input.usage,
        dropped=snakemake.output.dropped,
        flow=snakemake.output.flow,
        usage=snakemake.output.usage,
    )
