from psibench.stages.job import job
from psibench.translate.translate import run_text_parts

with job(snakemake.log[0], threads=snakemake.threads):
    run_text_parts(
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        length_tokenizer=snakemake.params.length_tokenizer,
        max_part_tokens=snakemake.params.max_part_tokens,
        output=snakemake.output.parts,
    )
