from psibench.stages.job import job
from psibench.stages.negatives_job import negatives_of
from psibench.stages.remove_negatives import NegativesOutputs, run_remove_negatives

with job(snakemake.log[0], threads=snakemake.threads):
    run_remove_negatives(
        negatives_of(snakemake.params.removal["section"]),
        unit=snakemake.params.removal["unit"],
        step=snakemake.params.removal["step"],
        language=snakemake.wildcards.lang,
        domain=snakemake.wildcards.domain,
        corpus=snakemake.input.corpus,
        queries=snakemake.input.queries,
        qrels=snakemake.input.qrels,
        negatives=snakemake.input.negatives,
        scores=snakemake.input.scores,
        judged=snakemake.input.judged,
        outputs=NegativesOutputs(**dict(snakemake.output.items())),
    )
