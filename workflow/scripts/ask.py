from psibench.stages.job import job
from psibench.stages.llm_ask import run_ask
from psibench.stages.llm_job import asked_of
from psibench.stages.stopping import Stop, job_end_time

with job(snakemake.log[0], threads=snakemake.threads):
    asking, prices = asked_of(
        snakemake.config,
        benchmark=snakemake.wildcards.benchmark,
        task=snakemake.wildcards.task,
        language=snakemake.wildcards.lang,
        prompt=snakemake.input.prompt,
    )
    run_ask(
        asking,
        tables={name: snakemake.input[name] for name in asking.task.reads},
        shard=snakemake.wildcards.shard,
        prices=prices,
        store=snakemake.params.store,
        outcomes=snakemake.output.outcomes,
        usage=snakemake.output.usage,
        check_stop=Stop(job_end_time()).check,
    )
