from psibench.config import Uncertainty
from psibench.metrics.aggregate import RowLabels
from psibench.stages.job import job
from psibench.stages.score import ScoredModel, run_aggregate

with job(snakemake.log[0], threads=snakemake.threads):
    run_aggregate(
        [
            ScoredModel(**model, scores=path)
            for model, path in zip(snakemake.params.models, snakemake.input, strict=True)
        ],
        labels=RowLabels(
            benchmark=snakemake.wildcards.benchmark,
            query_lang=snakemake.wildcards.query_lang,
            corpus_lang=snakemake.wildcards.corpus_lang,
        ),
        metrics=snakemake.params.metrics,
        schemes=snakemake.params.schemes,
        length_buckets=snakemake.params.length_buckets,
        uncertainty=Uncertainty(**snakemake.params.uncertainty),
        control=snakemake.params.control,
        windows=[tuple(pair) for pair in snakemake.params.windows],
        buckets=snakemake.output.buckets,
        psi=snakemake.output.psi,
        comparisons=snakemake.output.comparisons,
        threads=snakemake.threads,
    )
