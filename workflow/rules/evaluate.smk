# From runs to per-query scores, bucket scores and PSI.


rule score:
    input:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # Who asks decides which queries count; positives and spans are the searched corpus'.
        asked=pair_tables("queries", "query_lang"),
        queries=pair_tables("queries", "corpus_lang"),
        qrels=pair_tables("qrels", "corpus_lang"),
        encodings=lambda wildcards: (
            "results/{benchmark}/encodings/{model}/{corpus_lang}.parquet"
            if lookup.is_vector(wildcards.model)
            else []
        ),
        seen=lambda wildcards: (
            "results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet"
            if lookup.is_reranker(wildcards.model)
            else []
        ),
    output:
        "results/{benchmark}/scores/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/score/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/score/{model}/{query_lang}-{corpus_lang}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        # The run is read in batches; measured: 280 MB for 2 million of its rows, 450 MB for 8
        # million, 5 MB per MB.
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 6 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        domains=pair_domains,
        metrics=settings.metrics,
        version=STAGE_VERSIONS["score"],
    message:
        "Scoring {wildcards.model} on {wildcards.benchmark}"
    script:
        "../scripts/score.py"


# All models of a language pair in one job: they are compared with each other.
rule aggregate:
    input:
        lambda wildcards: expand(
            "results/{benchmark}/scores/{model}/{query_lang}-{corpus_lang}.parquet",
            model=pair_models(wildcards),
            allow_missing=True,
        ),
    output:
        buckets="results/{benchmark}/tables/{query_lang}-{corpus_lang}.buckets.parquet",
        psi="results/{benchmark}/tables/{query_lang}-{corpus_lang}.psi.parquet",
        comparisons="results/{benchmark}/tables/{query_lang}-{corpus_lang}.comparisons.parquet",
    log:
        "logs/{benchmark}/aggregate/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/aggregate/{query_lang}-{corpus_lang}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 12 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        models=lambda wildcards: lookup.compared_models(*pair_of(wildcards)),
        control=lambda wildcards: lookup.position_blind(pair_models(wildcards)),
        windows=lambda wildcards: lookup.input_lengths(pair_models(wildcards)),
        schemes=lambda wildcards: lookup.benchmark(wildcards.benchmark).buckets,
        length_buckets=lambda wildcards: lookup.benchmark(
            wildcards.benchmark
        ).length_buckets,
        metrics=settings.psi_metrics,
        uncertainty=lookup.dump(settings.uncertainty),
        version=STAGE_VERSIONS["aggregate"],
    message:
        "PSI of all models on {wildcards.benchmark}, {wildcards.query_lang}-{wildcards.corpus_lang}"
    script:
        "../scripts/aggregate.py"
