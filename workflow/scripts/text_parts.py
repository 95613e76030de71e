from psibench.stages.job import job
from psibench.tables.domains import each_domain
from psibench.translate.translate import run_text_parts

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_text_parts(
            corpus=domain.table(snakemake.input.corpus),
            queries=domain.table(snakemake.input.queries),
            length_tokenizer=snakemake.params.length_tokenizer,
            max_part_tokens=snakemake.params.max_part_tokens,
            output=domain.outputs["parts"],
        )
