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
        checkpoint=patterns["downloads"],
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=minutes(1440),
    params:
        repo=lambda wildcards: plan.downloads[wildcards.checkpoint].repo,
        revision=lambda wildcards: plan.downloads[wildcards.checkpoint].revision,
        part=lambda wildcards: plan.downloads[wildcards.checkpoint].part,
        code_revision=lambda wildcards: (
            plan.downloads[wildcards.checkpoint].code_revision
        ),
        code=lambda wildcards: plan.downloads[wildcards.checkpoint].code,
        stage=STAGES["download"],
    message:
        "Downloading {wildcards.checkpoint}"
    script:
        "../scripts/stage.py"


# One job encodes all texts of a language.
rule encode:
    input:
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        checkpoint=per_job(paths.model_inputs),
        # Views share texts: one after the other, so that each text is encoded once.
        earlier=lambda wildcards: ancient(prior_encodings(wildcards)),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["encoded whole"],
        model=patterns["encoded without vllm"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.threads)
    resources:
        # Texts are read in blocks; measured: 0.8 to 1.3 kB per text for ids, keys and the store's
        # index, 2.3 MB per MB of documents of 200 words. Weights saved in 16 bits double.
        mem_mb=mib(per_job(jobs.encoder_mib), 5),
        runtime=minutes(encode_minutes),
        gpu=per_job(jobs.gpus),
        # How the work is cut, not what comes out: no reason to rerun, hence not params.
        device=settings.encoding.device,
        tokens_per_batch=per_job(jobs.tokens_per_batch),
        tokens_per_part=settings.encoding.tokens_per_part,
        seconds_per_part=settings.encoding.seconds_per_part,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
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
        benchmark=patterns["encoded whole"],
        model=patterns["encoded by vllm"],


# What is encoded, in one file: a hundred tables as inputs of a thousand shards slow every start.
rule list_texts:
    input:
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
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
        runtime=minutes(60),
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
        checkpoint=per_job(paths.model_inputs),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}/{shard}.parquet",
    log:
        "logs/{benchmark}/encode/{model}/{lang}/{shard}.log",
    benchmark:
        "benchmarks/{benchmark}/encode/{model}/{lang}/{shard}.tsv"
    wildcard_constraints:
        benchmark=patterns["encoded in shards"],
        model=patterns["encoded without vllm"],
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["encode"],
    message:
        "Encoding {wildcards.benchmark}, {wildcards.lang}, {wildcards.shard}, with {wildcards.model}"


use rule encode_shard as encode_shard_vllm with:
    wildcard_constraints:
        benchmark=patterns["encoded in shards"],
        model=patterns["encoded by vllm"],


