from psibench.filters.mixtures import run_mixtures
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_mixtures(
            snakemake.params.section,
            documents=domain.table(snakemake.input.documents),
            queries=domain.table(snakemake.input.queries),
            sampling=domain.table(snakemake.input.sampling),
            **domain.outputs,
        )
