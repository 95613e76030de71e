from functools import partial

from psibench.config import Encoding, parse_model
from psibench.encode.job import run_encode, run_encode_shard
from psibench.stages.job import job

shard = snakemake.wildcards.get("shard")
encode = partial(run_encode_shard, shard=shard) if shard else run_encode
tables = snakemake.params if shard else snakemake.input
with job(snakemake.log[0], threads=snakemake.threads, offline=True):
    encode(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        domains=snakemake.params.domains,
        corpora=tables.corpora,
        queries=tables.queries,
        store=snakemake.params.store,
        settings=Encoding(
            device=snakemake.resources.device,
            dtype=snakemake.params.dtype,
            tokens_per_batch=snakemake.resources.tokens_per_batch,
            tokens_per_part=snakemake.resources.tokens_per_part,
            seconds_per_part=snakemake.resources.seconds_per_part,
            storage=snakemake.params.storage,
        ),
        output=snakemake.output[0],
    )
