# The tables and the page a user asks for.


use rule on_cpu as summaries with:
    input:
        **{name: per_pair(scored[name]) for name in ("psi", "buckets", "comparisons")},
        board_files=outside([board.path for board in settings.leaderboards]),
    output:
        **{name: f"results/{name}.parquet" for name in summaries.summary_names(plan)},
        **{
            f"{name}_csv": in_report(f"results/{name}.csv")
            for name in summaries.summary_names(plan)
        },
    params:
        boards=[dump(board) for board in settings.leaderboards],
        notice=settings.notice,


# Models that are meant to be less position-sensitive, before and after.
use rule on_cpu as mitigations with:
    input:
        psi_table="results/psi_table.parquet",
        comparisons="results/comparisons.parquet",
        read=summaries.paths_in(summaries.mitigation_costs(plan)),
    output:
        parquet="results/mitigations.parquet",
        csv=in_report("results/mitigations.csv"),
    params:
        costs=summaries.mitigation_costs(plan),
        store=settings.store,


# What every step left out, counted and used, checked against each other.
use rule on_cpu as ledger with:
    input:
        documents=per_job(summaries.ledger_tables, kind="documents"),
        dropped=per_job(summaries.ledger_tables, kind="dropped"),
        flows=per_job(summaries.ledger_tables, kind="flow"),
        usages=per_job(summaries.ledger_tables, kind="usage"),
        queries=per_job(summaries.ledger_tables, kind="queries"),
    output:
        attrition="results/{benchmark}/attrition.parquet",
        flow="results/{benchmark}/flow.parquet",
        usage="results/{benchmark}/llm_usage.parquet",
    wildcard_constraints:
        benchmark=patterns["not views"],
    resources:
        **needs(4000, 6, of=per_job(jobs.share_of_place), minutes=240),
    params:
        places=per_job(summaries.ledger_places),
        on_empty=setting("on_empty"),


use rule on_cpu as report with:
    input:
        psi_table="results/psi_table.parquet",
        bucket_scores="results/bucket_scores.parquet",
        statistics=per_benchmark("results/{benchmark}/statistics.parquet"),
        histograms=per_benchmark("results/{benchmark}/position_histogram.parquet"),
        attrition=per_benchmark("results/{benchmark}/attrition.parquet"),
        flow=per_benchmark("results/{benchmark}/flow.parquet"),
        usage=per_benchmark("results/{benchmark}/llm_usage.parquet"),
        verification_tables=summaries.paths_in(summaries.verification_files(plan)),
        language_tables=summaries.paths_in(summaries.language_files(plan)),
        example_tables=summaries.paths_in(summaries.example_files(plan)),
        published=outside(figure_files(references)),
        pages=[*linked_pages],
        training=["results/training_buckets.parquet"] if training_tables else [],
    output:
        page=in_report("results/report.html"),
    resources:
        **needs(4000, 3, minutes=120),
    params:
        benchmarks={name: dump(b.section) for name, b in plan.queried.items()},
        models={name: dump(plan.models[name]) for name in settings.models},
        verification=summaries.verification_files(plan),
        languages=summaries.language_files(plan),
        examples=summaries.example_files(plan),
        references=references,
        # What was probed before is linked; `make probes` comes after the report, or never.
        links=lambda wildcards: {
            Path(page).name: name
            for page, name in (
                linked_pages | {"results/probes.html": "Probes"}
            ).items()
            if page in linked_pages or Path(page).exists()
        },
        title=settings.report.title,
        notice=settings.notice,
