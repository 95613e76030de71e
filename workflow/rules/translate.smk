# Translations: parts of texts are translated, joined and cleaned (rule `data`); a sample is graded.
# {lang} is the target language, except in text_parts.


use rule on_cpu as text_parts with:
    input:
        corpus=tables("corpus"),
        queries=tables("queries"),
        tokenizer=outside(length_tokenizer),
    output:
        parts="results/{benchmark}/build/{lang}{part}/text_parts.parquet",
    log:
        "logs/{benchmark}/text_parts/{lang}{part}.log",
    benchmark:
        "benchmarks/{benchmark}/text_parts/{lang}{part}.tsv"
    wildcard_constraints:
        benchmark=having("translate"),
    params:
        content=content("text_parts", length_tokenizer),
        domains=domains,
        max_part_tokens=leaf("translate", "max_part_tokens"),
        length_tokenizer=settings.length_tokenizer,
        stage=STAGES["text_parts"],


use rule on_cpu as mark_translations with:
    input:
        corpus=tables("corpus", source_lang),
        queries=tables("queries", source_lang),
        text_parts=built("text_parts", source_lang),
        translations=built("translate"),
        prefix_list=outside(prefix_list),
        refusal_list=outside(refusal_list),
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
        benchmark=having("translate"),
    resources:
        **needs(4000, 25, minutes=120),
        **on_empty,
    params:
        content=content("mark_translations", prefix_list, refusal_list),
        domains=domains,
        prefixes=leaf("translate", "clean", "prefixes"),
        refusals=lambda w: planned(w).section.translate.clean.refusals is not None,
        unusable=leaf("translate", "clean", "unusable"),
        source_language=source_lang,
        place=counted("mark_translations"),
        stage=STAGES["mark_translations"],


use rule on_cpu as quality_sample with:
    input:
        source_corpora=tables("corpus", source_lang),
        corpora=all_languages("corpus", translated=True),
    output:
        sample="results/{benchmark}/quality_sample.parquet",
    log:
        "logs/{benchmark}/quality_sample.log",
    benchmark:
        "benchmarks/{benchmark}/quality_sample.tsv"
    wildcard_constraints:
        benchmark=having("translate", "quality"),
    resources:
        **needs(8000, 0.6, minutes=240),
    params:
        languages=leaf("translate", "to"),
        domains=lambda w: planned(w).domains(source_lang(w)),
        per_stratum=leaf("translate", "quality", "per_stratum"),
        seed=leaf("translate", "quality", "seed"),
        stage=STAGES["quality_sample"],


use rule on_cpu as quality with:
    input:
        grades=collect(
            "results/{{benchmark}}/build/{lang}/judge_translation.parquet",
            lang=leaf("translate", "to"),
        ),
        human=outside(human_grades),
    output:
        quality="results/{benchmark}/translation_quality.parquet",
        agreement="results/{benchmark}/translation_agreement.parquet",
    log:
        "logs/{benchmark}/quality.log",
    benchmark:
        "benchmarks/{benchmark}/quality.tsv"
    wildcard_constraints:
        benchmark=having("translate", "quality"),
    params:
        content=content("quality", human_grades),
        languages=leaf("translate", "to"),
        stage=STAGES["quality"],


# Compares several translators on a sample of the source.
use rule on_cpu as translator_sample with:
    input:
        corpora=tables("corpus", source_lang),
        text_parts=lambda w: paths.built_of_all(
            plan, w.benchmark, source_lang(w), table="text_parts"
        ),
    output:
        sample="results/{benchmark}/translator_sample.parquet",
    log:
        "logs/{benchmark}/translator_sample.log",
    benchmark:
        "benchmarks/{benchmark}/translator_sample.tsv"
    wildcard_constraints:
        benchmark=having("translate", "quality", "translators"),
    resources:
        **needs(8000),
    params:
        domains=lambda w: planned(w).domains(source_lang(w)),
        per_stratum=leaf("translate", "quality", "per_stratum"),
        seed=leaf("translate", "quality", "seed"),
        stage=STAGES["translator_sample"],


use rule on_cpu as translator_quality with:
    input:
        grades=lambda w: paths.translator_grades(plan, w.benchmark),
    output:
        quality="results/{benchmark}/translator_quality.parquet",
    log:
        "logs/{benchmark}/translator_quality.log",
    benchmark:
        "benchmarks/{benchmark}/translator_quality.tsv"
    wildcard_constraints:
        benchmark=having("translate", "quality", "translators"),
    params:
        translators=lambda w: paths.translators_of(planned(w)),
        languages=leaf("translate", "to"),
        stage=STAGES["translator_quality"],
