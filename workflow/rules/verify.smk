# Candidates become queries only where rerankers agree, and then a language model: scores, grades.
# An audit by a language model says how good the margin is.


use rule on_gpu as score_parts with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=per_job(paths.candidates_before, step="verify"),
        # One after the other, the cheapest first: what is decided is not scored again.
        earlier=per_job(paths.score_tables, of="verify"),
        checkpoint=outside(per_job(paths.reranker_inputs)),
    output:
        scores="results/{benchmark}/build/{lang}{part}/scores/{reranker}{portion}.parquet",
    priority: 1
    threads: per_job(jobs.chain_threads)
    resources:
        **needs(
            per_job(jobs.scoring_mib),
            25,
            minutes=per_job(jobs.scoring_minutes, of="verify"),
        ),
        **on_device,
        tokens_per_batch=per_job(jobs.scoring_tokens),
    params:
        domains=domains,
        scoring=per_job(jobs.part_scoring),
        store=settings.store,
        stage=STAGES["score_parts"],


use rule on_cpu as verify with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}{part}/sampling.parquet",
        candidates=per_job(paths.candidates_before, step="verify"),
        scores=per_job(paths.score_tables, of="verify", reranker=None),
    output:
        **step_tables("verify", "dropped", "flow"),
    wildcard_constraints:
        benchmark=patterns["verified"],
    resources:
        **needs(4000, 25),
        **on_empty,
    params:
        domains=domains,
        section=setting("verify"),
        place=per_job(jobs.counted, step="verify"),
        stage=STAGES["verify"],


# The same by margin, with the counts by threshold and by length bin.
use rule verify as verify_margin with:
    output:
        **step_tables("verify", "dropped", "flow"),
        margin_table="results/{benchmark}/build/{lang}{part}/margin_table.parquet",
        cell_table="results/{benchmark}/build/{lang}{part}/cell_table.parquet",
        margins="results/{benchmark}/build/{lang}{part}/margins.parquet",
    wildcard_constraints:
        benchmark=patterns["margin"],


use rule on_cpu as grade_pairs with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=per_job(paths.candidates_before, step="grade"),
        first=per_job(paths.grades),
    output:
        pairs="results/{benchmark}/build/{lang}{part}/{task}_pairs.parquet",
    wildcard_constraints:
        benchmark=patterns["having grade"],
        task="grade_first|grade_rest",
    params:
        domains=domains,
        section=per_job(jobs.grade),


use rule on_cpu as grade with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=per_job(paths.candidates_before, step="grade"),
        grades=per_job(paths.grades),
    output:
        **step_tables("grade", "dropped", "flow"),
    wildcard_constraints:
        benchmark=patterns["having grade"],
    params:
        domains=domains,
        section=per_job(jobs.grade),
        place=per_job(jobs.counted, step="grade"),


use rule on_cpu as audit_pairs with:
    input:
        documents="results/{benchmark}/build/{lang}{part}/documents.parquet",
        candidates=per_job(paths.candidates_before, step="verify"),
        margins="results/{benchmark}/build/{lang}{part}/margins.parquet",
    output:
        pairs="results/{benchmark}/build/{lang}{part}/audit_pairs.parquet",
    wildcard_constraints:
        benchmark=patterns["having audit"],
    params:
        domains=domains,
        section=setting("audit", "prompt"),


use rule on_cpu as audit_table with:
    input:
        candidates=per_job(paths.candidates_before, step="verify"),
        margins="results/{benchmark}/build/{lang}{part}/margins.parquet",
        verdicts=per_job(paths.built, table="audit"),
    output:
        table="results/{benchmark}/build/{lang}{part}/audit_table.parquet",
    wildcard_constraints:
        benchmark=patterns["having audit"],
    params:
        domains=domains,