rule join_shards:
    input:
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        shards=per_job(paths.encoding_shards),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
    log:
        "logs/{benchmark}/join_shards/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/join_shards/{model}/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["encoded in shards"],
        model=patterns["encoded"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=mib(4000, 3),
        runtime=minutes(60),
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        stage=STAGES["join_shards"],
    message:
        "Joining the shards of {wildcards.benchmark}, {wildcards.lang}, {wildcards.model}"
    script:
        "../scripts/stage.py"


# Vectors that a service makes: no GPU, but a network and a key.
rule embed_api:
    input:
        corpora=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        tokenizer=per_job(paths.model_inputs),
        earlier=lambda wildcards: ancient(prior_encodings(wildcards)),
    output:
        encodings="results/{benchmark}/encodings/{model}/{lang}.parquet",
        usage="results/{benchmark}/encodings/{model}/{lang}.usage.parquet",
    log:
        "logs/{benchmark}/embed_api/{model}/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/embed_api/{model}/{lang}.tsv"
    wildcard_constraints:
        model=patterns["api"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=mib(4000, 6),
        runtime=minutes(1440),
        # What is spent is known only if one job asks at a time.
        budgeted_llm=lambda wildcards: int(
            plan.models[wildcards.model].budget_usd is not None
        ),
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["embed_api"],
    message:
        "Asking {wildcards.model} for the vectors of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule search_lexical:
    input:
        corpora=per_job(paths.pair_tables, side="corpus_lang", table="corpus"),
        queries=per_job(paths.pair_tables, side="query_lang", table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["lexical"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        # One domain at a time; measured: 33 MB per MB of its corpus.
        mem_mb=mib(4000, 40, of=largest_share),
        runtime=minutes(240),
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        top_k=settings.search.top_k,
        stage=STAGES["search_lexical"],
    message:
        "Searching {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/stage.py"


rule search_vectors:
    input:
        query_encodings=per_job(paths.encodings, side="query_lang"),
        corpus_encodings=per_job(paths.encodings, side="corpus_lang"),
        # Which of these texts are the benchmark's own, where they are another's encodings.
        own_queries=per_job(paths.text_filter_tables, side="query_lang", table="queries"),
        own_corpus=per_job(paths.text_filter_tables, side="corpus_lang", table="corpus"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/search/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["vector"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.threads)
    resources:
        # The store is read in blocks; measured over the start: 450 MB at 300,000 documents, 600 MB
        # at a million, and up to twice the blocks; best documents take 12 bytes each.
        mem_mb=mib(6000, 10, more=2 * settings.search.block_mib),
        runtime=minutes(240),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
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
        first_stage=per_job(paths.first_stage),
        corpora=per_job(paths.pair_tables, side="corpus_lang", table="corpus"),
        queries=per_job(paths.pair_tables, side="query_lang", table="queries"),
        judged=per_job(paths.pair_tables, side="corpus_lang", table="queries"),
        checkpoint=lambda wildcards: paths.reranker_inputs(
            plan, plan.reranker_of(wildcards.model)
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
        benchmark=patterns["searched"],
        model=patterns["reranking"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.threads)
    resources:
        mem_mb=mib(
            lambda wildcards: jobs.scoring_mib(
                plan, plan.reranker_of(wildcards.model)
            ),
            20,
        ),
        runtime=minutes(1440),
        gpu=per_job(jobs.gpus),
        device=settings.encoding.device,
        tokens_per_batch=lambda wildcards: jobs.scoring_tokens(
            plan, plan.reranker_of(wildcards.model)
        ),
    params:
        entry=per_job(jobs.entry),
        reranker=per_job(jobs.reranker_entry),
        store=settings.store,
        stage=STAGES["rerank"],
    message:
        "Reranking {wildcards.benchmark} with {wildcards.model}"
    script:
        "../scripts/stage.py"


# Several models' runs as one.
rule fuse:
    input:
        runs=per_job(paths.fused_runs),
        encodings=per_job(paths.fused_encodings),
        corpora=per_job(paths.pair_tables, side="corpus_lang", table="corpus"),
        queries=per_job(paths.pair_tables, side="query_lang", table="queries"),
        judged=per_job(paths.pair_tables, side="corpus_lang", table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
        # How far into each query's positive any of them read.
        seen="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.seen.parquet",
    log:
        "logs/{benchmark}/fuse/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/fuse/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["searched"],
        model=patterns["fused"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(60),
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        reads_all=per_job(paths.reads_all),
        top_k=settings.search.top_k,
        stage=STAGES["fuse"],
    message:
        "Fusing runs of {wildcards.benchmark} into {wildcards.model}"
    script:
        "../scripts/stage.py"


# Rankings that somebody else's system made: files of the user's.
rule import_run:
    input:
        files=per_job(paths.external_run_files),
        queries=per_job(paths.pair_tables, side="query_lang", table="queries"),
        judged=per_job(paths.pair_tables, side="corpus_lang", table="queries"),
    output:
        run="results/{benchmark}/runs/{model}/{query_lang}-{corpus_lang}.parquet",
    log:
        "logs/{benchmark}/import_run/{model}/{query_lang}-{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/import_run/{model}/{query_lang}-{corpus_lang}.tsv"
    wildcard_constraints:
        model=patterns["external runs"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(60),
    params:
        entry=per_job(jobs.entry),
        domains=domains,
        prefix_ids=per_job(jobs.prefixes_ids),
        top_k=settings.search.top_k,
        stage=STAGES["import_run"],
    message:
        "Reading the run of {wildcards.model} on {wildcards.benchmark}"
    script:
        "../scripts/stage.py"
