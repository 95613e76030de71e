from psibench.stages.job import job
from psibench.stages.sample import parse_sample_params, run_sample

with job(snakemake.log[0], threads=snakemake.threads):
    source, passages, sample, length_tokenizer = parse_sample_params(snakemake.params.section)
    run_sample(
        source,
        passages=passages,
        sample=sample,
        length_tokenizer=length_tokenizer,
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=snakemake.output.documents,
        sampling=snakemake.output.sampling,
        dropped=snakemake.output.dropped,
        id_prefix=snakemake.params.section.get("id_prefix", ""),
    )
