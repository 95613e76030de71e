from psibench.stages.job import job
from psibench.tables.domains import OfDomain
from psibench.translate.clean import run_clean_translations

with job(snakemake.log[0], threads=snakemake.threads):
    run_clean_translations(
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        source_corpus=snakemake.input.source_corpus,
        source_queries=snakemake.input.source_queries,
        source_qrels=snakemake.input.source_qrels,
        **{
            name: OfDomain(path, snakemake.wildcards.domain) if path else None
            for name in ("translated", "verdicts", "relocations")
            for path in [snakemake.input.get(name)]
        },
        **snakemake.params.clean,
        corpus=snakemake.output.corpus,
        queries=snakemake.output.queries,
        qrels=snakemake.output.qrels,
        dropped=snakemake.output.dropped,
        flow=snakemake.output.flow,
    )
