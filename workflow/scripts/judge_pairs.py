from psibench.filters.negatives import run_judge_pairs
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_judge_pairs(
        snakemake.params.section,
        number=int(snakemake.wildcards.number),
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        negatives=snakemake.input.negatives,
        earlier=snakemake.input.earlier,
        output=snakemake.output[0],
    )
