from psibench.stages.job import job
from psibench.translate.quality import run_quality_sample

with job(snakemake.log[0], threads=snakemake.threads):
    run_quality_sample(
        languages=snakemake.params.languages,
        domains=snakemake.params.domains,
        source_corpora=list(snakemake.input.source_corpora),
        corpora=list(snakemake.input.corpora),
        per_stratum=snakemake.params.per_stratum,
        seed=snakemake.params.seed,
        output=snakemake.output[0],
    )
