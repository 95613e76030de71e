from psibench.filters.negatives import run_negatives
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_negatives(
        snakemake.params.section,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        recall=snakemake.input.recall,
        scores=snakemake.input.scores,
        output=snakemake.output[0],
    )
