from psibench.filters.decide import Place
from psibench.filters.negatives import run_remove_negatives
from psibench.stages.job import job
from psibench.tables.domains import OfDomain

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
        negatives=OfDomain(snakemake.input.negatives, snakemake.wildcards.domain),
        scores=[OfDomain(one, snakemake.wildcards.domain) for one in snakemake.input.scores],
        judged=[OfDomain(one, snakemake.wildcards.domain) for one in snakemake.input.judged],
        outputs=dict(snakemake.output.items()),
    )
