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
        boards=[board.path for board in settings.leaderboards],
    output:
        [
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
        version=STAGE_VERSIONS["summaries"],
    message:
        "Writing results/psi_table.csv and the tables beside it"
    script:
        "../scripts/summaries.py"


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
        version=STAGE_VERSIONS["published"],
    message:
        "Writing {output.html}"
    script:
        "../scripts/published.py"


rule attrition:
    input:
        lambda wildcards: [
            f"results/{wildcards.benchmark}/build/{lang}/{domain}/dropped.parquet"
            for lang, domain in lookup.languages_and_domains(wildcards.benchmark)
        ],
    output:
        parquet="results/{benchmark}/attrition.parquet",
    log:
        "logs/{benchmark}/attrition.log",
    benchmark:
        "benchmarks/{benchmark}/attrition.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(2000, 60 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        table="attrition",
        version=STAGE_VERSIONS["collect"],
    message:
        "Collecting what {wildcards.benchmark} dropped"
    script:
        "../scripts/collect.py"


rule report:
    input:
        psi_table="results/psi_table.parquet",
        bucket_scores="results/bucket_scores.parquet",
        comparisons="results/comparisons.parquet",
        summaries=[f"results/{name}.parquet" for name in summary_names(lookup)],
        statistics=per_language("results/{benchmark}/build/{lang}/statistics.parquet"),
        histograms=per_language(
            "results/{benchmark}/build/{lang}/position_histogram.parquet"
        ),
        attrition=per_benchmark("results/{benchmark}/attrition.parquet"),
        flow=per_asked_domain("results/{benchmark}/build/{lang}/{domain}/flow.parquet"),
        usage=per_asked_domain(
            "results/{benchmark}/build/{lang}/{domain}/llm_usage.parquet"
        ),
        dropped=per_asked_domain(
            "results/{benchmark}/build/{lang}/{domain}/dropped.parquet"
        ),
        verification=[
            path for files in verification_files() for path in paths_in(files)
        ],
        languages=[path for files in language_files(lookup) for path in paths_in(files)],
        examples=[path for files in example_files(lookup) for path in paths_in(files)],
        published=published_tables(),
        published_page=published_page(),
    output:
        "results/report.html",
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
        generated=lookup.asked_domains(),
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
        version=STAGE_VERSIONS["report"],
    message:
        "Writing {output}"
    script:
        "../scripts/report.py"
