from psibench.filters.audit import run_audit_pairs
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_audit_pairs(
        snakemake.params.section,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        margins=snakemake.input.margins,
        output=snakemake.output[0],
    )
