from psibench.filters.panel import run_score_pairs
from psibench.stages.job import job
from psibench.stages.scoring import load_once, load_when_needed
from psibench.tables.domains import each_domain

with job(snakemake.log[0], threads=snakemake.threads, offline=True):
    load = load_once(load_when_needed)
    with each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains:
        for domain in domains:
            run_score_pairs(
                snakemake.params.scoring,
                reranker=snakemake.wildcards.reranker,
                corpus=domain.table(snakemake.input.corpus),
                queries=domain.table(snakemake.input.queries),
                qrels=domain.table(snakemake.input.qrels),
                recall=snakemake.input.recall,
                top_k=snakemake.params.top_k,
                earlier=domain.tables(snakemake.input.earlier),
                store=snakemake.params.store,
                device=snakemake.resources.device,
                tokens_per_batch=snakemake.resources.tokens_per_batch,
                output=domain.outputs["scores"],
                load=load,
            )
