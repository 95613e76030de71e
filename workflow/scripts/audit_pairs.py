from psibench.filters.audit import run_audit_pairs
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_audit_pairs(
            snakemake.params.section,
            documents=domain.table(snakemake.input.documents),
            candidates=domain.table(snakemake.input.candidates),
            margins=domain.table(snakemake.input.margins),
            output=domain.outputs["pairs"],
        )
