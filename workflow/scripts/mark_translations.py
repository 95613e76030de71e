from psibench.stages.job import job
from psibench.tables.domains import each_domain
from psibench.translate.clean import PREFIXES, REFUSALS, run_mark_translations

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_mark_translations(
            language=snakemake.wildcards.lang,
            domain=domain.name,
            corpus=domain.table(snakemake.input.corpus),
            queries=domain.table(snakemake.input.queries),
            text_parts=domain.table(snakemake.input.text_parts),
            translations=domain.table(snakemake.input.translations),
            prefixes=snakemake.params.prefixes,
            refusals=snakemake.params.refusals,
            step=snakemake.params.step,
            prefix_list=snakemake.input.get("prefix_list") or PREFIXES,
            refusal_list=snakemake.input.get("refusal_list") or REFUSALS,
            **domain.outputs,
        )
