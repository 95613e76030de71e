from psibench.config import Uncertainty
from psibench.metrics.aggregate import RowLabels
from psibench.stages.job import job
from psibench.stages.score import run_aggregate

with job(snakemake.log[0], threads=snakemake.threads):
    run_aggregate(
        labels=RowLabels(
            benchmark=snakemake.wildcards.benchmark,
            query_lang=snakemake.wildcards.query_lang,
            corpus_lang=snakemake.wildcards.corpus_lang,
            model=snakemake.wildcards.model,
            kind=snakemake.params.kind,
        ),
        scores=snakemake.input[0],
        metrics=snakemake.params.metrics,
        schemes=snakemake.params.schemes,
        length_buckets=snakemake.params.length_buckets,
        reading_known=snakemake.params.reading_known,
        uncertainty=Uncertainty(**snakemake.params.uncertainty),
        buckets=snakemake.output.buckets,
        psi=snakemake.output.psi,
        threads=snakemake.threads,
    )
