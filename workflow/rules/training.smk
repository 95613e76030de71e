# Base models trained on different distributions of evidence positions, evaluated like other models.


use rule on_cpu as sample_training with:
    input:
        queries=pool("queries"),
        corpus=pool("corpus"),
        qrels=pool("qrels"),
        held_out=lambda w: paths.held_out(plan, w.training, table="corpus"),
        held_out_qrels=lambda w: paths.held_out(plan, w.training, table="qrels"),
    output:
        pairs="results/training/{training}/pairs.parquet",
        counts="results/training/{training}/counts.parquet",
    log:
        "logs/sample_training/{training}.log",
    benchmark:
        "benchmarks/sample_training/{training}.tsv"
    resources:
        # Compares the words of the pool with the words of the tests, 1,000 documents per second.
        **needs(2000, 10),
    params:
        domains=pool_domains,
        edges=leaf("edges"),
        distributions=leaf("distributions"),
        budget=leaf("budget"),
        sampling_seed=leaf("sampling_seed"),
        same_article=leaf("same_article"),
        stage=STAGES["sample_training"],


# One job per base, distribution and seed.
use rule on_gpu as train_model with:
    input:
        pairs=rules.sample_training.output.pairs,
        queries=pool("queries"),
        corpus=pool("corpus"),
        checkpoint=outside(base_files),
    output:
        # The last file of the checkpoint's folder.
        model="results/training/{training}/models/{trained}/model.json",
    log:
        "logs/train_model/{training}/{trained}.log",
    benchmark:
        "benchmarks/train_model/{training}/{trained}.tsv"
    # On a CPU, several small jobs with one core each are faster than one with all.
    threads: 4 if jobs.gpus(plan) else 1
    resources:
        **needs(lambda w: jobs.training_mib(plan, w.trained), minutes=1440),
        **on_device,
        # A resource, not a parameter: it does not change the result.
        save_minutes=leaf("settings", "save_minutes"),
    params:
        content=content("train_model", base_files),
        entry=lambda w: jobs.base(plan, w.trained),
        settings=leaf("settings", without=["save_minutes"]),
        distribution=lambda w: plan.config.trained[w.trained].distribution,
        seed=lambda w: plan.config.trained[w.trained].seed,
        sampling_seed=leaf("sampling_seed"),
        domains=pool_domains,
        work=f"{settings.store}/training",
        stage=STAGES["train_model"],


use rule on_cpu as training_results with:
    input:
        psi_table=rules.summaries.output.psi_table,
        scores=[one["scores"] for one in summaries.training_evaluations(plan)],
        alone=paths.unevaluated_model_manifests(plan),
    output:
        parquet="results/training_table.parquet",
        csv=in_report("results/training_table.csv"),
    log:
        "logs/training_results.log",
    benchmark:
        "benchmarks/training_results.tsv"
    params:
        trained=summaries.training_runs(plan),
        evaluations=summaries.training_evaluations(plan),
        psi_metrics=settings.psi_metrics,
        uncertainty=config["uncertainty"],
        stage=STAGES["training_results"],
