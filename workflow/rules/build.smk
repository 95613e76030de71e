# From a source to a benchmark's tables, where no language model is asked.


rule build:
    input:
        lambda wildcards: lookup.source_files(
            wildcards.benchmark, wildcards.lang, wildcards.domain
        ),
        tokenizer=lookup.tokenizer_inputs(),
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
        benchmark=lookup.native_pattern("direct"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        section=lambda wildcards: build_params(
            lookup.section_at(wildcards.benchmark, wildcards.lang, wildcards.domain),
            length_tokenizer=settings.length_tokenizer,
            id_prefix=lookup.id_prefix(wildcards.benchmark, wildcards.domain),
        ),
        stage=STAGES["build"],
    message:
        "Building {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/stage.py"


rule statistics:
    input:
        corpora=language_tables("corpus"),
        queries=language_tables("queries"),
        qrels=language_tables("qrels"),
    output:
        statistics="results/{benchmark}/statistics.parquet",
        histogram="results/{benchmark}/position_histogram.parquet",
        relocation="results/{benchmark}/relocation.parquet",
    log:
        "logs/{benchmark}/statistics.log",
    benchmark:
        "benchmarks/{benchmark}/statistics.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("own"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=benchmark_domains,
        schemes=lambda wildcards: lookup.benchmark(wildcards.benchmark).buckets,
        stage=STAGES["statistics"],
    message:
        "Statistics of {wildcards.benchmark}"
    script:
        "../scripts/stage.py"


# How alike the domains are, on demand: the mean vectors of their documents.
rule similarity:
    input:
        encodings=encodings("lang"),
        own=own_texts("corpus", "lang"),
    output:
        similarity="results/{benchmark}/similarity/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/similarity/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/similarity/{model}/{lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("vector"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        store=settings.store,
        stage=STAGES["similarity"],
    message:
        "Similarity of the domains of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"
