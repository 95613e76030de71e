# Other languages: parts of texts are translated, joined, cleaned, and graded by sample.
# {lang} is the language translated to, but for text_parts.


use rule on_cpu as text_parts with:
    input:
        corpus=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        tokenizer=paths.tokenizer_inputs(plan),
    output:
        parts="results/{benchmark}/build/{lang}{part}/text_parts.parquet",
    log:
        "logs/{benchmark}/text_parts/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/text_parts/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["translated"],
    params:
        domains=domains,
        max_part_tokens=lambda wildcards: (
            own(wildcards).section.translate.max_part_tokens
        ),
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["text_parts"],
    message:
        "Parts to translate of {wildcards.benchmark}, {wildcards.lang}"


use rule on_cpu as mark_translations with:
    input:
        corpus=per_job(paths.language_tables, of="source", table="corpus"),
        queries=per_job(paths.language_tables, of="source", table="queries"),
        text_parts=per_job(paths.source_table, table="text_parts"),
        translations="results/{benchmark}/build/{lang}{part}/translate.parquet",
        prefix_list=str(CLEANING / "prefixes.yaml"),
        refusal_list=str(CLEANING / "refusals.yaml"),
    output:
        translated="results/{benchmark}/build/{lang}{part}/translated.parquet",
        suspects="results/{benchmark}/build/{lang}{part}/refusal_suspects.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/mark_translations.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/mark_translations.flow.parquet",
    log:
        "logs/{benchmark}/mark_translations/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/mark_translations/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=patterns["translations"],
    resources:
        mem_mb=mib(4000, 25),
        runtime=minutes(120),
    params:
        domains=domains,
        prefixes=lambda wildcards: (own(wildcards).section.translate.clean.prefixes),
        refusals=lambda wildcards: (
            own(wildcards).section.translate.clean.refusals is not None
        ),
        step=lambda wildcards: own(wildcards).flow_step("mark_translations"),
        stage=STAGES["mark_translations"],
    message:
        "Joining and marking translations of {wildcards.benchmark}, {wildcards.lang}"


use rule on_cpu as clean_translations with:
    input:
        source_corpus=per_job(paths.source_table, table="corpus"),
        source_queries=per_job(paths.source_table, table="queries"),
        source_qrels=per_job(paths.source_table, table="qrels"),
        translated=per_job(paths.build_table, table="translated"),
        verdicts=per_job(paths.task_table, task="judge_refusals"),
        relocations=per_job(paths.task_table, task="relocate_spans"),
    output:
        corpus="results/{benchmark}/data/{lang}/{domain}/corpus.parquet",
        queries="results/{benchmark}/data/{lang}/{domain}/queries.parquet",
        qrels="results/{benchmark}/data/{lang}/{domain}/qrels.parquet",
        dropped="results/{benchmark}/build/{lang}/{domain}/clean_translations.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/{domain}/clean_translations.flow.parquet",
    log:
        "logs/{benchmark}/clean_translations/{lang}/{domain}.log",
    benchmark:
        "benchmarks/{benchmark}/clean_translations/{lang}/{domain}.tsv"
    wildcard_constraints:
        benchmark=patterns["translations"],
    resources:
        mem_mb=mib(4000, 25, of=largest_share),
        runtime=minutes(120),
    params:
        clean=per_job(jobs.clean),
        stage=STAGES["clean_translations"],
    message:
        "Cleaning translations of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"


use rule on_cpu as quality_sample with:
    input:
        source_corpora=per_job(paths.language_tables, of="source", table="corpus"),
        corpora=per_job(paths.language_tables, of="translated", table="corpus"),
    output:
        sample="results/{benchmark}/quality_sample.parquet",
    log:
        "logs/{benchmark}/quality_sample.log",
    benchmark:
        "benchmarks/{benchmark}/quality_sample.tsv"
    wildcard_constraints:
        benchmark=patterns["quality"],
    resources:
        mem_mb=mib(8000, 0.6),
        runtime=minutes(240),
    params:
        languages=lambda wildcards: own(wildcards).section.translate.to,
        domains=lambda wildcards: paths.domains(
            plan, wildcards.benchmark, own(wildcards).section.language
        ),
        per_stratum=lambda wildcards: (
            own(wildcards).section.translate.quality.per_stratum
        ),
        seed=lambda wildcards: own(wildcards).section.translate.quality.seed,
        stage=STAGES["quality_sample"],
    message:
        "A sample of translations of {wildcards.benchmark} to grade"


use rule on_cpu as quality with:
    input:
        grades=per_job(paths.judged_translations),
        human=lambda wildcards: own(wildcards).section.translate.quality.human,
    output:
        quality="results/{benchmark}/translation_quality.parquet",
        agreement="results/{benchmark}/translation_agreement.parquet",
        confusion="results/{benchmark}/translation_confusion.parquet",
    log:
        "logs/{benchmark}/quality.log",
    benchmark:
        "benchmarks/{benchmark}/quality.tsv"
    wildcard_constraints:
        benchmark=patterns["quality"],
    resources:
        mem_mb=mib(2000),
        runtime=minutes(10),
    params:
        languages=lambda wildcards: own(wildcards).section.translate.to,
        stage=STAGES["quality"],
    message:
        "How good the translations of {wildcards.benchmark} are"


# Several translators on one sample of the source, before or beside the benchmark's own translation.
use rule on_cpu as translator_sample with:
    input:
        corpora=per_job(paths.language_tables, of="source", table="corpus"),
        text_parts=per_job(paths.text_parts_of_domains),
    output:
        sample="results/{benchmark}/translator_sample.parquet",
    log:
        "logs/{benchmark}/translator_sample.log",
    benchmark:
        "benchmarks/{benchmark}/translator_sample.tsv"
    wildcard_constraints:
        benchmark=patterns["compared_translators"],
    resources:
        mem_mb=mib(8000),
        runtime=minutes(60),
    params:
        domains=lambda wildcards: paths.domains(
            plan, wildcards.benchmark, own(wildcards).section.language
        ),
        per_stratum=lambda wildcards: (
            own(wildcards).section.translate.quality.per_stratum
        ),
        seed=lambda wildcards: own(wildcards).section.translate.quality.seed,
        stage=STAGES["translator_sample"],
    message:
        "A sample of {wildcards.benchmark} to compare translators on"


use rule on_cpu as translator_quality with:
    input:
        grades=lambda wildcards: sum(
            paths.translator_grades(plan, wildcards.benchmark).values(), []
        ),
    output:
        quality="results/{benchmark}/translator_quality.parquet",
    log:
        "logs/{benchmark}/translator_quality.log",
    benchmark:
        "benchmarks/{benchmark}/translator_quality.tsv"
    wildcard_constraints:
        benchmark=patterns["compared_translators"],
    resources:
        mem_mb=mib(2000),
        runtime=minutes(10),
    params:
        translators=per_job(paths.translator_grades),
        languages=lambda wildcards: own(wildcards).section.translate.to,
        stage=STAGES["translator_quality"],
    message:
        "How good the translators of {wildcards.benchmark} are, side by side"
