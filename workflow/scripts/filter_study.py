from psibench.filters.study import run_filter_study
from psibench.metrics.aggregate import UncertaintySettings
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_filter_study(
            snakemake.params.section,
            documents=domain.table(snakemake.input.documents),
            candidates=domain.table(snakemake.input.candidates),
            sampling=domain.table(snakemake.input.sampling),
            scores=domain.tables(snakemake.input.scores),
            query_scores=dict.fromkeys(snakemake.params.models, snakemake.input.query_scores),
            metric=snakemake.params.metric,
            settings=UncertaintySettings(**snakemake.params.uncertainty),
            outputs=domain.outputs,
        )
