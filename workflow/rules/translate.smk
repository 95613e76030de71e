# Other languages: parts of texts are translated, joined, cleaned, and graded by sample.
# {lang} is the language translated to, but for text_parts.


rule text_parts:
    input:
        corpus=domain_tables("corpus"),
        queries=domain_tables("queries"),
        tokenizer=lookup.tokenizer_inputs(),
    output:
        parts="results/{benchmark}/build/{lang}/text_parts.parquet",
    log:
        "logs/{benchmark}/text_parts/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/text_parts/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("translated"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=build_domains,
        max_part_tokens=lambda wildcards: (
            lookup.translate(wildcards.benchmark).max_part_tokens
        ),
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["text_parts"],
    message:
        "Parts to translate of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule mark_translations:
    input:
        corpus=source_tables("corpus"),
        queries=source_tables("queries"),
        text_parts=source_table("build/{lang}/text_parts.parquet"),
        translations="results/{benchmark}/build/{lang}/translate.parquet",
        prefix_list=str(CLEANING / "prefixes.yaml"),
        refusal_list=str(CLEANING / "refusals.yaml"),
    output:
        translated="results/{benchmark}/build/{lang}/translated.parquet",
        suspects="results/{benchmark}/build/{lang}/refusal_suspects.parquet",
        dropped="results/{benchmark}/build/{lang}/mark_translations.dropped.parquet",
        flow="results/{benchmark}/build/{lang}/mark_translations.flow.parquet",
    log:
        "logs/{benchmark}/mark_translations/{lang}.log",
    benchmark:
        "benchmarks/{benchmark}/mark_translations/{lang}.tsv"
    wildcard_constraints:
        benchmark=lookup.translated_pattern(),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb) * attempt
        ),
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        domains=build_domains,
        prefixes=lambda wildcards: (
            lookup.translate(wildcards.benchmark).clean.prefixes
        ),
        refusals=lambda wildcards: wildcards.benchmark in lookup.judged_refusals(),
        step=lambda wildcards: lookup.step(wildcards.benchmark, "mark_translations"),
        stage=STAGES["mark_translations"],
    message:
        "Joining and marking translations of {wildcards.benchmark}, {wildcards.lang}"
    script:
        "../scripts/stage.py"


rule clean_translations:
    input:
        source_corpus=source_table("data/{lang}/{domain}/corpus.parquet"),
        source_queries=source_table("data/{lang}/{domain}/queries.parquet"),
        source_qrels=source_table("data/{lang}/{domain}/qrels.parquet"),
        translated="results/{benchmark}/build/{lang}/translated.parquet",
        verdicts=where_asked(
            lookup.judged_refusals(),
            "results/{benchmark}/build/{lang}/judge_refusals.parquet",
        ),
        relocations=where_asked(
            lookup.quoting(),
            "results/{benchmark}/build/{lang}/relocate_spans.parquet",
        ),
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
        benchmark=lookup.translated_pattern(),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, input, attempt: (
            max(4000, 25 * input.size_mb * domain_share(wildcards)) * attempt
        ),
        runtime=lambda wildcards, attempt: 120 * attempt,
    params:
        clean=lambda wildcards: lookup.clean_params(wildcards.benchmark),
        stage=STAGES["clean_translations"],
    message:
        "Cleaning translations of {wildcards.benchmark}, {wildcards.lang}, {wildcards.domain}"
    script:
        "../scripts/stage.py"


rule quality_sample:
    input:
        source_corpora=source_tables("corpus"),
        corpora=lambda wildcards: [
            f"results/{wildcards.benchmark}/data/{lang}/{domain}/corpus.parquet"
            for lang in lookup.translated_languages(wildcards.benchmark)
            for domain in lookup.domains_in(wildcards.benchmark, lang)
        ],
    output:
        sample="results/{benchmark}/quality_sample.parquet",
    log:
        "logs/{benchmark}/quality_sample.log",
    benchmark:
        "benchmarks/{benchmark}/quality_sample.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("quality"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        languages=lambda wildcards: lookup.translated_languages(wildcards.benchmark),
        domains=lambda wildcards: lookup.domains_in(
            wildcards.benchmark, lookup.source_language(wildcards.benchmark)
        ),
        per_stratum=lambda wildcards: (lookup.quality(wildcards.benchmark).per_stratum),
        seed=lambda wildcards: lookup.quality(wildcards.benchmark).seed,
        stage=STAGES["quality_sample"],
    message:
        "A sample of translations of {wildcards.benchmark} to grade"
    script:
        "../scripts/stage.py"


rule quality:
    input:
        grades=lambda wildcards: [
            f"results/{wildcards.benchmark}/build/{lang}/judge_translation.parquet"
            for lang in lookup.translated_languages(wildcards.benchmark)
        ],
        human=lambda wildcards: lookup.quality(wildcards.benchmark).human,
    output:
        quality="results/{benchmark}/translation_quality.parquet",
        agreement="results/{benchmark}/translation_agreement.parquet",
        confusion="results/{benchmark}/translation_confusion.parquet",
    log:
        "logs/{benchmark}/quality.log",
    benchmark:
        "benchmarks/{benchmark}/quality.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("quality"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        languages=lambda wildcards: lookup.translated_languages(wildcards.benchmark),
        stage=STAGES["quality"],
    message:
        "How good the translations of {wildcards.benchmark} are"
    script:
        "../scripts/stage.py"


# Several translators on one sample of the source, before or beside the benchmark's own translation.
rule translator_sample:
    input:
        corpora=source_tables("corpus"),
        text_parts=source_table("build/{lang}/text_parts.parquet"),
    output:
        sample="results/{benchmark}/translator_sample.parquet",
    log:
        "logs/{benchmark}/translator_sample.log",
    benchmark:
        "benchmarks/{benchmark}/translator_sample.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("compared_translators"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
    params:
        domains=lambda wildcards: lookup.domains_in(
            wildcards.benchmark, lookup.source_language(wildcards.benchmark)
        ),
        per_stratum=lambda wildcards: lookup.quality(wildcards.benchmark).per_stratum,
        seed=lambda wildcards: lookup.quality(wildcards.benchmark).seed,
        stage=STAGES["translator_sample"],
    message:
        "A sample of {wildcards.benchmark} to compare translators on"
    script:
        "../scripts/stage.py"


rule translator_quality:
    input:
        grades=lambda wildcards: sum(
            lookup.translator_grades(wildcards.benchmark).values(), []
        ),
    output:
        quality="results/{benchmark}/translator_quality.parquet",
    log:
        "logs/{benchmark}/translator_quality.log",
    benchmark:
        "benchmarks/{benchmark}/translator_quality.tsv"
    wildcard_constraints:
        benchmark=lookup.pattern("compared_translators"),
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        translators=lambda wildcards: lookup.translator_grades(wildcards.benchmark),
        languages=lambda wildcards: lookup.translated_languages(wildcards.benchmark),
        stage=STAGES["translator_quality"],
    message:
        "How good the translators of {wildcards.benchmark} are, side by side"
    script:
        "../scripts/stage.py"
