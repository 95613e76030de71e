from psibench.stages.job import job
from psibench.stages.llm_job import ask_domains, asked_of, gather_domains

with job(snakemake.log[0], threads=snakemake.threads):
    wildcards, given, params = snakemake.wildcards, snakemake.input, snakemake.params
    outputs = dict(snakemake.output.items())
    asking, prices = asked_of(
        snakemake.config,
        benchmark=wildcards.benchmark,
        task=wildcards.task,
        language=wildcards.lang,
        prompt=given.prompt,
    )
    asked = {name: outputs.pop(name) for name in ("outcomes", "usage")}
    shard = wildcards.get("shard", "0-of-1")
    ask_domains(
        asking, prices, params.domains, given=given, shard=shard, store=params.store, outputs=asked
    )
    if outputs:  # else the rule `gather` makes them, of all shards
        gather_domains(
            params.made,
            params.domains,
            task=wildcards.task,
            language=wildcards.lang,
            given=given,
            outcomes=[asked["outcomes"]],
            outputs=outputs,
        )
