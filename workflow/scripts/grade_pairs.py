from psibench.filters.grade import run_grade_pairs
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_grade_pairs(
            snakemake.params.section,
            documents=domain.table(snakemake.input.documents),
            candidates=domain.table(snakemake.input.candidates),
            first=domain.table(snakemake.input.first) if snakemake.input.first else None,
            output=domain.outputs["pairs"],
        )
