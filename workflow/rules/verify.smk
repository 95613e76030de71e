# Candidates become queries if rerankers accept them (scores), and then a language model (grades).
# An audit by a language model measures how well the margin decides.


use rule on_gpu as score_parts with:
    input:
        documents=rules.sample.output.documents,
        candidates=candidates_before("verify"),
        # Rerankers run in order, the cheapest first; later ones skip decided candidates.
        earlier=earlier_scores("verify"),
        checkpoint=outside(reranker_files),
    output:
        scores="results/{benchmark}/build/{lang}{part}/scores/{reranker}{portion}.parquet",
    log:
        "logs/{benchmark}/score_parts/{lang}{part}/{reranker}{portion}.log",
    benchmark:
        "benchmarks/{benchmark}/score_parts/{lang}{part}/{reranker}{portion}.tsv"
    priority: 1
    threads: chain_threads
    resources:
        **needs(
            lambda w: jobs.scoring_mib(plan, w.reranker),
            25,
            minutes=scoring_minutes("verify"),
        ),
        **on_device,
        tokens_per_batch=lambda w: jobs.scoring_tokens(plan, w.reranker),
    params:
        content=content("score_parts", reranker_files),
        domains=domains,
        scoring=lambda w: jobs.part_scoring(plan, w.benchmark, w.reranker),
        store=settings.store,
        stage=STAGES["score_parts"],


use rule on_cpu as verify with:
    input:
        documents=rules.sample.output.documents,
        sampling=rules.sample.output.sampling,
        candidates=candidates_before("verify"),
        scores=scores("verify"),
    output:
        **step_tables("verify", "dropped", "flow"),
    log:
        "logs/{benchmark}/verify/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/verify/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["verified"],
    resources:
        **needs(4000, 25),
        **on_empty,
    params:
        domains=domains,
        section=leaf("verify"),
        place=counted("verify"),
        stage=STAGES["verify"],


# Verification by margin (`rule: margin`), with counts by threshold and by length bin.
use rule verify as verify_margin with:
    output:
        **step_tables("verify", "dropped", "flow"),
        margin_table="results/{benchmark}/build/{lang}{part}/margin_table.parquet",
        cell_table="results/{benchmark}/build/{lang}{part}/cell_table.parquet",
        margins="results/{benchmark}/build/{lang}{part}/margins.parquet",
    log:
        "logs/{benchmark}/verify_margin/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/verify_margin/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["margin"],
    params:
        stage=STAGES["verify"],


use rule on_cpu as grade_pairs with:
    input:
        documents=rules.sample.output.documents,
        candidates=candidates_before("grade"),
        first=lambda w: paths.grades(plan, w.benchmark, w.lang, w.part, w.task),
    output:
        pairs="results/{benchmark}/build/{lang}{part}/{task}_pairs.parquet",
    log:
        "logs/{benchmark}/grade_pairs/{lang}{part}/{task}.log",
    benchmark:
        "benchmarks/{benchmark}/grade_pairs/{lang}{part}/{task}.tsv"
    wildcard_constraints:
        benchmark=having("grade"),
        task="grade_first|grade_rest",
    params:
        domains=domains,
        section=lambda w: jobs.grade(plan, w.benchmark, w.task),
        stage=STAGES["grade_pairs"],


use rule on_cpu as grade with:
    input:
        documents=rules.sample.output.documents,
        candidates=candidates_before("grade"),
        grades=lambda w: paths.grades(plan, w.benchmark, w.lang, w.part),
    output:
        **step_tables("grade", "dropped", "flow"),
    log:
        "logs/{benchmark}/grade/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/grade/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("grade"),
    params:
        domains=domains,
        section=lambda w: jobs.grade(plan, w.benchmark),
        place=counted("grade"),
        stage=STAGES["grade"],


use rule on_cpu as audit_pairs with:
    input:
        documents=rules.sample.output.documents,
        candidates=candidates_before("verify"),
        margins=rules.verify_margin.output.margins,
    output:
        pairs="results/{benchmark}/build/{lang}{part}/audit_pairs.parquet",
    log:
        "logs/{benchmark}/audit_pairs/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/audit_pairs/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("audit"),
    params:
        domains=domains,
        section=leaf("audit", without=["prompt"]),
        stage=STAGES["audit_pairs"],


use rule on_cpu as audit_table with:
    input:
        candidates=candidates_before("verify"),
        margins=rules.verify_margin.output.margins,
        verdicts=built("audit"),
    output:
        table="results/{benchmark}/build/{lang}{part}/audit_table.parquet",
    log:
        "logs/{benchmark}/audit_table/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/audit_table/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("audit"),
    params:
        domains=domains,
        stage=STAGES["audit_table"],
