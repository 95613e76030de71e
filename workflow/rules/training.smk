# Bases trained under distributions of where the evidence is; evaluated as any other model.


use rule on_cpu as sample_training with:
    input:
        queries=per_job(paths.pool_tables, table="queries"),
        corpus=per_job(paths.pool_tables, table="corpus"),
        qrels=per_job(paths.pool_tables, table="qrels"),
        held_out=per_job(paths.held_out, table="corpus"),
        held_out_qrels=per_job(paths.held_out, table="qrels"),
    output:
        pairs="results/training/{training}/pairs.parquet",
        counts="results/training/{training}/counts.parquet",
    log:
        "logs/training/{training}/sample.log",
    benchmark:
        "benchmarks/training/{training}/sample.tsv"
    wildcard_constraints:
        training=patterns["trainings"],
    resources:
        mem_mb=mib(2000, 10),
        # Words of the pool are compared with those of the tests: 1,000 documents a second.
        runtime=minutes(60),
    params:
        domains=per_job(paths.pool_domains),
        edges=lambda wildcards: settings.training[wildcards.training].edges,
        distributions=lambda wildcards: settings.training[
            wildcards.training
        ].distributions,
        budget=lambda wildcards: settings.training[wildcards.training].budget,
        sampling_seed=lambda wildcards: settings.training[
            wildcards.training
        ].sampling_seed,
        same_article=lambda wildcards: settings.training[
            wildcards.training
        ].same_article,
        stage=STAGES["sample_training"],
    message:
        "Drawing the training sets of {wildcards.training}"


# One job a base, distribution and seed.
rule train_model:
    input:
        pairs="results/training/{training}/pairs.parquet",
        queries=per_job(paths.pool_tables, table="queries"),
        corpus=per_job(paths.pool_tables, table="corpus"),
        checkpoint=per_job(paths.base_inputs),
    output:
        # The last file of the checkpoint's folder.
        model="results/training/{training}/models/{trained}/model.json",
    log:
        "logs/training/{training}/train/{trained}.log",
    benchmark:
        "benchmarks/training/{training}/train/{trained}.tsv"
    wildcard_constraints:
        training=patterns["trainings"],
        trained=patterns["trained"],
    conda:
        "../../envs/gpu.yaml"
    # Of several small jobs on few cores each is faster alone on one.
    threads: 4 if jobs.gpus(plan) else 1
    resources:
        mem_mb=lambda wildcards, attempt: (
            jobs.training_mib(plan, wildcards.trained) + 8000 * (attempt - 1)
        ),
        runtime=minutes(1440),
        gpu=lambda wildcards: jobs.gpus(plan),
        device=settings.encoding.device,
        # How often it saves changes nothing in the result.
        save_minutes=lambda wildcards: settings.training[
            wildcards.training
        ].settings.save_minutes,
    params:
        entry=per_job(jobs.base),
        settings=lambda wildcards: dump(
            settings.training[wildcards.training].settings, "save_minutes"
        ),
        distribution=lambda wildcards: plan.config.trained[
            wildcards.trained
        ].distribution,
        seed=lambda wildcards: plan.config.trained[wildcards.trained].seed,
        sampling_seed=lambda wildcards: settings.training[
            wildcards.training
        ].sampling_seed,
        domains=per_job(paths.pool_domains),
        work=f"{settings.store}/training",
        stage=STAGES["train_model"],
    message:
        "Training {wildcards.trained}"
    script:
        "../scripts/stage.py"


use rule on_cpu as training_results with:
    input:
        psi_table="results/psi_table.parquet",
        scores=[one["scores"] for one in summaries.training_evaluations(plan)],
        alone=paths.unevaluated_model_manifests(plan),
    output:
        tables=tables_and_csv(
            summaries.training_tables(plan)
            or ["training_table", "training_reduction", "training_buckets"]
        ),
    log:
        "logs/training_results.log",
    benchmark:
        "benchmarks/training_results.tsv"
    resources:
        mem_mb=mib(4000, 12),
        runtime=minutes(60),
    params:
        trained=summaries.training_runs(plan),
        evaluations=summaries.training_evaluations(plan),
        psi_metrics=settings.psi_metrics,
        uncertainty=dump(settings.uncertainty),
        stage=STAGES["training_results"],
    message:
        "Writing results/training_table.csv and the tables beside it"
