from psibench.filters.decide import Place
from psibench.filters.negatives import run_remove_negatives
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_remove_negatives(
        snakemake.params.section,
        place=Place(
            **snakemake.params.counted,
            language=snakemake.wildcards.lang,
            domain=snakemake.wildcards.domain,
        ),
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        negatives=snakemake.input.negatives,
        scores=snakemake.input.scores,
        judged=snakemake.input.judged,
        outputs=dict(snakemake.output.items()),
    )
