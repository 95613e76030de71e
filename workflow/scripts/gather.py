from psibench.stages.job import job
from psibench.stages.llm_gather import run_gather
from psibench.stages.llm_job import gathered_of

with job(snakemake.log[0], threads=snakemake.threads):
    task, section = gathered_of(snakemake.params.task, snakemake.wildcards.task)
    run_gather(
        task,
        section,
        step=snakemake.params.task["step"],
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        tables={name: snakemake.input[name] for name in task.reads},
        outcomes=snakemake.input.outcomes,
        usages=snakemake.input.usages,
        rows=snakemake.output.rows,
        dropped=snakemake.output.dropped,
        flow=snakemake.output.flow,
        usage=snakemake.output.usage,
    )
