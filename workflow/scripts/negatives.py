from psibench.filters.negatives import run_negatives
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_negatives(
            snakemake.params.section,
            queries=domain.table(snakemake.input.queries),
            qrels=domain.table(snakemake.input.qrels),
            recall=snakemake.input.recall,
            top_k=snakemake.params.top_k,
            scores=domain.tables(snakemake.input.scores),
            output=domain.outputs["negatives"],
        )
