# Benchmarks whose queries a language model writes: sample, tasks in shards, assemble.


use rule on_cpu as sample with:
    input:
        outside(per_job(paths.sources_of)),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}{part}/sampling.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/documents.dropped.parquet",
    wildcard_constraints:
        benchmark=patterns["generated"],
    threads: per_job(jobs.sample_threads)
    resources:
        **needs(
            per_job(jobs.sample_mib),
            minutes=lambda wildcards: 240 * len(domains(wildcards)),
        ),
    params:
        domains=per_job(jobs.sample),
        store=settings.store,


use rule on_gpu as personas with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        personas=outside(lambda wildcards: plan.personas[wildcards.benchmark]),
        checkpoint=outside(per_job(paths.model_inputs, model=persona_encoder)),
    output:
        candidates="results/{benchmark}/build/{lang}{part}/persona_candidates.parquet",
    wildcard_constraints:
        benchmark=patterns["generated"],
    priority: 1
    threads: per_job(jobs.chain_threads)
    resources:
        **needs(6000, 30, minutes=240),
        **on_device,
        tokens_per_batch=settings.encoding.tokens_per_batch,
        tokens_per_part=settings.encoding.tokens_per_part,
    params:
        domains=domains,
        section=setting("personas"),
        entry=per_job(jobs.entry, model=persona_encoder),
        model_version=per_job(jobs.model_version, model=persona_encoder),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,


# One job asks a task about the documents of a language, or a shard of them, and makes its tables.
# The task is the `LlmTask` of its name in generate/RECIPE.py (or filters/, translate/), its template
# config/prompts/TASK.md. A vLLM server lives as long as the job that asks it.
# `resources.budgeted_llm`: of a model with a budget one job at a time.
use rule on_cpu as ask with:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(planned(wildcards).tasks[wildcards.task].path),
    output:
        **step_tables("{task}{portion}", "dropped", "flow", "usage", "outcomes"),
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.ask_threads)
    resources:
        **needs(per_job(jobs.ask_mib), 25, minutes=per_job(jobs.ask_minutes)),
        gpu=per_job(jobs.ask_gpus),
        budgeted_llm=per_job(jobs.budgeted),
    params:
        domains=task_domains,
        asked=per_job(jobs.ask),
        step=lambda wildcards: planned(wildcards).flow_step(wildcards.task),
        store=settings.store,


use rule on_cpu as assemble with:
    input:
        documents=per_job(paths.built, table="documents"),
        candidates=per_job(paths.candidates_before),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
    wildcard_constraints:
        benchmark=patterns["native unpurged"],
    resources:
        **needs(4000, 25, of=largest_share),
        **on_empty,
    params:
        domains=domains,
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["assemble"],


# With false negatives in it: the view `raw`, from which they are removed.
use rule assemble as assemble_raw with:
    output:
        **benchmark_tables("results/{benchmark}-raw/data/{lang}{part}"),
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
