from psibench.config import parse_model
from psibench.stages.import_run import run_import_run
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_import_run(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        benchmark=snakemake.wildcards.benchmark,
        query_lang=snakemake.wildcards.query_lang,
        corpus_lang=snakemake.wildcards.corpus_lang,
        domains=snakemake.params.domains,
        queries=snakemake.input.queries,
        judged=snakemake.input.judged,
        prefix_ids=snakemake.params.prefix_ids,
        top_k=snakemake.params.top_k,
        output=snakemake.output[0],
    )
