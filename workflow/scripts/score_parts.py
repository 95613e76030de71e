from psibench.filters.panel import run_score_parts
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads, offline=True):
    run_score_parts(
        snakemake.params.scoring,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        earlier=snakemake.input.earlier,
        store=snakemake.params.store,
        device=snakemake.resources.device,
        tokens_per_batch=snakemake.resources.tokens_per_batch,
        output=snakemake.output[0],
    )
