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


# One job asks a task about all documents of a language and makes its table. The task is the `LlmTask`
# of its name in generate/RECIPE.py (or filters/, translate/), its template config/prompts/TASK.md.
# `resources.budgeted_llm`: of a model with a budget one job at a time.
use rule on_cpu as ask with:
    input:
        unpack(task_tables),
        # What a template sends decides the reruns (params.prompt_hash): its comments ask nothing.
        prompt=lambda wildcards: ancient(planned(wildcards).tasks[wildcards.task].path),
    output:
        **step_tables("{task}", "dropped", "flow", "usage", "outcomes"),
    wildcard_constraints:
        benchmark=patterns["asked whole without vllm"],
    resources:
        **needs(4000, 25, minutes=per_job(jobs.ask_minutes)),
        budgeted_llm=per_job(jobs.budgeted),
    params:
        domains=task_domains,
        asked=per_job(jobs.ask),
        made=per_job(jobs.gather),
        store=settings.store,
        stage=STAGES["ask"],
        gather_version=STAGES["gather"],


# The same with a server of its own, which lives as long as the job.
use rule ask as ask_vllm with:
    wildcard_constraints:
        benchmark=patterns["asked whole by vllm"],
    conda:
        "../../envs/gpu.yaml"
    threads: 4
    resources:
        **needs(32000, minutes=720),
        gpu=lambda wildcards: plan.llm_of(wildcards.benchmark, wildcards.task).vllm.gpus,
        budgeted_llm=per_job(jobs.budgeted),


# Several jobs share a task: each asks about its own documents.
use rule ask as ask_shard with:
    output:
        outcomes="results/{benchmark}/build/{lang}{part}/{task}/{shard}.outcomes.parquet",
        usage="results/{benchmark}/build/{lang}{part}/{task}/{shard}.usage.parquet",
    wildcard_constraints:
        benchmark=patterns["asked in shards without vllm"],


use rule ask_vllm as ask_shard_vllm with:
    output:
        outcomes="results/{benchmark}/build/{lang}{part}/{task}/{shard}.outcomes.parquet",
        usage="results/{benchmark}/build/{lang}{part}/{task}/{shard}.usage.parquet",
    wildcard_constraints:
        benchmark=patterns["asked in shards by vllm"],


task_shard = (
    "results/{{benchmark}}/build/{{lang}}{{part}}/{{task}}/{shard}.{table}.parquet"
)


use rule on_cpu as gather with:
    input:
        unpack(task_tables),
        outcomes=expand(task_shard, shard=task_shards, table="outcomes"),
        usages=expand(task_shard, shard=task_shards, table="usage"),
    output:
        **step_tables("{task}", "dropped", "flow", "usage"),
    wildcard_constraints:
        benchmark=patterns["asked in shards"],
    params:
        domains=task_domains,
        made=per_job(jobs.gather),


use rule on_cpu as assemble with:
    input:
        documents=per_job(paths.build_table, table="documents"),
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
