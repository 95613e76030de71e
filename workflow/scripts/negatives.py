from psibench.stages.job import job
from psibench.stages.negatives import run_negative_candidates
from psibench.stages.negatives_job import negatives_of

with job(snakemake.log[0], threads=snakemake.threads):
    run_negative_candidates(
        negatives_of(snakemake.params.section),
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        recall=snakemake.input.recall,
        scores=snakemake.input.scores,
        output=snakemake.output[0],
    )
