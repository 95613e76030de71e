from psibench.stages.job import job
from psibench.stages.llm_job import gather_domains

with job(snakemake.log[0], threads=snakemake.threads):
    gather_domains(
        snakemake.params.made,
        snakemake.params.domains,
        task=snakemake.wildcards.task,
        language=snakemake.wildcards.lang,
        given=snakemake.input,
        outcomes=snakemake.input.outcomes,
        usages=snakemake.input.usages,
        outputs=dict(snakemake.output.items()),
    )
