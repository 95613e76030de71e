# Other cuts of a benchmark: a tiny subset, training mixtures, and all candidates for filter studies.


use rule on_cpu as tiny with:
    input:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
    output:
        corpus="results/{benchmark}-tiny/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}-tiny/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}-tiny/data/{lang}/{domain}/qrels.parquet",
    log:
        "logs/{benchmark}-tiny/subset/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}-tiny/subset/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["having tiny"],
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(30),
    params:
        section=lambda wildcards: dump(own(wildcards).section.tiny, "only_here"),
        stage=STAGES["subset"],
    message:
        "A tiny subset of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"


use rule on_cpu as mixtures with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}{part}/sampling.parquet",
        queries=per_job(paths.domain_tables, table="queries"),
    output:
        mixtures="results/{benchmark}/build/{lang}{part}/mixtures.parquet",
        cells="results/{benchmark}/build/{lang}{part}/mixture_cells.parquet",
    log:
        "logs/{benchmark}/mixtures/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/mixtures/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["having mixtures"],
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(30),
    params:
        domains=domains,
        section=lambda wildcards: dump(own(wildcards).section.mixtures),
        stage=STAGES["mixtures"],
    message:
        "Training mixtures of {wildcards.benchmark}, {wildcards.lang}"


# Every candidate over the whole corpus: what a filter study evaluates.
use rule assemble as assemble_candidates with:
    input:
        documents=per_job(paths.build_table, table="documents"),
        candidates=per_job(paths.candidates_before, step="verify"),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        corpus="results/{benchmark}-candidates/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}-candidates/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}-candidates/data/{lang}/{domain}/qrels.parquet",
    log:
        "logs/{benchmark}-candidates/assemble/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}-candidates/assemble/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["studied"],


# Every part under every reranker; what the filter has scored comes from the store.
use rule score_parts as score_all_parts with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=per_job(paths.candidates_before, step="verify"),
        earlier=[],
        # What the filter scores is in the store then.
        filtered=per_job(paths.score_tables, of="verify", reranker=None),
        checkpoint=per_job(paths.reranker_inputs),
    output:
        scores="results/{benchmark}/study/{lang}{part}/scores/{reranker}.parquet",
    log:
        "logs/{benchmark}/study/{lang}{part}/score_{reranker}.log",
    benchmark:
        "benchmarks/{benchmark}/study/{lang}{part}/score_{reranker}.tsv"
    wildcard_constraints:
        benchmark=patterns["studied"],
        reranker=patterns["rerankers"],
    params:
        domains=domains,
        scoring=per_job(jobs.part_scoring, complete=True),
        store=settings.store,
        stage=STAGES["score_parts"],


use rule on_cpu as filter_study with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}{part}/sampling.parquet",
        candidates=per_job(paths.candidates_before, step="verify"),
        scores=per_job(paths.study_scores),
        query_scores="results/{benchmark}-candidates/scores/{lang}-{lang}.parquet",
    output:
        thresholds="results/{benchmark}/study/{lang}{part}/thresholds.parquet",
        threshold_psi="results/{benchmark}/study/{lang}{part}/threshold_psi.parquet",
        agreement="results/{benchmark}/study/{lang}{part}/agreement.parquet",
        leave_one_out="results/{benchmark}/study/{lang}{part}/leave_one_out.parquet",
        leave_one_out_psi="results/{benchmark}/study/{lang}{part}/leave_one_out_psi.parquet",
        cells="results/{benchmark}/study/{lang}{part}/cells.parquet",
    log:
        "logs/{benchmark}/study/{lang}{part}/filter_study.log",
    benchmark:
        "benchmarks/{benchmark}/study/{lang}{part}/filter_study.tsv"
    wildcard_constraints:
        benchmark=patterns["studied"],
    params:
        domains=domains,
        section=lambda wildcards: dump(own(wildcards).section.verify),
        models=settings.models,
        metric=settings.psi_metrics[0],
        uncertainty=dump(settings.uncertainty),
        stage=STAGES["filter_study"],
    message:
        "What the filters of {wildcards.benchmark} do to its queries and to every model's PSI"


rule study:
    input:
        paths.study_tables(
            plan,
            (
                "thresholds",
                "threshold_psi",
                "cells",
                "agreement",
                "leave_one_out",
                "leave_one_out_psi",
            ),
        ),
    localrule: True


# Any table of a benchmark as CSV, on demand: lists become JSON.
use rule on_cpu as table_csv with:
    input:
        parquet="results/{benchmark}/{table}.parquet",
    output:
        csv="results/{benchmark}/{table}.csv",
    log:
        "logs/{benchmark}/csv/{table}.log",
    benchmark:
        "benchmarks/{benchmark}/csv/{table}.tsv"
    wildcard_constraints:
        table=r"[a-zA-Z0-9._/-]+",
    resources:
        mem_mb=mib(2000, 25),
        runtime=minutes(30),
    params:
        stage=STAGES["table_csv"],
    message:
        "Writing {output}"
