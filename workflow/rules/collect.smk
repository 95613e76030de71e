# The tables and the page a user asks for.


rule psi_table:
    input:
        per_pair("results/{benchmark}/tables/{query_lang}-{corpus_lang}.psi.parquet"),
    output:
        parquet="results/psi_table.parquet",
        csv="results/psi_table.csv",
    log:
        "logs/psi_table.log",
    benchmark:
        "benchmarks/psi_table.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        table="psi_table",
        version=STAGE_VERSIONS["collect"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/collect.py"


rule bucket_scores:
    input:
        per_pair(
            "results/{benchmark}/tables/{query_lang}-{corpus_lang}.buckets.parquet"
        ),
    output:
        parquet="results/bucket_scores.parquet",
        csv="results/bucket_scores.csv",
    log:
        "logs/bucket_scores.log",
    benchmark:
        "benchmarks/bucket_scores.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        table="bucket_scores",
        version=STAGE_VERSIONS["collect"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/collect.py"


rule comparisons:
    input:
        per_pair(
            "results/{benchmark}/tables/{query_lang}-{corpus_lang}.comparisons.parquet"
        ),
    output:
        parquet="results/comparisons.parquet",
        csv="results/comparisons.csv",
    log:
        "logs/comparisons.log",
    benchmark:
        "benchmarks/comparisons.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        table="comparisons",
        version=STAGE_VERSIONS["collect"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/collect.py"


rule position_trend:
    input:
        "results/bucket_scores.parquet",
    output:
        parquet="results/position_trend.parquet",
        csv="results/position_trend.csv",
    log:
        "logs/position_trend.log",
    benchmark:
        "benchmarks/position_trend.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(2000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        version=STAGE_VERSIONS["position_trend"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/position_trend.py"


rule language_averages:
    input:
        "results/psi_table.parquet",
    output:
        parquet="results/language_averages.parquet",
        csv="results/language_averages.csv",
    log:
        "logs/language_averages.log",
    benchmark:
        "benchmarks/language_averages.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(2000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        version=STAGE_VERSIONS["language_averages"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/language_averages.py"


rule leaderboards:
    input:
        averages="results/language_averages.parquet",
        boards=[board.path for board in settings.leaderboards],
    output:
        parquet="results/leaderboards.parquet",
        csv="results/leaderboards.csv",
    log:
        "logs/leaderboards.log",
    benchmark:
        "benchmarks/leaderboards.tsv"
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
        version=STAGE_VERSIONS["leaderboards"],
    message:
        "Writing {output.csv}"
    script:
        "../scripts/leaderboards.py"


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
        summaries=list(summary_files(lookup).values()),
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
        published_page="results/published.html",
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
        summaries=summary_files(lookup),
        examples=example_files(lookup),
        published_page="published.html",
        prices={
            name: lookup.dump(price) for name, price in lookup.used_prices().items()
        },
        title=settings.report.title,
        version=STAGE_VERSIONS["report"],
    message:
        "Writing {output}"
    script:
        "../scripts/report.py"
