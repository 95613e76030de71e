# Vectors and runs.


rule encode:
    input:
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
        checkpoint=lambda wildcards: lookup.checkpoint_files(wildcards.model),
        # Views share texts: one after the other, so that each text is encoded once.
        earlier=lambda wildcards: ancient(
            [
                f"results/{name}/encodings/{wildcards.model}/{wildcards.lang}.parquet"
                for name in lookup.encoded_before(wildcards.benchmark, wildcards.lang)
            ]
        ),
    output:
        "results/{benchmark}/encodings/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("vector"),
    conda:
        "../../envs/gpu.yaml"
    threads: 2
    resources:
        # Texts are read in blocks; measured: 0.8 to 1.3 kB per text for ids, keys and the store's
        # index, 2.3 MB per MB of documents of 200 words. Weights saved in 16 bits double.
        mem_mb=lambda wildcards, input, attempt: (
            max(6000, 3 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 240 * attempt,
        # How the work is cut, not what comes out: no reason to rerun, hence not params.
        device=settings.encoding.device,
        tokens_per_batch=settings.encoding.tokens_per_batch,
        tokens_per_shard=settings.encoding.tokens_per_shard,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        dtype=settings.encoding.dtype,
        float32_below_tokens=settings.encoding.float32_below_tokens,
        store=settings.store,
        version=STAGE_VERSIONS["encode"],
    message:
        "Encoding {wildcards.benchmark}, {wildcards.lang}, with {wildcards.model}"
    script:
        "../scripts/encode.py"


rule search_lexical:
    input:
        corpora=pair_tables("corpus", "corpus_lang"),
        queries=pair_tables("queries", "query_lang"),
    output:
        "results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("lexical"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        # One domain at a time; measured: 33 MB per MB of its corpus.
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 40 * input.size_mb * largest_share(wildcards)) * attempt
        ),
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        top_k=settings.search.top_k,
        version=STAGE_VERSIONS["search"],
    message:
        "Searching {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/search_lexical.py"


rule search_vectors:
    input:
        queries="results/{benchmark}/encodings/{model}/{query_lang}.parquet",
        corpus="results/{benchmark}/encodings/{model}/{corpus_lang}.parquet",
    output:
        "results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("vector"),
    conda:
        "../../envs/gpu.yaml"
    threads: 2
    resources:
        # One domain at a time; measured: 2.2 times its vectors, at 1,024 dimensions 380 MB per MB
        # of its encodings.
        mem_mb=lambda wildcards, input, attempt: (
            max(6000, 400 * input.size_mb * largest_share(wildcards)) * attempt
        ),
        runtime=lambda wildcards, attempt: 120 * attempt,
        block_mib=settings.search.block_mib,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=pair_domains,
        top_k=settings.search.top_k,
        store=settings.store,
        version=STAGE_VERSIONS["search"],
    message:
        "Searching {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/search_vectors.py"


# Rankings that somebody else's system made: files of the user's.
rule import_run:
    input:
        files=lambda wildcards: lookup.run_files(
            wildcards.benchmark,
            wildcards.model,
            wildcards.query_lang,
            wildcards.corpus_lang,
        ),
        queries=pair_tables("queries", "query_lang"),
        judged=pair_tables("queries", "corpus_lang"),
    output:
        "results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/import_run/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/import_run/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("given"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        domains=pair_domains,
        prefix_ids=lambda wildcards: lookup.prefixes_ids(wildcards.benchmark),
        top_k=settings.search.top_k,
        version=STAGE_VERSIONS["import_run"],
    message:
        "Reading the run of {wildcards.model} on {wildcards.benchmark}"
    script:
        "../scripts/import_run.py"
