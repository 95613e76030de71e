from psibench.stages.job import job
from psibench.stages.verify import VerifyOutputs, run_verify
from psibench.stages.verify_job import verified_of

with job(snakemake.log[0], threads=snakemake.threads):
    run_verify(
        verified_of(snakemake.params.verify),
        unit=snakemake.params.verify["unit"],
        step=snakemake.params.verify["step"],
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        documents=snakemake.input.documents,
        sampling=snakemake.input.sampling,
        candidates=snakemake.input.candidates,
        scores=snakemake.input.scores,
        outputs=VerifyOutputs(**dict(snakemake.output.items())),
    )
