# The tables and the page a user asks for.


rule summaries:
    input:
        psi=per_pair(
            "results/{benchmark}/tables/{query_lang}-{corpus_lang}.psi.parquet"
        ),
        buckets=per_pair(
            "results/{benchmark}/tables/{query_lang}-{corpus_lang}.buckets.parquet"
        ),
        comparisons=per_pair(
            "results/{benchmark}/tables/{query_lang}-{corpus_lang}.comparisons.parquet"
        ),
        board_files=[board.path for board in settings.leaderboards],
    output:
        tables=[
            f"results/{name}.{suffix}"
            for name in summary_names(lookup)
            for suffix in ("parquet", "csv")
        ],
    log:
        "logs/summaries.log",
    benchmark:
        "benchmarks/summaries.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(2000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        boards=[lookup.dump(board) for board in settings.leaderboards],
        stage=STAGES["summaries"],
    message:
        "Writing results/psi_table.csv and the tables beside it"
    script:
        "../scripts/stage.py"


rule published:
    input:
        psi_table="results/psi_table.parquet",
        bucket_scores="results/bucket_scores.parquet",
        published=published_tables(),
    output:
        parquet="results/published_comparison.parquet",
        csv="results/published_comparison.csv",
        html="results/published.html",
    log:
        "logs/published.log",
    benchmark:
        "benchmarks/published.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(2000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        benchmarks={name: lookup.dump(b) for name, b in settings.benchmarks.items()},
        stage=STAGES["published"],
    message:
        "Writing {output.html}"
    script:
        "../scripts/stage.py"


# What every step left out, counted and used, checked against each other.
rule ledger:
    input:
        documents=ledger_tables("documents"),
        dropped=ledger_tables("dropped"),
        flows=ledger_tables("flow"),
        usages=ledger_tables("usage"),
    output:
        attrition="results/{benchmark}/attrition.parquet",
        flow="results/{benchmark}/flow.parquet",
        usage="results/{benchmark}/llm_usage.parquet",
    log:
        "logs/{benchmark}/ledger.log",
    benchmark:
        "benchmarks/{benchmark}/ledger.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("own"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 6 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        places=lambda wildcards: lookup.ledger_places(wildcards.benchmark),
        stage=STAGES["ledger"],
    message:
        "Balancing the ledger of {wildcards.benchmark}"
    script:
        "../scripts/stage.py"


rule report:
    input:
        psi_table="results/psi_table.parquet",
        bucket_scores="results/bucket_scores.parquet",
        comparisons="results/comparisons.parquet",
        summary_tables=[f"results/{name}.parquet" for name in summary_names(lookup)],
        statistics=per_benchmark("results/{benchmark}/statistics.parquet"),
        histograms=per_benchmark("results/{benchmark}/position_histogram.parquet"),
        attrition=per_benchmark("results/{benchmark}/attrition.parquet"),
        flow=per_benchmark("results/{benchmark}/flow.parquet"),
        usage=per_benchmark("results/{benchmark}/llm_usage.parquet"),
        verification_tables=[
            path for files in verification_files() for path in paths_in(files)
        ],
        language_tables=[
            path for files in language_files(lookup) for path in paths_in(files)
        ],
        example_tables=[
            path for files in example_files(lookup) for path in paths_in(files)
        ],
        published=published_tables(),
        comparison_page=published_page(),
    output:
        page="results/report.html",
    log:
        "logs/report.log",
    benchmark:
        "benchmarks/report.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 60 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        benchmarks={name: lookup.dump(b) for name, b in settings.benchmarks.items()},
        models={name: lookup.dump(lookup.models[name]) for name in settings.models},
        generated=lookup.asked_languages(),
        verification=verification_files(),
        views=lookup.report_views(),
        languages=language_files(lookup),
        summaries={
            name: f"results/{name}.parquet" for name in summary_names(lookup)[3:]
        },
        examples=example_files(lookup),
        published_page=[Path(path).name for path in published_page()],
        prices={
            name: lookup.dump(price) for name, price in lookup.used_prices().items()
        },
        title=settings.report.title,
        stage=STAGES["report"],
    message:
        "Writing {output}"
    script:
        "../scripts/stage.py"
