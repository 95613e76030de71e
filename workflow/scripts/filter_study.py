from psibench.metrics.aggregate import UncertaintySettings
from psibench.stages.filter_study import StudyOutputs, run_filter_study
from psibench.stages.job import job
from psibench.stages.verify_job import verified_of

with job(snakemake.log[0], threads=snakemake.threads):
    run_filter_study(
        verified_of(snakemake.params.verify),
        documents=snakemake.input.documents,
        candidates=snakemake.input.candidates,
        sampling=snakemake.input.sampling,
        scores=snakemake.input.scores,
        query_scores=dict.fromkeys(snakemake.params.models, snakemake.input.query_scores),
        metric=snakemake.params.metric,
        outputs=StudyOutputs(**dict(snakemake.output.items())),
        settings=UncertaintySettings(**snakemake.params.uncertainty),
    )
