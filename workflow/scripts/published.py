from psibench.config import parse_benchmark
from psibench.config.published import published_facts
from psibench.report.published import run_published
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    sections = snakemake.params.benchmarks
    run_published(
        psi_table=snakemake.input.psi_table,
        bucket_scores=snakemake.input.bucket_scores,
        benchmarks=published_facts({name: parse_benchmark(s) for name, s in sections.items()}),
        published=list(snakemake.input.published),
        parquet=snakemake.output.parquet,
        csv=snakemake.output.csv,
        html=snakemake.output.html,
    )
