from psibench.config import parse_benchmark, parse_model
from psibench.stages.job import job
from psibench.stages.report import read_generation, run_report
from psibench.stages.report_verification import read_verification

with job(snakemake.log[0], threads=snakemake.threads):
    benchmarks, models = snakemake.params.benchmarks, snakemake.params.models
    run_report(
        psi_table=snakemake.input.psi_table,
        bucket_scores=snakemake.input.bucket_scores,
        statistics=list(snakemake.input.statistics),
        histograms=list(snakemake.input.histograms),
        generation=read_generation(
            snakemake.params.generated,
            flow=snakemake.input.flow,
            usage=snakemake.input.usage,
            dropped=snakemake.input.dropped,
            prices=snakemake.params.prices,
        ),
        benchmarks={name: parse_benchmark(section) for name, section in benchmarks.items()},
        models={name: parse_model(entry) for name, entry in models.items()},
        verification=read_verification(snakemake.params.verification),
        views=snakemake.params.views,
        title=snakemake.params.title,
        output=snakemake.output[0],
    )
