from psibench.stages.job import job
from psibench.stages.score import run_score

with job(snakemake.log[0], threads=snakemake.threads):
    encodings = snakemake.input.get("encodings")
    run_score(
        domains=snakemake.params.domains,
        run=snakemake.input.run,
        asked=snakemake.input.asked,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        encodings=encodings if isinstance(encodings, str) else None,
        metrics=snakemake.params.metrics,
        output=snakemake.output[0],
    )
