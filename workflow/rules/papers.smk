# Published numbers next to the run's: a page, and parts of the report and the page of probes.
from psibench.papers.comparison import published_facts
from psibench.papers.figures import (
    figure_files,
    probe_figures,
    published_files,
    report_references,
)

# A run with `limit` or `stand_ins` is not comparable to the papers.
compared = {} if settings.notice else plan.benchmarks
compared_sections = {
    name: planned.section for name, planned in compared.items() if planned.has_queries
}
# For the report: tables in its panels, and linked pages with their names.
references = report_references()
linked_pages = (
    {"results/published.html": "Beside the papers’ figures"}
    if plan.runs and published_facts(compared_sections)
    else {}
)


use rule on_cpu as published with:
    input:
        psi_table="results/psi_table.parquet",
        bucket_scores="results/bucket_scores.parquet",
        published=outside(published_files()),
    output:
        parquet="results/published_comparison.parquet",
        csv=in_report("results/published_comparison.csv"),
        html=in_report("results/published.html"),
    log:
        "logs/published.log",
    benchmark:
        "benchmarks/published.tsv"
    params:
        content=content("published", published_files()),
        benchmarks={name: config["benchmarks"][name] for name in compared_sections},
        run_title=settings.report.title,
        stage=STAGES["published"],
