from psibench.filters.audit import run_audit_table
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_audit_table(
        candidates=snakemake.input.candidates,
        margins=snakemake.input.margins,
        verdicts=snakemake.input.verdicts,
        output=snakemake.output[0],
    )
