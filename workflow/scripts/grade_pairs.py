from psibench.stages.grade import run_grade_pairs
from psibench.stages.job import job
from psibench.stages.negatives_job import grade_of

with job(snakemake.log[0], threads=snakemake.threads):
    section = grade_of(snakemake.params.section)
    run_grade_pairs(
        section,
        section.rule,
        number=1 if snakemake.wildcards.round == "grade_first" else 2,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        first=snakemake.input.first or None,
        output=snakemake.output[0],
    )
