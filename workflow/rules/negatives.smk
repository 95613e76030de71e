# Documents that answer a query and are not its positive: recalled, scored, judged, removed.
# What is there before is the view `{benchmark}-raw`.


# As for a run, over the raw tables and deeper.
use rule search_lexical as recall_lexical with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["lexical"],
    resources:
        **needs(per_job(jobs.recall_mib), 40, of=largest_share, minutes=240),
    params:
        top_k=recall_depth,


use rule search_vectors as recall_vectors with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["vector"],
    resources:
        **needs(
            per_job(jobs.recall_mib),
            16,
            more=2 * settings.search.block_mib,
            minutes=240,
        ),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        top_k=recall_depth,


use rule on_gpu as score_pairs with:
    input:
        corpus=per_job(paths.domain_tables, table="corpus", view="raw"),
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        qrels=per_job(paths.domain_tables, table="qrels", view="raw"),
        recall=per_job(paths.recall_table),
        # One after the other, the cheapest first: what is decided is not scored again.
        earlier=per_job(paths.score_tables, of="false_negatives"),
        checkpoint=outside(per_job(paths.reranker_inputs)),
    output:
        scores="results/{benchmark}/build/{lang}{part}/pair_scores/{reranker}{portion}.parquet",
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
    priority: 1
    resources:
        **needs(
            per_job(jobs.scoring_mib),
            50,
            minutes=per_job(jobs.scoring_minutes, of="false_negatives"),
        ),
        **on_device,
        tokens_per_batch=per_job(jobs.scoring_tokens),
    params:
        domains=domains,
        top_k=recall_depth,
        scoring=per_job(jobs.pair_scoring),
        store=settings.store,


use rule on_cpu as negatives with:
    input:
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        qrels=per_job(paths.domain_tables, table="qrels", view="raw"),
        recall=per_job(paths.recall_table),
        scores=per_job(paths.score_tables, of="false_negatives"),
    output:
        negatives="results/{benchmark}/build/{lang}{part}/negatives.parquet",
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
    resources:
        **needs(4000, 45),
    params:
        domains=domains,
        top_k=recall_depth,
        section=lambda wildcards: planned(wildcards).section.false_negatives.panel(),


use rule on_cpu as judge_pairs with:
    input:
        # Nobody is asked what the judges before have decided.
        unpack(per_job(paths.judge_tables)),
        corpus=per_job(paths.domain_tables, table="corpus", view="raw"),
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        negatives="results/{benchmark}/build/{lang}{part}/negatives.parquet",
    output:
        pairs="results/{benchmark}/build/{lang}{part}/judge_{number}_pairs.parquet",
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
        number=r"[1-9][0-9]*",
    params:
        domains=domains,
        section=lambda wildcards: planned(wildcards).section.false_negatives.removal(),


use rule on_cpu as remove_negatives with:
    input:
        unpack(per_job(paths.judge_tables)),
        **benchmark_tables("results/{benchmark}-raw/data/{lang}{part}"),
        negatives=per_job(paths.built, table="negatives"),
        scores=per_job(paths.score_tables, of="false_negatives"),
    output:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
        judgements="results/{benchmark}/data/{lang}{part}/judgements.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/false_negatives.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/false_negatives.flow.parquet",
    wildcard_constraints:
        benchmark=patterns["native having false_negatives"],
    resources:
        **needs(4000, 20),
        **on_empty,
    params:
        domains=domains,
        section=lambda wildcards: planned(wildcards).section.false_negatives.removal(),
        place=per_job(jobs.counted, step="false_negatives"),
