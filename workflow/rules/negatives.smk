# False negatives: documents that answer a query but are not its positive. They are recalled, scored
# and judged, and the rule `data` removes them. The view `{benchmark}-raw` still has them.


# Like a run, but over the raw tables and deeper.
use rule search_lexical as recall_lexical with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    log:
        "logs/{benchmark}/recall_lexical/{model}/{query_lang}/{corpus_lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/recall_lexical/{model}/{query_lang}/{corpus_lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["lexical"],
    resources:
        **needs(
            lambda w: jobs.recall_mib(plan, w.benchmark),
            40,
            of=largest_share,
            minutes=240,
        ),
    params:
        top_k=leaf("false_negatives", "recall", "top_k"),
        stage=STAGES["search_lexical"],


use rule search_vectors as recall_vectors with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    log:
        "logs/{benchmark}/recall_vectors/{model}/{query_lang}/{corpus_lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/recall_vectors/{model}/{query_lang}/{corpus_lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["vector"],
    resources:
        **needs(
            lambda w: jobs.recall_mib(plan, w.benchmark),
            16,
            more=2 * settings.search.block_mib,
            minutes=240,
        ),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        top_k=leaf("false_negatives", "recall", "top_k"),
        stage=STAGES["search_vectors"],


use rule on_gpu as score_pairs with:
    input:
        corpus=tables("corpus", view="raw"),
        queries=tables("queries", view="raw"),
        qrels=tables("qrels", view="raw"),
        recall=recall_table,
        # Rerankers run in order, the cheapest first; later ones skip decided pairs.
        earlier=earlier_scores("false_negatives"),
        checkpoint=outside(reranker_files),
    output:
        scores="results/{benchmark}/build/{lang}{part}/pair_scores/{reranker}{portion}.parquet",
    log:
        "logs/{benchmark}/score_pairs/{lang}{part}/{reranker}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/score_pairs/{lang}{part}/{reranker}{portion}.tsv"
    wildcard_constraints:
        benchmark=having("false_negatives"),
    priority: 1
    resources:
        **needs(
            lambda w: jobs.scoring_mib(plan, w.reranker),
            50,
            minutes=scoring_minutes("false_negatives"),
        ),
        **on_device,
        tokens_per_batch=lambda w: jobs.scoring_tokens(plan, w.reranker),
    params:
        content=content("score_pairs", reranker_files),
        domains=domains,
        top_k=leaf("false_negatives", "recall", "top_k"),
        scoring=lambda w: jobs.pair_scoring(plan, w.benchmark, w.reranker),
        store=settings.store,
        stage=STAGES["score_pairs"],


use rule on_cpu as negatives with:
    input:
        queries=tables("queries", view="raw"),
        qrels=tables("qrels", view="raw"),
        recall=recall_table,
        scores=scores("false_negatives"),
    output:
        negatives="results/{benchmark}/build/{lang}{part}/negatives.parquet",
    log:
        "logs/{benchmark}/negatives/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/negatives/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("false_negatives"),
    resources:
        **needs(4000, 45),
    params:
        domains=domains,
        top_k=leaf("false_negatives", "recall", "top_k"),
        section=lambda w: planned(w).negatives.panel(),
        stage=STAGES["negatives"],


use rule on_cpu as judge_pairs with:
    input:
        # Later judges skip pairs that earlier judges have decided.
        unpack(
            lambda w: paths.judge_tables(plan, w.benchmark, w.lang, w.part, w.number)
        ),
        corpus=tables("corpus", view="raw"),
        queries=tables("queries", view="raw"),
        negatives=rules.negatives.output.negatives,
    output:
        pairs="results/{benchmark}/build/{lang}{part}/judge_{number}_pairs.parquet",
    log:
        "logs/{benchmark}/judge_pairs/{lang}{part}/{number}.log",
    benchmark:
        "benchmarks/{benchmark}/judge_pairs/{lang}{part}/{number}.tsv"
    wildcard_constraints:
        benchmark=having("false_negatives"),
        number=r"[1-9][0-9]*",
    params:
        domains=domains,
        section=lambda w: planned(w).negatives.removal(),
        stage=STAGES["judge_pairs"],


# The scores and grades of all rerankers and judges for each judged pair.
use rule on_cpu as judgements with:
    input:
        unpack(lambda w: paths.judge_tables(plan, w.benchmark, w.lang, w.part)),
        qrels=tables("qrels", view="raw"),
        negatives=rules.negatives.output.negatives,
        scores=scores("false_negatives"),
    output:
        judgements="results/{benchmark}/build/{lang}{part}/judgements.parquet",
    log:
        "logs/{benchmark}/judgements/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/judgements/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("false_negatives"),
    resources:
        **needs(4000, 20),
    params:
        domains=domains,
        section=lambda w: planned(w).negatives.removal(),
        stage=STAGES["judgements"],
