from psibench.filters.decide import Place
from psibench.filters.grade import run_grade
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_grade(
            snakemake.params.section,
            place=Place(
                **snakemake.params.counted,
                language=snakemake.wildcards.lang,
                domain=domain.name,
            ),
            documents=domain.table(snakemake.input.documents),
            candidates=domain.table(snakemake.input.candidates),
            grades=domain.tables(snakemake.input.grades),
            outputs=domain.outputs,
        )
