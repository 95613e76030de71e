from psibench.config import parse_model
from psibench.metrics.similarity import run_similarity
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_similarity(
        parse_model(snakemake.params.entry),
        benchmark=snakemake.wildcards.benchmark,
        language=snakemake.wildcards.lang,
        model=snakemake.wildcards.model,
        domains=snakemake.params.domains,
        encodings=snakemake.input[0],
        own=snakemake.input.own,
        store=snakemake.params.store,
        output=snakemake.output[0],
    )
