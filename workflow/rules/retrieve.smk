# Vectors and runs.


# Where snakemake runs, so that jobs need no network. The files lie in the hub's own cache.
rule download:
    output:
        manifest=f"{settings.store}/checkpoints/{{checkpoint}}.json",
    log:
        "logs/download/{checkpoint}.log",
    benchmark:
        "benchmarks/download/{checkpoint}.tsv"
    wildcard_constraints:
        checkpoint=lookup.pattern("downloads"),
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=1440,
    params:
        repo=lambda wildcards: lookup.downloads[wildcards.checkpoint].repo,
        revision=lambda wildcards: lookup.downloads[wildcards.checkpoint].revision,
        part=lambda wildcards: lookup.downloads[wildcards.checkpoint].part,
        code_revision=lambda wildcards: (
            lookup.downloads[wildcards.checkpoint].code_revision
        ),
        code=lambda wildcards: lookup.downloads[wildcards.checkpoint].code,
        stage=STAGES["download"],
    message:
        "Downloading {wildcards.checkpoint}"
    script:
        "../scripts/stage.py"


# One job encodes all texts of a language.
rule encode:
    input:
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
        checkpoint=lambda wildcards: lookup.model_files(wildcards.model),
        # Views share texts: one after the other, so that each text is encoded once.
        earlier=lambda wildcards: ancient(
            [
                f"results/{name}/encodings/{wildcards.model}/{wildcards.lang}.parquet"
                for name in lookup.encoded_before(wildcards.benchmark, wildcards.lang)
            ]
        ),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.encoding_pattern(in_shards=False),
        model=lookup.pattern("encoded without vllm"),
    conda:
        "../../envs/gpu.yaml"
    threads: model_threads
    resources:
        # Texts are read in blocks; measured: 0.8 to 1.3 kB per text for ids, keys and the store's
        # index, 2.3 MB per MB of documents of 200 words. Weights saved in 16 bits double.
        mem_mb=lambda wildcards, input, attempt: (
            max(lookup.encoder_mib(wildcards.model), 3 * input.size_mb)
            + 4000 * (attempt - 1)
        ),
        runtime=lambda wildcards, attempt: min(
            lookup.encode_minutes(wildcards.benchmark, wildcards.model, wildcards.lang)
            * attempt,
            1440,
        ),
        gpu=lambda wildcards: lookup.gpus(wildcards.model),
        # How the work is cut, not what comes out: no reason to rerun, hence not params.
        device=settings.encoding.device,
        tokens_per_batch=lambda wildcards: lookup.tokens_per_batch(wildcards.model),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["encode"],
    message:
        "Encoding {wildcards.benchmark}, {wildcards.lang}, with {wildcards.model}"
    script:
        "../scripts/stage.py"


# Rules of its own for vLLM: in a SLURM profile all jobs of a rule have the same number of GPUs,
# unless the profile names none; these have those of the model's entry.
use rule encode as encode_vllm with:
    wildcard_constraints:
        benchmark=lookup.encoding_pattern(in_shards=False),
        model=lookup.pattern("encoded by vllm"),


# What is encoded, in one file: a hundred tables as inputs of a thousand shards slow every start.
rule list_texts:
    input:
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
    output:
        texts="results/{benchmark}/encodings/{lang}.texts",
    log:
        "logs/{benchmark}/list_texts/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/list_texts/{lang}.tsv"
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        stage=STAGES["list_texts"],
    message:
        "Listing the texts of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


# Several jobs share the texts of a language: each has those whose address falls to it.
use rule encode as encode_shard with:
    input:
        texts="results/{benchmark}/encodings/{lang}.texts",
        checkpoint=lambda wildcards: lookup.model_files(wildcards.model),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}/{shard}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}/{shard}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}/{shard}.tsv"
    wildcard_constraints:
        benchmark=lookup.encoding_pattern(in_shards=True),
        model=lookup.pattern("encoded without vllm"),
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["encode"],
    message:
        "Encoding {wildcards.benchmark}, {wildcards.lang}, {wildcards.shard}, with {wildcards.model}"


use rule encode_shard as encode_shard_vllm with:
    wildcard_constraints:
        benchmark=lookup.encoding_pattern(in_shards=True),
        model=lookup.pattern("encoded by vllm"),


