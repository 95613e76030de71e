"""Comparison of translators: each translates the same sample, and one judge grades all of them.

PosIR, appendix B.1 and Table 7, compares systems before choosing one: each translates documents of
every domain in four strata of length, graded like other translations
(`psibench.translate.quality`). The stage ``translator_sample`` draws from the source, so failures
of a translator do not affect the sample. Long documents are cut as in the benchmark; the judge
grades the replies without cleaning. The tasks of translator N are ``translator_N`` and
``judge_translator_N``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl

from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
)
from psibench.tables.build_schemas import (
    SAMPLE_TRANSLATIONS,
    TEXT_PARTS,
    TRANSLATION_GRADES,
    TRANSLATOR_QUALITY,
)
from psibench.tables.dropped import flow_of
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, DOCUMENTS
from psibench.tables.stage import stage
from psibench.text.languages import spaces_sentences
from psibench.text.parts import join_parts
from psibench.translate.quality import (
    JUDGE_TRANSLATION,
    draw_quality_sample,
    grades_of,
    quality_table,
    with_source_texts,
)
from psibench.translate.translate import (
    KINDS,
    TRANSLATE,
    TranslateSection,
    language_names,
    usable_translations,
)

# Stage ``translator_sample``


@stage("translator_sample", version=2)
def run_translator_sample(job: Job) -> None:
    """Sample documents of every domain of the source and write them with their parts.

    Inputs: ``corpora`` and ``text_parts``. Uses `draw_quality_sample` on all source documents.
    """
    draw = {"per_stratum": job.value("per_stratum", int), "seed": job.value("seed", int)}
    frames = []
    for domain in job.domains():
        documents = domain.columns("corpora", CORPUS, ["_id", "token_length"])
        drawn = draw_quality_sample(documents, domain=domain.name, **draw)
        parts = (
            domain.read("text_parts", TEXT_PARTS)
            .filter(kind="document")
            .sort("number", maintain_order=True)
            .group_by("doc_id", maintain_order=True)
            .agg(parts="text", separators="separator")
        )
        sample = with_source_texts(drawn, domain, "corpora")
        frames.append(sample.join(parts, on="doc_id", maintain_order="left"))
    job.write("sample", pl.concat(frames), DOCUMENTS, params=draw)


# Tasks ``translator_N`` and ``judge_translator_N``


def sample_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Yield a request for each part of the sampled documents, with ids ``DOCUMENT:0``, ..."""
    names = language_names(section)
    for doc_id, parts in tables[DOCUMENTS_TABLE].select("_id", "parts").iter_rows():
        for number, text in enumerate(parts):
            values = {"text": text, "kind": KINDS["document"], **names}
            yield TaskItem(f"{doc_id}:{number}", doc_id, values)


def translator_task(name: str) -> LlmTask:
    """Return the task ``name`` of one translator."""

    def gather(tables: Tables, section: TranslateSection, replies: Iterable[Replied]) -> Gathered:
        """Join the parts to one row per document; null if a part has no translation.

        Drops ``empty_translation``.
        """
        sample, language = tables[DOCUMENTS_TABLE], section.target_language
        made, left_out = usable_translations(name, replies)
        between = " " if spaces_sentences(language) else ""
        joined: list[str | None] = []
        columns = ("_id", "parts", "separators")
        for doc_id, parts, separators in sample.select(columns).iter_rows():
            ids = [f"{doc_id}:{number}" for number in range(len(parts))]
            texts = [made[one] for one in ids if one in made]
            is_whole = len(texts) == len(parts)
            whole, _ = join_parts(texts, separators, for_empty=between)
            joined.append(whole if is_whole else None)
        rows = sample.select(
            pl.format("{}/{}", pl.lit(language), "_id").alias("_id"),
            "text",
            "origin",
            pl.lit(language).alias("language"),
            *("domain", "doc_id", "length_bin"),
            pl.Series("translation", joined, dtype=pl.String),
        )
        return Gathered(rows, left_out, (flow_of("texts", len(made), left_out),))

    return LlmTask(
        name,
        "texts",
        (DOCUMENTS_TABLE,),
        SAMPLE_TRANSLATIONS,
        sample_items,
        gather,
        prompt=TRANSLATE.name,
    )


def judging_task(name: str) -> LlmTask:
    """Return the task ``name``, which grades one translator's sample."""
    return replace(JUDGE_TRANSLATION, name=name)


# Stage ``translator_quality``


@stage("translator_quality", version=1)
def run_translator_quality(job: Job) -> None:
    """Write the quality tables of all translators as one table.

    Input: ``grades``, the TRANSLATION_GRADES tables by translator, and within a translator by
    language, in the order of the parameters ``translators`` and ``languages``.
    """
    translators, languages = job.value("translators", list[str]), job.value("languages", list[str])
    tables, n = job.read_each("grades", TRANSLATION_GRADES), len(languages)
    frames = [
        quality_table(grades_of(languages, tables[number * n : (number + 1) * n])).select(
            pl.lit(name).alias("translator"), pl.all()
        )
        for number, name in enumerate(translators)
    ]
    params = {"translators": translators}
    job.write("quality", pl.concat(frames), TRANSLATOR_QUALITY, params=params)
