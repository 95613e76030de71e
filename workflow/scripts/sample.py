from psibench.generate.sampling import run_sample
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_sample(
        snakemake.params.section,
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=snakemake.output.documents,
        sampling=snakemake.output.sampling,
        dropped=snakemake.output.dropped,
    )
