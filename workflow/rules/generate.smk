# Benchmarks whose queries a language model writes: sample, tasks in shards, assemble.


rule sample:
    input:
        per_job(paths.sources_of),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}/sampling.parquet",
        dropped="results/{benchmark}/build/{lang}/documents.dropped.parquet",
    log:
        "logs/{benchmark}/sample/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/sample/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["generated"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            jobs.sample_mib(plan, wildcards.benchmark, wildcards.lang) * attempt
        ),
        # All domains in one job, which begins anew if it is stopped.
        runtime=lambda wildcards, attempt: min(
            240 * len(domains(wildcards)) * attempt, 7 * 1440
        ),
    params:
        sections=per_job(jobs.sample),
        stage=STAGES["sample"],
    message:
        "Sampling the documents of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule personas:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        personas=lambda wildcards: plan.personas[wildcards.benchmark],
        checkpoint=per_job(paths.encoder_inputs),
    output:
        candidates="results/{benchmark}/build/{lang}/persona_candidates.parquet",
    log:
        "logs/{benchmark}/personas/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/personas/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["generated"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.chain_threads)
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(6000, 30 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 240 * attempt,
        gpu=per_job(jobs.gpus),
        device=settings.encoding.device,
        tokens_per_batch=settings.encoding.tokens_per_batch,
        tokens_per_part=settings.encoding.tokens_per_part,
    params:
        domains=domains,
        section=lambda wildcards: dump(own(wildcards).section.personas),
        entry=per_job(jobs.persona_entry),
        model_version=per_job(jobs.persona_version),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["personas"],
    message:
        "Persona candidates of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


# One job asks a task about all documents of a language and makes its table. The task is the `LlmTask`
# of its name in generate/RECIPE.py (or filters/, translate/), its template config/prompts/TASK.md.
# `resources.budgeted_llm`: of a model with a budget one job at a time.
rule ask:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(own(wildcards).tasks[wildcards.task].path),
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
        benchmark=patterns["asked whole without vllm"],
        task=patterns["tasks"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: (
            jobs.ask_minutes(plan, wildcards.benchmark, wildcards.task) * attempt
        ),
        budgeted_llm=per_job(jobs.budgeted),
    params:
        domains=task_domains,
        asked=per_job(jobs.ask),
        made=per_job(jobs.gather),
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
        benchmark=patterns["asked whole by vllm"],
        task=patterns["tasks"],
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 32000 * attempt,
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=per_job(jobs.served_gpus),
        budgeted_llm=per_job(jobs.budgeted),


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
        benchmark=patterns["asked in shards without vllm"],
        task=patterns["tasks"],
    params:
        domains=task_domains,
        asked=per_job(jobs.ask),
        store=settings.store,
        stage=STAGES["ask"],
    message:
        "Asking: {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}, {wildcards.shard}"


use rule ask_shard as ask_shard_vllm with:
    wildcard_constraints:
        benchmark=patterns["asked in shards by vllm"],
        task=patterns["tasks"],
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=lambda wildcards, attempt: 32000 * attempt,
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=per_job(jobs.served_gpus),
        budgeted_llm=per_job(jobs.budgeted),


rule gather:
    input:
        unpack(task_tables),
        outcomes=per_job(paths.task_shards, table="outcomes"),
        usages=per_job(paths.task_shards, table="usage"),
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
        benchmark=patterns["asked in shards"],
        task=patterns["tasks"],
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
        made=per_job(jobs.gather),
        stage=STAGES["gather"],
    message:
        "Gathering {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule assemble:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=per_job(paths.left_before),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
    log:
        "logs/{benchmark}/assemble/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/assemble/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["native unpurged"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb * largest_share(wildcards)) * attempt
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
        benchmark=patterns["having false_negatives"],
