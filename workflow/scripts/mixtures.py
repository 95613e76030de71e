from psibench.filters.mixtures import run_mixtures
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_mixtures(
        snakemake.params.section,
        documents=snakemake.input.documents,
        queries=snakemake.input.queries,
        sampling=snakemake.input.sampling,
        mixtures=snakemake.output.mixtures,
        cells=snakemake.output.cells,
    )
