# Benchmarks whose queries a language model writes: sample, tasks in shards, assemble.


rule sample:
    input:
        lambda wildcards: lookup.source_files(
            wildcards.benchmark, wildcards.lang, wildcards.domain
        ),
        tokenizer=lookup.tokenizer_inputs(),
    output:
        documents="results/{benchmark}/build/{lang}/{domain}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}/{domain}/sampling.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/documents.dropped.parquet",
    log:
        "logs/{benchmark}/sample/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/sample/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("generated"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            lookup.sample_mib(wildcards.benchmark) * attempt
        ),
        runtime=lambda wildcards, attempt: 240 * attempt,
    params:
        section=lambda wildcards: place_params(
            lookup, wildcards.benchmark, wildcards.lang, wildcards.domain
        ),
        version=STAGE_VERSIONS["sample"],
    message:
        "Sampling the documents of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/sample.py"


rule personas:
    input:
        documents="results/{benchmark}/build/{lang}/{domain}/documents.parquet",
        personas=lambda wildcards: lookup.persona_files(wildcards.benchmark),
        checkpoint=lambda wildcards: lookup.encoder_inputs(
            lookup.personas(wildcards.benchmark).model
        ),
    output:
        "results/{benchmark}/build/{lang}/{domain}/persona_candidates.parquet",
    log:
        "logs/{benchmark}/personas/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/personas/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("generated"),
    conda:
        "../../envs/gpu.yaml"
    threads: model_threads
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
        version=STAGE_VERSIONS["personas"],
    message:
        "Persona candidates of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/personas.py"


rule ask:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(
            lookup.prompt(wildcards.benchmark, wildcards.task)
        ),
    output:
        outcomes="results/{benchmark}/build/{lang}/{domain}/{task}/{llm}/{shard}.outcomes.parquet",
        usage="results/{benchmark}/build/{lang}/{domain}/{task}/{llm}/{shard}.usage.parquet",
    log:
        "logs/{benchmark}/ask/{lang}/{domain}/{task}/{llm}/{shard}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}/{domain}/{task}/{llm}/{shard}.tsv"
    wildcard_constraints:
        llm=lookup.pattern("served"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: (
            lookup.minutes_to_ask(wildcards.llm) * attempt
        ),
        budgeted_llm=lambda wildcards: lookup.is_budgeted(wildcards.llm),
    params:
        task=lambda wildcards: ask_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        store=settings.store,
        version=STAGE_VERSIONS["ask"],
    message:
        "Asking {wildcards.llm}: {wildcards.task} of {wildcards.benchmark}, {wildcards.shard}"
    script:
        "../scripts/ask.py"


# The same with a server of its own, which lives as long as the job.
use rule ask as ask_vllm with:
    wildcard_constraints:
        llm=lookup.pattern("vllm"),
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 32000 * attempt,
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=lambda wildcards: lookup.llms[wildcards.llm].vllm.gpus,
        budgeted_llm=lambda wildcards: lookup.is_budgeted(wildcards.llm),


rule gather:
    input:
        unpack(task_tables),
        outcomes=task_shards("outcomes"),
        usages=task_shards("usage"),
    output:
        rows="results/{benchmark}/build/{lang}/{domain}/{task}.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/{task}.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{domain}/{task}.flow.parquet",
        usage="results/{benchmark}/build/{lang}/{domain}/{task}.usage.parquet",
    log:
        "logs/{benchmark}/gather/{lang}/{domain}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/gather/{lang}/{domain}/{task}.tsv"
    wildcard_constraints:
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
        task=lambda wildcards: gather_params(
            lookup, wildcards.benchmark, wildcards.task, wildcards.lang
        ),
        version=STAGE_VERSIONS["gather"],
    message:
        "Gathering {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/gather.py"


rule assemble:
    input:
        documents="results/{benchmark}/build/{lang}/{domain}/documents.parquet",
        candidates=build_table(lookup.final_table),
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
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        length_tokenizer=settings.length_tokenizer,
        version=STAGE_VERSIONS["assemble"],
    message:
        "Assembling {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/assemble.py"


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
        benchmark=lookup.pattern("purged"),


rule ledger:
    input:
        documents="results/{benchmark}/build/{lang}/{domain}/documents.parquet",
        dropped=ledger_tables("dropped"),
        flow=ledger_tables("flow"),
        usage=ledger_tables("usage"),
    output:
        dropped="results/{benchmark}/build/{lang}/{domain}/dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{domain}/flow.parquet",
        usage="results/{benchmark}/build/{lang}/{domain}/llm_usage.parquet",
    log:
        "logs/{benchmark}/ledger/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/ledger/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=lookup.native_pattern("generated"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        version=STAGE_VERSIONS["ledger"],
    message:
        "Balancing the ledger of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/ledger.py"
