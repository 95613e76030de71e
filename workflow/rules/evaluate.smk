# From runs to per-query scores, bucket scores and PSI.


# All models of a language pair in one job: they are compared with each other.
use rule on_cpu as score with:
    input:
        # Runs, and what the models saw of the documents.
        per_job(paths.scoring_inputs),
        wider=per_job(paths.source_runs),
        # Who asks decides which queries count; positives and spans are the searched corpus'.
        asked=per_job(paths.domain_tables, lang=query_lang, table="queries"),
        queries=per_job(paths.domain_tables, lang=corpus_lang, table="queries"),
        qrels=per_job(paths.domain_tables, lang=corpus_lang, table="qrels"),
    output:
        **scored,
    wildcard_constraints:
        benchmark=patterns["searched"],
    resources:
        # Runs are read in batches; measured: 280 MB for 2 million rows of one, 450 MB for 8 million.
        **needs(4000, 6, minutes=240),
    params:
        domains=domains,
        models=per_job(paths.compared_models),
        control=per_job(Plan.position_blind),
        windows=per_job(Plan.input_lengths),
        pairs=per_job(Plan.given_pairs),
        schemes=setting("buckets"),
        length_buckets=setting("length_buckets"),
        metrics=settings.metrics,
        psi_metrics=settings.psi_metrics,
        uncertainty=dump(settings.uncertainty),
        stage=STAGES["score"],


# The runs of a wider view are the benchmark's too, its own queries' rows of them: nothing is
# searched again.
use rule score as score_shared with:
    output:
        **scored,
        runs=[
            f"results/{{benchmark}}/runs/{path}"
            for path in paths.run_path_templates(plan)
        ],
    wildcard_constraints:
        benchmark=patterns["shared"],
