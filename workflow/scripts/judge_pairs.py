from psibench.filters.negatives import run_judge_pairs
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_judge_pairs(
            snakemake.params.section,
            number=int(snakemake.wildcards.number),
            corpus=domain.table(snakemake.input.corpus),
            queries=domain.table(snakemake.input.queries),
            negatives=domain.table(snakemake.input.negatives),
            earlier=domain.tables(snakemake.input.earlier),
            output=domain.outputs["pairs"],
        )
