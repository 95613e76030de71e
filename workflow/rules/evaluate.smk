# From runs to per-query scores, bucket scores and PSI.


# All models of a language pair in one job: they are compared with each other.
rule score:
    input:
        # Runs, and what the models saw of the documents.
        read_of_models,
        # Who asks decides which queries count; positives and spans are the searched corpus'.
        asked=pair_tables("queries", "query_lang"),
        queries=pair_tables("queries", "corpus_lang"),
        qrels=pair_tables("qrels", "corpus_lang"),
    output:
        scores="results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet",
        buckets="results/{benchmark}/tables/{query_lang}-{corpus_lang}.buckets.parquet",
        psi="results/{benchmark}/tables/{query_lang}-{corpus_lang}.psi.parquet",
        comparisons="results/{benchmark}/tables/{query_lang}-{corpus_lang}.comparisons.parquet",
    log:
        "logs/{benchmark}/score/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/score/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.sharing_pattern(shares=False),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        # Runs are read in batches; measured: 280 MB for 2 million rows of one, 450 MB for 8 million.
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 6 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=pair_domains,
        models=lambda wildcards: lookup.compared_models(*pair_of(wildcards)),
        control=lambda wildcards: lookup.position_blind(pair_models(wildcards)),
        windows=lambda wildcards: lookup.input_lengths(pair_models(wildcards)),
        schemes=lambda wildcards: lookup.benchmark(wildcards.benchmark).buckets,
        length_buckets=lambda wildcards: lookup.benchmark(
            wildcards.benchmark
        ).length_buckets,
        metrics=settings.metrics,
        psi_metrics=settings.psi_metrics,
        uncertainty=lookup.dump(settings.uncertainty),
        stage=STAGES["score"],
    message:
        "Scoring all models on {wildcards.benchmark}, {wildcards.query_lang}-{wildcards.corpus_lang}"
    script:
        "../scripts/stage.py"


# The runs of a wider view are the benchmark's too, its own queries' rows of them: nothing is
# searched again.
use rule score as score_shared with:
    input:
        read_of_models,
        wider=wider_runs,
        asked=pair_tables("queries", "query_lang"),
        queries=pair_tables("queries", "corpus_lang"),
        qrels=pair_tables("qrels", "corpus_lang"),
    output:
        scores="results/{benchmark}/scores/{query_lang}-{corpus_lang}.parquet",
        buckets="results/{benchmark}/tables/{query_lang}-{corpus_lang}.buckets.parquet",
        psi="results/{benchmark}/tables/{query_lang}-{corpus_lang}.psi.parquet",
        comparisons="results/{benchmark}/tables/{query_lang}-{corpus_lang}.comparisons.parquet",
        runs=[f"results/{{benchmark}}/runs/{path}" for path in lookup.shared_runs()],
    wildcard_constraints:
        benchmark=lookup.sharing_pattern(shares=True),
