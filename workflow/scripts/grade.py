from psibench.stages.grade import GradeOutputs, run_grade
from psibench.stages.job import job
from psibench.stages.negatives_job import grade_of

with job(snakemake.log[0], threads=snakemake.threads):
    section = grade_of(snakemake.params.grade["section"])
    run_grade(
        section,
        section.rule,
        unit=snakemake.params.grade["unit"],
        step=snakemake.params.grade["step"],
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        grades=snakemake.input.grades,
        outputs=GradeOutputs(**dict(snakemake.output.items())),
    )
