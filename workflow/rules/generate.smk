# Generated benchmarks: a sample of documents, and tasks of language models in shards.


use rule on_cpu as sample with:
    input:
        outside(sources),
        tokenizer=outside(length_tokenizer),
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
    threads: lambda w: jobs.sample_threads(plan, w.benchmark, w.lang, w.part)
    resources:
        **needs(
            lambda w: jobs.sample_mib(plan, w.benchmark, w.lang, w.part),
            minutes=lambda w: 240 * len(domains(w)),
        ),
    params:
        content=content("sample", sources, length_tokenizer),
        domains=lambda w: jobs.sample(plan, w.benchmark, w.lang, w.part),
        store=settings.store,
        stage=STAGES["sample"],


use rule on_gpu as personas with:
    input:
        documents=rules.sample.output.documents,
        personas=outside(persona_files),
        checkpoint=outside(persona_encoder_files),
    output:
        candidates="results/{benchmark}/build/{lang}{part}/persona_candidates.parquet",
    log:
        "logs/{benchmark}/personas/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/personas/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["generated"],
    priority: 1
    threads: chain_threads
    resources:
        **needs(6000, 30, minutes=240),
        **on_device,
        tokens_per_batch=settings.encoding.tokens_per_batch,
        tokens_per_part=settings.encoding.tokens_per_part,
    params:
        content=content("personas", persona_files, persona_encoder_files),
        domains=domains,
        section=leaf("personas"),
        entry=lambda w: jobs.entry(plan, persona_encoder(w)),
        model_version=lambda w: jobs.model_version(plan, persona_encoder(w)),
        dtype=settings.encoding.dtype,
        storage=settings.encoding.storage,
        store=settings.store,
        stage=STAGES["personas"],


# A job sends the requests of a task for the documents of a language, or for a shard of them.
# generate/RECIPE.py (or filters/, translate/) defines the task as an `LlmTask`; its template is
# config/prompts/TASK.md. A vLLM server runs as long as its job.
# `resources.budgeted_llm` allows one job at a time for a model with a budget.
use rule on_cpu as ask with:
    input:
        unpack(lambda w: planned(w).task_tables(w.task, w.lang, w.part)),
        # Reruns depend on params.prompt_hash, which ignores comments in the template.
        prompt=lambda w: ancient(planned(w).tasks[w.task].path),
    output:
        **step_tables("{task}{portion}", "dropped", "flow", "usage", "outcomes"),
    log:
        "logs/{benchmark}/ask/{lang}{part}/{task}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/ask/{lang}{part}/{task}{portion}.tsv"
    conda:
        "../../envs/gpu.yaml"
    threads: lambda w: jobs.ask_threads(plan, w.benchmark, w.task)
    resources:
        **needs(
            lambda w: jobs.ask_mib(plan, w.benchmark, w.task),
            25,
            minutes=lambda w: jobs.ask_minutes(plan, w.benchmark, w.task),
        ),
        gpu=lambda w: jobs.ask_gpus(plan, w.benchmark, w.task),
        budgeted_llm=lambda w: jobs.budgeted(plan, w.benchmark, w.task),
    params:
        domains=lambda w: planned(w).asked_about(w.task, w.lang, w.part),
        asked=lambda w: jobs.ask(plan, w.benchmark, w.task, w.lang),
        step=lambda w: planned(w).flow_step(w.task),
        store=settings.store,
        stage=STAGES["ask"],
