# Other languages: parts of texts are translated, joined, cleaned, and graded by sample.
# {lang} is the language translated to, but for text_parts.


use rule on_cpu as text_parts with:
    input:
        corpus=per_job(paths.domain_tables, table="corpus"),
        queries=per_job(paths.domain_tables, table="queries"),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        parts="results/{benchmark}/build/{lang}{part}/text_parts.parquet",
    wildcard_constraints:
        benchmark=patterns["translated"],
    params:
        domains=domains,
        max_part_tokens=setting("translate.max_part_tokens"),
        length_tokenizer=settings.length_tokenizer,


use rule on_cpu as mark_translations with:
    input:
        corpus=per_job(paths.domain_tables, lang=source_lang, table="corpus"),
        queries=per_job(paths.domain_tables, lang=source_lang, table="queries"),
        text_parts=per_job(paths.built, lang=source_lang, table="text_parts"),
        translations=per_job(paths.built, table="translate"),
        prefix_list=outside(str(CLEANING / "prefixes.yaml")),
        refusal_list=outside(str(CLEANING / "refusals.yaml")),
    output:
        translated="results/{benchmark}/build/{lang}{part}/translated.parquet",
        suspects="results/{benchmark}/build/{lang}{part}/refusal_suspects.parquet",
        dropped="results/{benchmark}/build/{lang}{part}/mark_translations.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/mark_translations.flow.parquet",
    wildcard_constraints:
        benchmark=patterns["translations"],
    resources:
        **needs(4000, 25, minutes=120),
        **on_empty,
    params:
        domains=domains,
        prefixes=setting("translate.clean.prefixes"),
        refusals=lambda wildcards: (
            planned(wildcards).section.translate.clean.refusals is not None
        ),
        place=per_job(jobs.counted, step="mark_translations"),


use rule on_cpu as clean_translations with:
    input:
        source_corpus=per_job(paths.domain_tables, lang=source_lang, table="corpus"),
        source_queries=per_job(paths.domain_tables, lang=source_lang, table="queries"),
        source_qrels=per_job(paths.domain_tables, lang=source_lang, table="qrels"),
        translated=per_job(paths.built, table="translated"),
        verdicts=per_job(paths.of_task, task="judge_refusals"),
        tokenizer=outside(paths.tokenizer_inputs(plan)),
    output:
        **benchmark_tables("results/{benchmark}/data/{lang}{part}"),
        dropped="results/{benchmark}/build/{lang}{part}/clean_translations.dropped.parquet",
        flow="results/{benchmark}/build/{lang}{part}/clean_translations.flow.parquet",
    wildcard_constraints:
        benchmark=patterns["translations"],
    resources:
        **needs(4000, 25, of=largest_share, minutes=120),
        **on_empty,
    params:
        domains=domains,
        outliers=setting("translate.clean.outliers"),
        length_tokenizer=settings.length_tokenizer,
        place=per_job(jobs.counted, step="clean_translations"),


use rule on_cpu as quality_sample with:
    input:
        source_corpora=per_job(paths.domain_tables, lang=source_lang, table="corpus"),
        corpora=per_job(paths.language_tables, translated=True, table="corpus"),
    output:
        sample="results/{benchmark}/quality_sample.parquet",
    wildcard_constraints:
        benchmark=patterns["quality"],
    resources:
        **needs(8000, 0.6, minutes=240),
    params:
        languages=setting("translate.to"),
        domains=per_job(paths.domains, lang=source_lang),
        per_stratum=setting("translate.quality.per_stratum"),
        seed=setting("translate.quality.seed"),


use rule on_cpu as quality with:
    input:
        grades=expand(
            "results/{{benchmark}}/build/{lang}/judge_translation.parquet",
            lang=setting("translate.to"),
        ),
        human=outside(setting("translate.quality.human")),
    output:
        quality="results/{benchmark}/translation_quality.parquet",
        agreement="results/{benchmark}/translation_agreement.parquet",
    wildcard_constraints:
        benchmark=patterns["quality"],
    params:
        languages=setting("translate.to"),


# Several translators on one sample of the source, before or beside the benchmark's own translation.
use rule on_cpu as translator_sample with:
    input:
        corpora=per_job(paths.domain_tables, lang=source_lang, table="corpus"),
        text_parts=per_job(paths.built_of_all, lang=source_lang, table="text_parts"),
    output:
        sample="results/{benchmark}/translator_sample.parquet",
    wildcard_constraints:
        benchmark=patterns["compared_translators"],
    resources:
        **needs(8000),
    params:
        domains=per_job(paths.domains, lang=source_lang),
        per_stratum=setting("translate.quality.per_stratum"),
        seed=setting("translate.quality.seed"),


use rule on_cpu as translator_quality with:
    input:
        grades=per_job(paths.translator_grades),
    output:
        quality="results/{benchmark}/translator_quality.parquet",
    wildcard_constraints:
        benchmark=patterns["compared_translators"],
    params:
        translators=lambda wildcards: paths.translators_of(planned(wildcards)),
        languages=setting("translate.to"),
