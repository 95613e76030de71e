from psibench.config import parse_model
from psibench.encode.job import run_join_shards
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_join_shards(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        domains=snakemake.params.domains,
        corpora=snakemake.input.corpora,
        queries=snakemake.input.queries,
        shards=snakemake.input.shards,
        output=snakemake.output[0],
    )
