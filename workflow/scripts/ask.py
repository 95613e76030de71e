from psibench.stages.job import job
from psibench.stages.llm_ask import AskedDomain, run_ask
from psibench.stages.llm_job import asked_of, gather_domains, task_tables
from psibench.stages.stopping import Stop, job_end_time
from psibench.tables.domains import each_domain

with job(snakemake.log[0], threads=snakemake.threads):
    wildcards, given, output = snakemake.wildcards, snakemake.input, snakemake.output
    asking, prices = asked_of(
        snakemake.config,
        benchmark=wildcards.benchmark,
        task=wildcards.task,
        language=wildcards.lang,
        prompt=given.prompt,
    )
    shard = wildcards.get("shard")
    asked = {"outcomes": output.outcomes, "usage": output.usage}
    with each_domain(snakemake.params.domains, asked) as domains:
        run_ask(
            asking,
            [
                AskedDomain(task_tables(domain, asking.task, given), **domain.outputs)
                for domain in domains
            ],
            shard=shard or "0-of-1",
            prices=prices,
            store=snakemake.params.store,
            check_stop=Stop(job_end_time()).check,
        )
    if shard is None:  # else the rule `gather` does it, for all shards
        gather_domains(
            snakemake.params.made,
            snakemake.params.domains,
            task=wildcards.task,
            language=wildcards.lang,
            given=given,
            outcomes=[output.outcomes],
            outputs={name: output[name] for name in ("rows", "dropped", "flow")},
        )
