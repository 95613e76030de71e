from psibench.stages.job import job
from psibench.translate.clean import PREFIXES, REFUSALS, run_mark_translations

with job(snakemake.log[0], threads=snakemake.threads):
    run_mark_translations(
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        text_parts=snakemake.input.text_parts,
        translations=snakemake.input.translations,
        prefixes=snakemake.params.prefixes,
        refusals=snakemake.params.refusals,
        step=snakemake.params.step,
        translated=snakemake.output.translated,
        suspects=snakemake.output.suspects,
        dropped=snakemake.output.dropped,
        flow=snakemake.output.flow,
        prefix_list=snakemake.input.get("prefix_list") or PREFIXES,
        refusal_list=snakemake.input.get("refusal_list") or REFUSALS,
    )
