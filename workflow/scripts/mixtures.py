from psibench.config.judging import Mixtures
from psibench.stages.job import job
from psibench.stages.mixtures import run_mixtures

with job(snakemake.log[0], threads=snakemake.threads):
    run_mixtures(
        Mixtures.model_validate(snakemake.params.section),
        documents=snakemake.input.documents,
        candidates=snakemake.input.queries,
        sampling=snakemake.input.sampling,
        output=snakemake.output.mixtures,
        table=snakemake.output.cells,
    )
