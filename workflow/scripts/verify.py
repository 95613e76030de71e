from psibench.filters.decide import Place
from psibench.filters.verify import run_verify
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    run_verify(
        snakemake.params.section,
        place=Place(
            **snakemake.params.counted,
            language=snakemake.wildcards.lang,
            domain=snakemake.wildcards.domain,
        ),
        documents=snakemake.input.documents,
        sampling=snakemake.input.sampling,
        candidates=snakemake.input.candidates,
        scores=snakemake.input.scores,
        outputs=dict(snakemake.output.items()),
    )
