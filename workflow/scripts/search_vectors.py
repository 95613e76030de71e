from psibench.config import parse_model
from psibench.stages.job import job
from psibench.stages.search import run_vector_search

with job(snakemake.log[0], threads=snakemake.threads):
    run_vector_search(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        domains=snakemake.params.domains,
        query_encodings=snakemake.input.queries,
        corpus_encodings=snakemake.input.corpus,
        own_queries=snakemake.input.own_queries,
        own_corpus=snakemake.input.own_corpus,
        store=snakemake.params.store,
        top_k=snakemake.params.top_k,
        block_mib=snakemake.resources.block_mib,
        device=snakemake.resources.device,
        output=snakemake.output[0],
    )
