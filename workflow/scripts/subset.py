from psibench.config.judging import Tiny
from psibench.stages.job import job
from psibench.stages.subset import run_subset

with job(snakemake.log[0], threads=snakemake.threads):
    run_subset(
        Tiny.model_validate(snakemake.params.section),
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        corpus_out=snakemake.output.corpus,
        queries_out=snakemake.output.queries,
        qrels_out=snakemake.output.qrels,
    )
