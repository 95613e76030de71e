from psibench.config import Encoding, parse_model
from psibench.stages.encode import run_encode
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_encode(
        parse_model(snakemake.params.entry),
        model=snakemake.wildcards.model,
        domains=snakemake.params.domains,
        corpora=snakemake.input.corpora,
        queries=snakemake.input.queries,
        store=snakemake.params.store,
        settings=Encoding(
            device=snakemake.resources.device,
            dtype=snakemake.params.dtype,
            float32_below_tokens=snakemake.params.float32_below_tokens,
            tokens_per_batch=snakemake.resources.tokens_per_batch,
            tokens_per_shard=snakemake.resources.tokens_per_shard,
        ),
        output=snakemake.output[0],
    )
