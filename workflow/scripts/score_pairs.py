from psibench.filters.panel import run_score_pairs
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads, offline=True):
    run_score_pairs(
        snakemake.params.scoring,
        reranker=snakemake.wildcards.reranker,
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        recall=snakemake.input.recall,
        earlier=snakemake.input.earlier,
        store=snakemake.params.store,
        device=snakemake.resources.device,
        tokens_per_batch=snakemake.resources.tokens_per_batch,
        output=snakemake.output[0],
    )
