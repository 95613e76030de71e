# From runs to per-query scores, bucket scores and PSI.


# All models of a language pair in one job, because they are compared with each other.
use rule on_cpu as score with:
    input:
        # Runs, and tables of how much of each document the models read.
        lambda w: paths.scoring_inputs(plan, w.benchmark, w.query_lang, w.corpus_lang),
        # The query language determines which queries count; positives and spans come from the
        # corpus language.
        asked=tables("queries", query_lang),
        queries=tables("queries", corpus_lang),
        qrels=tables("qrels", corpus_lang),
    output:
        **scored,
    log:
        "logs/{benchmark}/score/{query_lang}/{corpus_lang}.log",
    benchmark:
        "benchmarks/{benchmark}/score/{query_lang}/{corpus_lang}.tsv"
    resources:
        # Runs are read in batches. Measured: 280 MB for 2 million rows per run, 450 MB for 8 million.
        **needs(4000, 6, minutes=240),
    params:
        domains=domains,
        models=lambda w: paths.compared_models(
            plan, w.benchmark, w.query_lang, w.corpus_lang
        ),
        control=lambda w: plan.position_blind(w.benchmark, w.query_lang, w.corpus_lang),
        windows=lambda w: plan.input_lengths(w.benchmark, w.query_lang, w.corpus_lang),
        pairs=lambda w: plan.given_pairs(w.benchmark, w.query_lang, w.corpus_lang),
        schemes=leaf("buckets"),
        length_buckets=leaf("length_buckets"),
        metrics=settings.metrics,
        psi_metrics=settings.psi_metrics,
        uncertainty=config["uncertainty"],
        stage=STAGES["score"],
