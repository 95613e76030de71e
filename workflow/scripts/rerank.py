from psibench.config import parse_model
from psibench.config.reranker_registry import parse_reranker
from psibench.stages.job import job
from psibench.stages.rerank import run_rerank

with job(snakemake.log[0], threads=snakemake.threads, offline=True):
    run_rerank(
        parse_model(snakemake.params.entry),
        parse_reranker(snakemake.params.reranker),
        first_stage=snakemake.input.first_stage,
        corpora=snakemake.input.corpora,
        queries=snakemake.input.queries,
        judged=snakemake.input.judged,
        store=snakemake.params.store,
        device=snakemake.resources.device,
        tokens_per_batch=snakemake.resources.tokens_per_batch,
        output=snakemake.output.run,
        seen=snakemake.output.seen,
    )
