# From a source to a benchmark's tables, where no language model is asked.


use rule on_cpu as build with:
    input:
        per_job(paths.sources_of),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/dropped.parquet",
    log:
        "logs/{benchmark}/build/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/build/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["native direct"],
    resources:
        mem_mb=mib(4000),
        runtime=minutes(60),
    params:
        section=per_job(jobs.build),
        stage=STAGES["build"],
    message:
        "Building {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"


use rule on_cpu as statistics with:
    input:
        corpora=per_job(paths.language_tables, table="corpus"),
        queries=per_job(paths.language_tables, table="queries"),
        qrels=per_job(paths.language_tables, table="qrels"),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        statistics="results/{benchmark}/statistics.parquet",
        histogram="results/{benchmark}/position_histogram.parquet",
        relocation="results/{benchmark}/relocation.parquet",
    log:
        "logs/{benchmark}/statistics.log",
    benchmark:
        "benchmarks/{benchmark}/statistics.tsv"
    wildcard_constraints:
        benchmark=patterns["own"],
    resources:
        mem_mb=mib(4000, 0.2),
        runtime=minutes(240),
    params:
        domains=per_job(paths.language_domains),
        schemes=lambda wildcards: own(wildcards).section.buckets,
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["statistics"],
    message:
        "Statistics of {wildcards.benchmark}"


# How alike the domains are, on demand: the mean vectors of their documents.
use rule on_cpu as similarity with:
    input:
        encodings=per_job(paths.encodings, side="lang"),
        own=per_job(paths.text_filter_tables, side="lang", table="corpus"),
    output:
        similarity="results/{benchmark}/similarity/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/similarity/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/similarity/{model}/{lang}.tsv"
    wildcard_constraints:
        model=patterns["vector"],
    resources:
        mem_mb=mib(6000, 8),
        runtime=minutes(60),
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        store=settings.store,
        stage=STAGES["similarity"],
    message:
        "Similarity of the domains of {wildcards.benchmark}, {wildcards.lang}"
