from psibench.config import Uncertainty
from psibench.metrics.aggregate import RowLabels
from psibench.metrics.scoring import ScoredModel, run_score, take_runs
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    wildcards, params, output = snakemake.wildcards, snakemake.params, snakemake.output
    if output.get("runs"):
        take_runs(snakemake.input.wider, snakemake.input.asked, outputs=output.runs)
    run_score(
        [ScoredModel(**model) for model in params.models],
        domains=params.domains,
        asked=snakemake.input.asked,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        labels=RowLabels(wildcards.benchmark, wildcards.query_lang, wildcards.corpus_lang),
        metrics=params.metrics,
        psi_metrics=params.psi_metrics,
        schemes=params.schemes,
        length_buckets=params.length_buckets,
        uncertainty=Uncertainty(**params.uncertainty),
        control=params.control,
        windows=[tuple(pair) for pair in params.windows],
        scores=output.scores,
        buckets=output.buckets,
        psi=output.psi,
        comparisons=output.comparisons,
        threads=snakemake.threads,
    )
