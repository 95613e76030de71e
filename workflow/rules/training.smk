# Bases trained under distributions of where the evidence is; evaluated as any other model.


use rule on_cpu as sample_training with:
    input:
        queries=per_job(paths.domain_tables, **pool, table="queries"),
        corpus=per_job(paths.domain_tables, **pool, table="corpus"),
        qrels=per_job(paths.domain_tables, **pool, table="qrels"),
        held_out=per_job(paths.held_out, table="corpus"),
        held_out_qrels=per_job(paths.held_out, table="qrels"),
    output:
        pairs="results/training/{training}/pairs.parquet",
        counts="results/training/{training}/counts.parquet",
    resources:
        # Words of the pool are compared with those of the tests: 1,000 documents a second.
        **needs(2000, 10),
    params:
        domains=per_job(paths.domains, **pool),
        edges=setting("edges"),
        distributions=setting("distributions"),
        budget=setting("budget"),
        sampling_seed=setting("sampling_seed"),
        same_article=setting("same_article"),


# One job a base, distribution and seed.
use rule on_gpu as train_model with:
    input:
        pairs="results/training/{training}/pairs.parquet",
        queries=per_job(paths.domain_tables, **pool, table="queries"),
        corpus=per_job(paths.domain_tables, **pool, table="corpus"),
        checkpoint=outside(per_job(paths.base_inputs)),
    output:
        # The last file of the checkpoint's folder.
        model="results/training/{training}/models/{trained}/model.json",
    # Of several small jobs on few cores each is faster alone on one.
    threads: 4 if jobs.gpus(plan) else 1
    resources:
        **needs(per_job(jobs.training_mib), minutes=1440),
        **on_device,
        # How often it saves changes nothing in the result.
        save_minutes=setting("settings.save_minutes"),
    params:
        entry=per_job(jobs.base),
        settings=setting("settings", "save_minutes"),
        distribution=lambda wildcards: plan.config.trained[
            wildcards.trained
        ].distribution,
        seed=lambda wildcards: plan.config.trained[wildcards.trained].seed,
        sampling_seed=setting("sampling_seed"),
        domains=per_job(paths.domains, **pool),
        work=f"{settings.store}/training",


use rule on_cpu as training_results with:
    input:
        psi_table="results/psi_table.parquet",
        scores=[one["scores"] for one in summaries.training_evaluations(plan)],
        alone=paths.unevaluated_model_manifests(plan),
    output:
        parquet="results/training_table.parquet",
        csv=in_report("results/training_table.csv"),
    params:
        trained=summaries.training_runs(plan),
        evaluations=summaries.training_evaluations(plan),
        psi_metrics=settings.psi_metrics,
        uncertainty=dump(settings.uncertainty),
