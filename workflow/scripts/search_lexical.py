from psibench.config import parse_model
from psibench.stages.job import job
from psibench.stages.search import run_lexical_search

with job(snakemake.log[0], threads=snakemake.threads):
    run_lexical_search(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        corpora=snakemake.input.corpora,
        queries=snakemake.input.queries,
        language=snakemake.wildcards.corpus_lang,
        top_k=snakemake.params.top_k,
        output=snakemake.output[0],
    )
