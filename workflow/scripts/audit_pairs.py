from psibench.stages.audit import run_audit_pairs
from psibench.stages.job import job
from psibench.stages.negatives_job import audit_of

with job(snakemake.log[0], threads=snakemake.threads):
    run_audit_pairs(
        audit_of(snakemake.params.section),
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        margins=snakemake.input.margins,
        output=snakemake.output[0],
    )
