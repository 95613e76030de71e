# Benchmarks whose queries a language model writes: sample, tasks in shards, assemble.


use rule on_cpu as sample with:
    input:
        per_job(paths.sources_of),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}{part}/sampling.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/documents.dropped.parquet",
    log:
        "logs/{benchmark}/sample/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/sample/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["generated"],
    threads: per_job(jobs.sample_threads)
    resources:
        mem_mb=mib(per_job(jobs.sample_mib)),
        runtime=minutes(lambda wildcards: 240 * len(domains(wildcards))),
    params:
        sections=per_job(jobs.sample),
        store=settings.store,
        stage=STAGES["sample"],
    message:
        "Sampling the documents of {wildcards.benchmark}, {wildcards.lang}"


rule personas:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        personas=lambda wildcards: plan.personas[wildcards.benchmark],
        checkpoint=per_job(paths.persona_encoder_inputs),
    output:
        candidates="results/{benchmark}/build/{lang}{part}/persona_candidates.parquet",
    log:
        "logs/{benchmark}/personas/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/personas/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["generated"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.chain_threads)
    resources:
        mem_mb=mib(6000, 30),
        runtime=minutes(240),
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
use rule on_cpu as ask with:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(own(wildcards).tasks[wildcards.task].path),
    output:
        rows="results/{benchmark}/build/{lang}{part}/{task}.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/{task}.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/{task}.flow.parquet",
        usage="results/{benchmark}/build/{lang}{part}/{task}.usage.parquet",
        outcomes="results/{benchmark}/build/{lang}{part}/{task}.outcomes.parquet",
    log:
        "logs/{benchmark}/ask/{lang}{part}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}{part}/{task}.tsv"
    wildcard_constraints:
        benchmark=patterns["asked whole without vllm"],
        task=patterns["tasks"],
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(per_job(jobs.ask_minutes)),
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


# The same with a server of its own, which lives as long as the job.
use rule ask as ask_vllm with:
    wildcard_constraints:
        benchmark=patterns["asked whole by vllm"],
        task=patterns["tasks"],
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        mem_mb=mib(32000),
        runtime=minutes(720),
        gpu=per_job(jobs.served_gpus),
        budgeted_llm=per_job(jobs.budgeted),


# Several jobs share a task: each asks about its own documents.
use rule ask as ask_shard with:
    output:
        outcomes="results/{benchmark}/build/{lang}{part}/{task}/{shard}.outcomes.parquet",
        usage="results/{benchmark}/build/{lang}{part}/{task}/{shard}.usage.parquet",
    log:
        "logs/{benchmark}/ask/{lang}{part}/{task}/{shard}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}{part}/{task}/{shard}.tsv"
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
        mem_mb=mib(32000),
        runtime=minutes(720),
        gpu=per_job(jobs.served_gpus),
        budgeted_llm=per_job(jobs.budgeted),


use rule on_cpu as gather with:
    input:
        unpack(task_tables),
        outcomes=per_job(paths.task_shards, table="outcomes"),
        usages=per_job(paths.task_shards, table="usage"),
    output:
        rows="results/{benchmark}/build/{lang}{part}/{task}.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/{task}.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/{task}.flow.parquet",
        usage="results/{benchmark}/build/{lang}{part}/{task}.usage.parquet",
    log:
        "logs/{benchmark}/gather/{lang}{part}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/gather/{lang}{part}/{task}.tsv"
    wildcard_constraints:
        benchmark=patterns["asked in shards"],
        task=patterns["tasks"],
    params:
        domains=task_domains,
        made=per_job(jobs.gather),
        stage=STAGES["gather"],
    message:
        "Gathering {wildcards.task} of {wildcards.benchmark}, {wildcards.lang}"


use rule on_cpu as assemble with:
    input:
        documents=per_job(paths.build_table, table="documents"),
        candidates=per_job(paths.candidates_before),
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
    resources:
        mem_mb=mib(4000, 25, of=largest_share),
        runtime=minutes(60),
    params:
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["assemble"],
    message:
        "Assembling {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"


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
