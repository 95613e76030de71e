from psibench.generate.sampling import run_sample
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with job(snakemake.log[0], threads=snakemake.threads):
    sections = snakemake.params.sections
    with each_domain(list(sections), dict(snakemake.output.items())) as domains:
        for domain in domains:
            run_sample(
                sections[domain.name],
                language=snakemake.wildcards.lang,
                domain=domain.name,
                **domain.outputs,
            )
