from psibench.filters.study import run_filter_study
from psibench.metrics.aggregate import UncertaintySettings
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_filter_study(
        snakemake.params.section,
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        sampling=snakemake.input.sampling,
        scores=snakemake.input.scores,
        query_scores=dict.fromkeys(snakemake.params.models, snakemake.input.query_scores),
        metric=snakemake.params.metric,
        settings=UncertaintySettings(**snakemake.params.uncertainty),
        outputs=dict(snakemake.output.items()),
    )
