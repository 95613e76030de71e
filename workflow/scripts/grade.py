from psibench.filters.decide import Place
from psibench.filters.grade import run_grade
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_grade(
        snakemake.params.section,
        place=Place(
            **snakemake.params.counted,
            language=snakemake.wildcards.lang,
            domain=snakemake.wildcards.domain,
        ),
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        grades=snakemake.input.grades,
        outputs=dict(snakemake.output.items()),
    )
