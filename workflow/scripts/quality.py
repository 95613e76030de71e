from psibench.stages.job import job
from psibench.translate.quality import run_quality

with job(snakemake.log[0], threads=snakemake.threads):
    run_quality(
        languages=snakemake.params.languages,
        grades=list(snakemake.input.grades),
        human=list(snakemake.input.human),
        quality=snakemake.output.quality,
        agreement=snakemake.output.agreement,
        confusion=snakemake.output.get("confusion"),
    )
