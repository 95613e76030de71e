from psibench.filters.grade import run_grade_pairs
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_grade_pairs(
        snakemake.params.section,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        first=snakemake.input.first or None,
        output=snakemake.output[0],
    )
