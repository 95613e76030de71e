# Candidates become queries only where rerankers agree, and then a language model: scores, grades,
# decisions. An audit by a language model says how good the margin is.


rule score_parts:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=per_job(paths.left_before, step="verify"),
        # One after the other, the cheapest first: what is decided is not scored again.
        earlier=per_job(paths.score_tables, of="verify"),
        checkpoint=per_job(paths.reranker_inputs),
    output:
        scores="results/{benchmark}/build/{lang}/scores/{reranker}.parquet",
    log:
        "logs/{benchmark}/score_parts/{lang}/{reranker}.log",
    benchmark:
        "benchmarks/{benchmark}/score_parts/{lang}/{reranker}.tsv"
    wildcard_constraints:
        reranker=patterns["rerankers"],
    conda:
        "../../envs/gpu.yaml"
    threads: per_job(jobs.chain_threads)
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(jobs.scoring_mib(plan, wildcards.reranker), 25 * input.size_mb)
            * attempt
        ),
        runtime=lambda wildcards, attempt: min(720 * attempt, 1440),
        gpu=per_job(jobs.gpus),
        device=settings.encoding.device,
        tokens_per_batch=per_job(jobs.scoring_tokens),
    params:
        domains=domains,
        scoring=per_job(jobs.part_scoring),
        store=settings.store,
        stage=STAGES["score_parts"],
    message:
        "Scoring candidates of {wildcards.benchmark} with {wildcards.reranker}"
    script:
        "../scripts/stage.py"


rule verify:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        sampling="results/{benchmark}/build/{lang}/sampling.parquet",
        candidates=per_job(paths.left_before, step="verify"),
        scores=per_job(paths.score_tables, of="verify", reranker=None),
    output:
        rows="results/{benchmark}/build/{lang}/verify.parquet",
        decisions="results/{benchmark}/build/{lang}/decisions.parquet",
        savings="results/{benchmark}/build/{lang}/scoring_savings.parquet",
        dropped="results/{benchmark}/build/{lang}/verify.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/verify.flow.parquet",
    log:
        "logs/{benchmark}/verify/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/verify/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["verified"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=domains,
        section=lambda wildcards: dump(own(wildcards).section.verify),
        place=per_job(jobs.counted, step="verify"),
        stage=STAGES["verify"],
    message:
        "Verifying the candidates of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


# The same by margin, with the counts by threshold and by length bin.
use rule verify as verify_margin with:
    output:
        rows="results/{benchmark}/build/{lang}/verify.parquet",
        decisions="results/{benchmark}/build/{lang}/decisions.parquet",
        savings="results/{benchmark}/build/{lang}/scoring_savings.parquet",
        dropped="results/{benchmark}/build/{lang}/verify.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/verify.flow.parquet",
        margin_table="results/{benchmark}/build/{lang}/margin_table.parquet",
        cell_table="results/{benchmark}/build/{lang}/cell_table.parquet",
        margins="results/{benchmark}/build/{lang}/margins.parquet",
    wildcard_constraints:
        benchmark=patterns["margin"],


rule grade_pairs:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=per_job(paths.left_before, step="grade"),
        first=lambda wildcards: (
            []
            if wildcards.round == "grade_first"
            else "results/{benchmark}/build/{lang}/grade_first.parquet"
        ),
    output:
        pairs="results/{benchmark}/build/{lang}/{round}_pairs.parquet",
    log:
        "logs/{benchmark}/grade_pairs/{lang}/{round}.log",
    benchmark:
        "benchmarks/{benchmark}/grade_pairs/{lang}/{round}.tsv"
    wildcard_constraints:
        benchmark=patterns["having grade"],
        round="grade_first|grade_rest",
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=domains,
        section=lambda wildcards: jobs.grade(plan, wildcards.benchmark, wildcards.round),
        stage=STAGES["grade_pairs"],
    message:
        "What to grade of {wildcards.benchmark}: {wildcards.round}"
    script:
        "../scripts/stage.py"


rule grade:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=per_job(paths.left_before, step="grade"),
        grades=[
            "results/{benchmark}/build/{lang}/grade_first.parquet",
            "results/{benchmark}/build/{lang}/grade_rest.parquet",
        ],
    output:
        rows="results/{benchmark}/build/{lang}/grade.parquet",
        decisions="results/{benchmark}/build/{lang}/grade.decisions.parquet",
        savings="results/{benchmark}/build/{lang}/grade.savings.parquet",
        dropped="results/{benchmark}/build/{lang}/grade.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/grade.flow.parquet",
    log:
        "logs/{benchmark}/grade/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/grade/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["having grade"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=domains,
        section=per_job(jobs.grade),
        place=per_job(jobs.counted, step="grade"),
        stage=STAGES["grade"],
    message:
        "Candidates of {wildcards.benchmark} by their grades"
    script:
        "../scripts/stage.py"


rule audit_pairs:
    input:
        documents="results/{benchmark}/build/{lang}/documents.parquet",
        candidates=per_job(paths.left_before, step="verify"),
        margins="results/{benchmark}/build/{lang}/margins.parquet",
    output:
        pairs="results/{benchmark}/build/{lang}/audit_pairs.parquet",
    log:
        "logs/{benchmark}/audit_pairs/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/audit_pairs/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["having audit"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=domains,
        section=lambda wildcards: dump(own(wildcards).section.audit, "prompt"),
        stage=STAGES["audit_pairs"],
    message:
        "What to audit of {wildcards.benchmark}"
    script:
        "../scripts/stage.py"


rule audit_table:
    input:
        candidates=per_job(paths.left_before, step="verify"),
        margins="results/{benchmark}/build/{lang}/margins.parquet",
        verdicts="results/{benchmark}/build/{lang}/audit.parquet",
    output:
        table="results/{benchmark}/build/{lang}/audit_table.parquet",
    log:
        "logs/{benchmark}/audit_table/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/audit_table/{lang}.tsv"
    wildcard_constraints:
        benchmark=patterns["having audit"],
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        domains=domains,
        stage=STAGES["audit_table"],
    message:
        "Audit of {wildcards.benchmark} by margin"
    script:
        "../scripts/stage.py"
