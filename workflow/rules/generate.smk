# Benchmarks whose queries a language model writes: sample, tasks in shards, assemble.


rule sample:
    input:
        lambda wildcards: lookup.sources_of(wildcards.benchmark, wildcards.lang),
        tokenizer=lookup.tokenizer_inputs(),
    output:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}/sampling.parquet",
        dropped="results/{benchmark}/build/{lang}/documents.dropped.parquet",
    log:
        "logs/{benchmark}/sample/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/sample/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("generated"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            lookup.sample_mib(wildcards.benchmark, wildcards.lang) * attempt
        ),
        # All domains in one job, which begins anew if it is stopped.
        runtime=lambda wildcards, attempt: min(
            240 * len(build_domains(wildcards)) * attempt, 7 * 1440
        ),
    params:
        sections=lambda wildcards: {
            domain: place_params(lookup, wildcards.benchmark, wildcards.lang, domain)
            for domain in build_domains(wildcards)
        },
        stage=STAGES["sample"],
    message:
        "Sampling the documents of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule personas:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        personas=lambda wildcards: lookup.persona_files(wildcards.benchmark),
        checkpoint=lambda wildcards: lookup.encoder_inputs(
            lookup.personas(wildcards.benchmark).model
        ),
    output:
        candidates="results/{benchmark}/build/{lang}/persona_candidates.parquet",
    log:
        "logs/{benchmark}/personas/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/personas/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("generated"),
    conda:
        "../../envs/gpu.yaml"
    threads: chain_threads
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(6000, 30 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 240 * attempt,
        gpu=lambda wildcards: lookup.gpus(),
        device=settings.encoding.device,
        tokens_per_batch=settings.encoding.tokens_per_batch,
        tokens_per_part=settings.encoding.tokens_per_part,
    params:
        domains=build_domains,
        section=lambda wildcards: lookup.dump(lookup.personas(wildcards.benchmark)),
        entry=lambda wildcards: retrieval_params(
            lookup.encoder(lookup.personas(wildcards.benchmark).model)
        ),
        model_version=lambda wildcards: MODEL_VERSIONS[
            lookup.encoder(lookup.personas(wildcards.benchmark).model).backend
        ],
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["personas"],
    message:
        "Persona candidates of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


# One job asks a task about all documents of a language and makes its table. `resources.budgeted_llm`:
# of a model with a budget one job at a time.
rule ask:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(
            lookup.prompt(wildcards.benchmark, wildcards.task)
        ),
    output:
        rows="results/{benchmark}/build/{lang}/{task}.parquet",
        dropped="results/{benchmark}/build/{lang}/{task}.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{task}.flow.parquet",
        usage="results/{benchmark}/build/{lang}/{task}.usage.parquet",
        outcomes="results/{benchmark}/build/{lang}/{task}.outcomes.parquet",
    log:
        "logs/{benchmark}/ask/{lang}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}/{task}.tsv"
    wildcard_constraints:
        benchmark=lookup.task_pattern(in_shards=False, by_vllm=False),
        task=lookup.pattern("tasks"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: (
            lookup.minutes_to_ask(llm_of(wildcards)) * attempt
        ),
        budgeted_llm=lambda wildcards: lookup.is_budgeted(llm_of(wildcards)),
    params:
        domains=task_domains,
        asked=lambda wildcards: ask_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        made=lambda wildcards: gather_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        store=settings.store,
        stage=STAGES["ask"],
        gather_version=STAGES["gather"],
    message:
        "Asking: {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


# The same with a server of its own, which lives as long as the job.
use rule ask as ask_vllm with:
    wildcard_constraints:
        benchmark=lookup.task_pattern(in_shards=False, by_vllm=True),
        task=lookup.pattern("tasks"),
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 32000 * attempt,
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=lambda wildcards: lookup.llms[llm_of(wildcards)].vllm.gpus,
        budgeted_llm=lambda wildcards: lookup.is_budgeted(llm_of(wildcards)),


# Several jobs share a task: each asks about its own documents.
use rule ask as ask_shard with:
    output:
        outcomes="results/{benchmark}/build/{lang}/{task}/{shard}.outcomes.parquet",
        usage="results/{benchmark}/build/{lang}/{task}/{shard}.usage.parquet",
    log:
        "logs/{benchmark}/ask/{lang}/{task}/{shard}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}/{task}/{shard}.tsv"
    wildcard_constraints:
        benchmark=lookup.task_pattern(in_shards=True, by_vllm=False),
        task=lookup.pattern("tasks"),
    params:
        domains=task_domains,
        asked=lambda wildcards: ask_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        store=settings.store,
        stage=STAGES["ask"],
    message:
        "Asking: {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}, {wildcards.shard}"


use rule ask_shard as ask_shard_vllm with:
    wildcard_constraints:
        benchmark=lookup.task_pattern(in_shards=True, by_vllm=True),
        task=lookup.pattern("tasks"),
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 32000 * attempt,
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=lambda wildcards: lookup.llms[llm_of(wildcards)].vllm.gpus,
        budgeted_llm=lambda wildcards: lookup.is_budgeted(llm_of(wildcards)),


rule gather:
    input:
        unpack(task_tables),
        outcomes=task_shards("outcomes"),
        usages=task_shards("usage"),
    output:
        rows="results/{benchmark}/build/{lang}/{task}.parquet",
        dropped="results/{benchmark}/build/{lang}/{task}.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{task}.flow.parquet",
        usage="results/{benchmark}/build/{lang}/{task}.usage.parquet",
    log:
        "logs/{benchmark}/gather/{lang}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/gather/{lang}/{task}.tsv"
    wildcard_constraints:
        benchmark=lookup.task_pattern(in_shards=True),
        task=lookup.pattern("tasks"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=task_domains,
        made=lambda wildcards: gather_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        stage=STAGES["gather"],
    message:
        "Gathering {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule assemble:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=build_table(lookup.left_before()),
        tokenizer=lookup.tokenizer_inputs(),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
    log:
        "logs/{benchmark}/assemble/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/assemble/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.native_pattern("unpurged"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb * domain_share(wildcards)) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["assemble"],
    message:
        "Assembling {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/stage.py"


# With false negatives in it: the view `raw`, from which they are removed.
use rule assemble as assemble_raw with:
    output:
        corpus="results/{benchmark}-raw/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}-raw/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}-raw/data/{lang}/{domain}/qrels.parquet",
    log:
        "logs/{benchmark}-raw/assemble/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}-raw/assemble/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("having false_negatives"),
