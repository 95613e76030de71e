from psibench.stages.job import job
from psibench.stages.score import run_score

with job(snakemake.log[0], threads=snakemake.threads):
    encodings, seen = (snakemake.input.get(name) or None for name in ("encodings", "seen"))
    run_score(
        domains=snakemake.params.domains,
        run=snakemake.input.run,
        asked=snakemake.input.asked,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        encodings=encodings,
        seen=seen,
        metrics=snakemake.params.metrics,
        output=snakemake.output[0],
    )
