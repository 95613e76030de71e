# Documents that answer a query and are not its positive: recalled, scored, judged, removed.
# What is there before is the view `{benchmark}-raw`.


# As for a run, over the raw tables and deeper.
use rule search_lexical as recall_lexical with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    log:
        "logs/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["lexical"],
    resources:
        mem_mb=mib(per_job(jobs.recall_mib), 40, of=largest_share),
        runtime=minutes(240),
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        top_k=per_job(jobs.recall_depth),
        stage=STAGES["search_lexical"],
    message:
        "Recalling documents of {wildcards.benchmark} with {wildcards.model}"


use rule search_vectors as recall_vectors with:
    output:
        run="results/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.parquet",
    log:
        "logs/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/recall/{model}/{query_lang}-{corpus_lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["raw"],
        model=patterns["vector"],
    resources:
        mem_mb=mib(per_job(jobs.recall_mib), 16, more=2 * settings.search.block_mib),
        runtime=minutes(240),
        block_mib=settings.search.block_mib,
        device=settings.search.device,
    params:
        entry=per_job(jobs.entry),
        model_version=per_job(jobs.model_version),
        domains=domains,
        top_k=per_job(jobs.recall_depth),
        store=settings.store,
        stage=STAGES["search_vectors"],
    message:
        "Recalling documents of {wildcards.benchmark} with {wildcards.model}"


rule score_pairs:
    input:
        corpus=per_job(paths.domain_tables, table="corpus", view="raw"),
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        qrels=per_job(paths.domain_tables, table="qrels", view="raw"),
        recall=per_job(paths.recall_table),
        # One after the other, the cheapest first: what is decided is not scored again.
        earlier=per_job(paths.score_tables, of="false_negatives"),
        checkpoint=per_job(paths.reranker_inputs),
    output:
        scores="results/{benchmark}/build/{lang}{part}/pair_scores/{reranker}{portion}.parquet",
    log:
        "logs/{benchmark}/score_pairs/{lang}{part}/{reranker}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/score_pairs/{lang}{part}/{reranker}{portion}.tsv"
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
        reranker=patterns["rerankers"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.chain_threads)
    resources:
        mem_mb=mib(per_job(jobs.scoring_mib), 50),
        runtime=minutes(per_job(jobs.scoring_minutes, of="false_negatives")),
        gpu=per_job(jobs.gpus),
        device=settings.encoding.device,
        tokens_per_batch=per_job(jobs.scoring_tokens),
    params:
        domains=domains,
        top_k=per_job(jobs.recall_depth),
        scoring=per_job(jobs.pair_scoring),
        store=settings.store,
        stage=STAGES["score_pairs"],
    message:
        "Scoring recalled documents of {wildcards.benchmark} with {wildcards.reranker}"
    script:
        "../scripts/stage.py"


use rule on_cpu as negatives with:
    input:
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        qrels=per_job(paths.domain_tables, table="qrels", view="raw"),
        recall=per_job(paths.recall_table),
        scores=per_job(paths.score_tables, of="false_negatives"),
    output:
        negatives="results/{benchmark}/build/{lang}{part}/negatives.parquet",
    log:
        "logs/{benchmark}/negatives/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/negatives/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
    resources:
        mem_mb=mib(4000, 45),
        runtime=minutes(60),
    params:
        domains=domains,
        top_k=per_job(jobs.recall_depth),
        section=lambda wildcards: own(wildcards).section.false_negatives.panel(),
        stage=STAGES["negatives"],
    message:
        "Documents of {wildcards.benchmark} that rerankers call relevant"


use rule on_cpu as judge_pairs with:
    input:
        corpus=per_job(paths.domain_tables, table="corpus", view="raw"),
        queries=per_job(paths.domain_tables, table="queries", view="raw"),
        negatives="results/{benchmark}/build/{lang}{part}/negatives.parquet",
        # Nobody is asked what the judges before have decided.
        earlier=per_job(paths.judge_tables),
    output:
        pairs="results/{benchmark}/build/{lang}{part}/judge_{number}_pairs.parquet",
    log:
        "logs/{benchmark}/judge_pairs/{lang}{part}/{number}.log",
    benchmark:
        "benchmarks/{benchmark}/judge_pairs/{lang}{part}/{number}.tsv"
    wildcard_constraints:
        benchmark=patterns["having false_negatives"],
        number=r"[1-9][0-9]*",
    params:
        domains=domains,
        section=lambda wildcards: own(wildcards).section.false_negatives.removal(),
        stage=STAGES["judge_pairs"],
    message:
        "What judge {wildcards.number} of {wildcards.benchmark} has to grade"


use rule on_cpu as remove_negatives with:
    input:
        corpus="results/{benchmark}-raw/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}-raw/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}-raw/data/{lang}/{domain}/qrels.parquet",
        negatives=per_job(paths.build_table, table="negatives"),
        scores=per_job(paths.score_tables, of="false_negatives"),
        judged=per_job(paths.judge_tables),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
        judgements="results/{benchmark}/data/{lang}/{domain}/judgements.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/false_negatives.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{domain}/false_negatives.flow.parquet",
        savings="results/{benchmark}/build/{lang}/{domain}/false_negatives.savings.parquet",
    log:
        "logs/{benchmark}/remove_negatives/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/remove_negatives/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["native having false_negatives"],
    resources:
        mem_mb=mib(4000, 20),
        runtime=minutes(60),
    params:
        section=lambda wildcards: own(wildcards).section.false_negatives.removal(),
        place=per_job(jobs.counted, step="false_negatives"),
        stage=STAGES["remove_negatives"],
    message:
        "Removing false negatives of {wildcards.benchmark}"