rule join_shards:
    input:
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
        shards=lambda wildcards: [
            f"results/{wildcards.benchmark}/encodings/{wildcards.model}/{wildcards.lang}/"
            f"{shard}.parquet"
            for shard in lookup.encode_shards(
                wildcards.benchmark, wildcards.model, wildcards.lang
            )
        ],
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/join_shards/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/join_shards/{model}/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.encoding_pattern(in_shards=True),
        model=lookup.pattern("encoded"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 3 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        stage=STAGES["join_shards"],
    message:
        "Joining the shards of {wildcards.benchmark}, {wildcards.lang}, {wildcards.model}"
    script:
        "../scripts/stage.py"


# Vectors that a service makes: no GPU, but a network and a key.
rule embed_api:
    input:
        corpora=domain_tables("corpus"),
        queries=domain_tables("queries"),
        tokenizer=lambda wildcards: lookup.model_files(wildcards.model),
        earlier=lambda wildcards: ancient(
            [
                f"results/{name}/encodings/{wildcards.model}/{wildcards.lang}.parquet"
                for name in lookup.encoded_before(wildcards.benchmark, wildcards.lang)
            ]
        ),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
        usage="results/{benchmark}/encodings/{model}/{lang}.usage.parquet",
    log:
        "logs/{benchmark}/embed_api/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/embed_api/{model}/{lang}.tsv"
    wildcard_constraints:
        model=lookup.pattern("api"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 6 * input.size_mb) * attempt
        ),
        runtime=1440,
        # What is spent is known only if one job asks at a time.
        budgeted_llm=lambda wildcards: int(
            lookup.models[wildcards.model].budget_usd is not None
        ),
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=lambda wildcards: lookup.domains(wildcards.benchmark, wildcards.lang),
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["embed_api"],
    message:
        "Asking {wildcards.model} for the vectors of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule search_lexical:
    input:
        corpora=pair_tables("corpus", "corpus_lang"),
        queries=pair_tables("queries", "query_lang"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.sharing_pattern(shares=False),
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
        stage=STAGES["search_lexical"],
    message:
        "Searching {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/stage.py"


rule search_vectors:
    input:
        query_encodings=encodings("query_lang"),
        corpus_encodings=encodings("corpus_lang"),
        # Which of these texts are the benchmark's own, where they are another's encodings.
        own_queries=own_texts("queries", "query_lang"),
        own_corpus=own_texts("corpus", "corpus_lang"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.sharing_pattern(shares=False),
        model=lookup.pattern("vector"),
    conda:
        "../../envs/gpu.yaml"
    threads: model_threads
    resources:
        # The store is read in blocks; measured over the start: 450 MB at 300,000 documents, 600 MB
        # at a million, and up to twice the blocks; best documents take 12 bytes each.
        mem_mb=lambda wildcards, input, attempt: (
            6000 + 16 * input.size_mb + 2 * settings.search.block_mib
        )
        * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.models[wildcards.model].backend
        ],
        domains=pair_domains,
        top_k=settings.search.top_k,
        store=settings.store,
        stage=STAGES["search_vectors"],
    message:
        "Searching {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/stage.py"


# The best documents of a first stage in the order of a reranker.
rule rerank:
    input:
        first_stage=lambda wildcards: (
            "results/{benchmark}/runs/{first}/{query_lang}-{corpus_lang}.parquet".format(
                first=lookup.first_stage(wildcards.model), **wildcards
            )
        ),
        corpora=pair_tables("corpus", "corpus_lang"),
        queries=pair_tables("queries", "query_lang"),
        judged=pair_tables("queries", "corpus_lang"),
        checkpoint=lambda wildcards: lookup.reranker_inputs(
            lookup.reranker_of(wildcards.model)
        ),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # What it reads of each query's positive: beside another query it is another part.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    log:
        "logs/{benchmark}/rerank/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/rerank/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.sharing_pattern(shares=False),
        model=lookup.pattern("reranking"),
    conda:
        "../../envs/gpu.yaml"
    threads: model_threads
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(
                lookup.scoring_mib(lookup.reranker_of(wildcards.model)),
                20 * input.size_mb,
            )
            * attempt
        ),
        runtime=1440,
        gpu=lambda wildcards: lookup.gpus(),
        device=settings.encoding.device,
        tokens_per_batch=lambda wildcards: lookup.scoring_tokens(
            lookup.reranker_of(wildcards.model)
        ),
    params:
        entry=lambda wildcards: retrieval_params(lookup.models[wildcards.model]),
        reranker=lambda wildcards: reranker_params(
            lookup.rerankers[lookup.reranker_of(wildcards.model)]
        ),
        store=settings.store,
        stage=STAGES["rerank"],
    message:
        "Reranking {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/stage.py"


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
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
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
        stage=STAGES["import_run"],
    message:
        "Reading the run of {wildcards.model} on {wildcards.benchmark}"
    script:
        "../scripts/stage.py"
