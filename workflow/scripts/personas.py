from psibench.config import Encoding, parse_model
from psibench.generate.personas import run_personas
from psibench.stages.job import job
from psibench.tables.domains import each_domain

with (
    job(snakemake.log[0], threads=snakemake.threads),
    each_domain(snakemake.params.domains, dict(snakemake.output.items())) as domains,
):
    for domain in domains:
        run_personas(
            snakemake.params.section,
            parse_model(snakemake.params.entry),
            documents=domain.table(snakemake.input.documents),
            store=snakemake.params.store,
            settings=Encoding(
                device=snakemake.resources.device,
                dtype=snakemake.params.dtype,
                tokens_per_batch=snakemake.resources.tokens_per_batch,
                tokens_per_part=snakemake.resources.tokens_per_part,
                storage=snakemake.params.storage,
            ),
            output=domain.outputs["candidates"],
        )
