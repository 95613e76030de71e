from psibench.filters.decide import Place
from psibench.filters.verify import run_verify
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_verify(
            snakemake.params.section,
            place=Place(
                **snakemake.params.counted,
                language=snakemake.wildcards.lang,
                domain=domain.name,
            ),
            documents=domain.table(snakemake.input.documents),
            sampling=domain.table(snakemake.input.sampling),
            candidates=domain.table(snakemake.input.candidates),
            scores=domain.tables(snakemake.input.scores),
            outputs=domain.outputs,
        )
