# The tables and the page a user asks for.


rule psi_table:
    input:
        per_pair(
            "results/{benchmark}/tables/{model}/{query_lang}-{corpus_lang}.psi.parquet"
        ),
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
            "results/{benchmark}/tables/{model}/{query_lang}-{corpus_lang}.buckets.parquet"
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
        statistics=per_benchmark_domain(
            "results/{benchmark}/build/{lang}/{domain}/statistics.parquet"
        ),
        histograms=per_benchmark_domain(
            "results/{benchmark}/build/{lang}/{domain}/position_histogram.parquet"
        ),
        attrition=per_benchmark("results/{benchmark}/attrition.parquet"),
        flow=per_generated_domain(
            "results/{benchmark}/build/{lang}/{domain}/flow.parquet"
        ),
        usage=per_generated_domain(
            "results/{benchmark}/build/{lang}/{domain}/llm_usage.parquet"
        ),
        dropped=per_generated_domain(
            "results/{benchmark}/build/{lang}/{domain}/dropped.parquet"
        ),
        verification=[
            path for files in verification_files() for path in paths_in(files)
        ],
        published=published_tables(),
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
        generated=list(lookup.generated_domains()),
        verification=verification_files(),
        views=lookup.report_views(),
        prices={
            name: lookup.dump(price) for name, price in lookup.used_prices().items()
        },
        title=settings.report.title,
        version=STAGE_VERSIONS["report"],
    message:
        "Writing {output}"
    script:
        "../scripts/report.py"
