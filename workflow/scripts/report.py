from psibench.config import parse_benchmark, parse_model
from psibench.report.examples import read_examples
from psibench.report.filters import read_generation, read_verification
from psibench.report.languages import read_languages, read_summaries
from psibench.report.page import run_report
from psibench.stages.job import job

with job(snakemake.log[0], threads=snakemake.threads):
    given, asked = snakemake.input, snakemake.params
    tables = ("flow", "usage", "attrition")
    made = {name: dict(zip(asked.benchmarks, given[name], strict=True)) for name in tables}
    run_report(
        psi_table=given.psi_table,
        bucket_scores=given.bucket_scores,
        comparisons=given.comparisons,
        statistics=given.statistics,
        histograms=given.histograms,
        generation=read_generation(asked.generated, prices=asked.prices, **made),
        benchmarks={name: parse_benchmark(one) for name, one in asked.benchmarks.items()},
        models={name: parse_model(entry) for name, entry in asked.models.items()},
        verification=read_verification(asked.verification),
        views=asked.views,
        languages=read_languages(asked.languages),
        summaries=read_summaries(asked.summaries),
        examples=read_examples(asked.examples),
        published="".join(asked.published_page),
        title=asked.title,
        output=snakemake.output[0],
    )
