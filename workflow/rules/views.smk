# Other cuts of a benchmark: a tiny subset, and all candidates for filter studies.


use rule on_cpu as tiny with:
    input:
        **benchmark_tables("results/{benchmark}/data/{lang}/{domain}"),
    output:
        **benchmark_tables("results/{benchmark}-tiny/data/{lang}/{domain}"),
    wildcard_constraints:
        benchmark=patterns["having tiny"],
    params:
        section=setting("tiny", "only_here"),
        stage=STAGES["subset"],


# Every candidate over the whole corpus: what a filter study evaluates.
use rule assemble as assemble_candidates with:
    input:
        documents=per_job(paths.build_table, table="documents"),
        candidates=per_job(paths.candidates_before, step="verify"),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        **benchmark_tables("results/{benchmark}-candidates/data/{lang}/{domain}"),
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
    wildcard_constraints:
        benchmark=patterns["studied"],
    params:
        scoring=per_job(jobs.part_scoring, complete=True),


study_names = ["thresholds", "threshold_psi", "leave_one_out_psi"]


use rule on_cpu as filter_study with:
    input:
        candidates=per_job(paths.candidates_before, step="verify"),
        scores=expand(
            "results/{{benchmark}}/study/{{lang}}{{part}}/scores/{reranker}.parquet",
            reranker=setting("verify.rerankers"),
        ),
        query_scores="results/{benchmark}-candidates/scores/{lang}-{lang}.parquet",
    output:
        **{
            name: f"results/{{benchmark}}/study/{{lang}}{{part}}/{name}.parquet"
            for name in study_names
        },
    wildcard_constraints:
        benchmark=patterns["studied"],
    params:
        domains=domains,
        section=setting("verify"),
        models=settings.models,
        metric=settings.psi_metrics[0],
        uncertainty=dump(settings.uncertainty),


rule study:
    input:
        paths.study_tables(plan, study_names),
    localrule: True


# Any table of a benchmark as CSV, on demand: lists become JSON.
use rule on_cpu as table_csv with:
    input:
        parquet="results/{benchmark}/{table}.parquet",
    output:
        csv="results/{benchmark}/{table}.csv",
    wildcard_constraints:
        table=r"[a-zA-Z0-9._/-]+",
