# The tables and the report over all benchmarks.
board_files = [board.path for board in settings.leaderboards]


use rule on_cpu as summaries with:
    input:
        **{name: per_pair(scored[name]) for name in ("psi", "buckets", "comparisons")},
        board_files=outside(board_files),
    output:
        **{name: f"results/{name}.parquet" for name in summaries.summary_names(plan)},
        **{
            f"{name}_csv": in_report(f"results/{name}.csv")
            for name in summaries.summary_names(plan)
        },
    log:
        "logs/summaries.log",
    benchmark:
        "benchmarks/summaries.tsv"
    params:
        content=content("summaries", board_files),
        boards=config["leaderboards"],
        notice=settings.notice,
        stage=STAGES["summaries"],


# Dropped rows, counts and usage of all steps, checked against each other.
use rule on_cpu as ledger with:
    input:
        documents=ledger("documents"),
        dropped=ledger("dropped"),
        flows=ledger("flow"),
        usages=ledger("usage"),
        queries=ledger("queries"),
    output:
        attrition="results/{benchmark}/attrition.parquet",
        flow="results/{benchmark}/flow.parquet",
        usage="results/{benchmark}/llm_usage.parquet",
    log:
        "logs/{benchmark}/ledger.log",
    benchmark:
        "benchmarks/{benchmark}/ledger.tsv"
    wildcard_constraints:
        benchmark=patterns["benchmarks"],
    resources:
        **needs(
            4000,
            6,
            of=lambda w: jobs.share_of_place(plan, w.benchmark),
            minutes=240,
        ),
    params:
        places=lambda w: summaries.ledger_places(plan, w.benchmark),
        on_empty=leaf("on_empty"),
        stage=STAGES["ledger"],


use rule on_cpu as report with:
    input:
        psi_table=rules.summaries.output.psi_table,
        bucket_scores=rules.summaries.output.bucket_scores,
        statistics=collect(rules.statistics.output.statistics, benchmark=plan.queried),
        histograms=collect(rules.statistics.output.histogram, benchmark=plan.queried),
        attrition=collect(rules.ledger.output.attrition, benchmark=plan.queried),
        flow=collect(rules.ledger.output.flow, benchmark=plan.queried),
        usage=collect(rules.ledger.output.usage, benchmark=plan.queried),
        verification_tables=summaries.paths_in(summaries.verification_files(plan)),
        language_tables=summaries.paths_in(summaries.language_files(plan)),
        example_tables=summaries.paths_in(summaries.example_files(plan)),
        published=outside(figure_files(references)),
        pages=[*linked_pages],
        training=["results/training_table.parquet"] if has_training else [],
    output:
        page=in_report("results/report.html"),
    log:
        "logs/report.log",
    benchmark:
        "benchmarks/report.tsv"
    resources:
        **needs(4000, 3, minutes=120),
    params:
        content=content("report", figure_files(references)),
        benchmarks={name: config["benchmarks"][name] for name in plan.queried},
        models={name: config["registry"][name] for name in settings.models},
        verification=summaries.verification_files(plan),
        languages=summaries.language_files(plan),
        examples=summaries.example_files(plan),
        references=references,
        # Links an existing page of probes; the target `probes` may be built later, or never.
        links=lambda w: {
            Path(page).name: name
            for page, name in (
                linked_pages | {"results/probes.html": "Probes"}
            ).items()
            if page in linked_pages or Path(page).exists()
        },
        title=settings.report.title,
        notice=settings.notice,
        stage=STAGES["report"],
