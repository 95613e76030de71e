"""Quality of translations: grades of a sample by a language model, and agreement with people.

PosIR, appendix B: samples 12 documents per domain in four strata of 512 tokens (stage
``quality_sample``) and grades them without a reference from 1 to 5 in four dimensions (task
``judge_translation``); a document's overall grade is the mean of the four. The stage ``quality``
averages the grades and compares them with people's grades as in appendix B.3: share of grades at
most 1 apart, and mean absolute difference.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, Field, TypeAdapter

from psibench.config.base import TranslatorId
from psibench.config.files import validated
from psibench.errors import InputError
from psibench.filters.mixtures import draw_order
from psibench.lines import read_delimited
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    with_judgements,
)
from psibench.metrics.buckets import LENGTH_BUCKETS, length_bucket
from psibench.tables import hash_file
from psibench.tables.build_schemas import (
    TRANSLATION_AGREEMENT,
    TRANSLATION_GRADES,
    TRANSLATION_QUALITY,
)
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, DOCUMENTS
from psibench.tables.spec import ALL
from psibench.tables.stage import stage
from psibench.translate.translate import TranslateSection, language_names

logger = logging.getLogger("psibench")

DIMENSIONS = ("fluency", "accuracy", "completeness", "style")
OVERALL = "overall"
GROUPS = ("language", "domain", "length_bin")
DOCUMENT = ("language", "domain", "doc_id")


class Quality(LlmTaskSection):
    """A sample of the translations graded by a language model (PosIR, appendix B.1)."""

    per_stratum: int = Field(default=3, ge=1)
    """Documents per domain and length stratum (PosIR: 12 per domain in four strata)."""
    seed: int = Field(default=42, ge=0)
    """Seed of the sample."""
    translators: dict[TranslatorId, LlmTaskSection] | None = Field(default=None, min_length=2)
    """Language models to compare as translators, by name (PosIR, Table 7): each translates a sample
    of the source to every language, and `llm` grades all of them. Include the benchmark's
    translator to compare it too. Null: no comparison."""
    human: list[str] = Field(default_factory=list)
    """CSV files with people's grades for comparison: language, domain, doc_id and a column per
    dimension; see docs/multilingual.md."""


# Stage ``quality_sample``


@stage("quality_sample", version=3)
def run_quality_sample(job: Job) -> None:
    """Sample documents of every domain and language and write them with their translations.

    Inputs: ``source_corpora``, and ``corpora`` (translated and cleaned) of all ``languages``. Only
    sampled texts are kept in memory. Documents that cleaning removed cannot be sampled.
    """
    languages = job.value("languages", list[str])
    draw = {"per_stratum": job.value("per_stratum", int), "seed": job.value("seed", int)}
    order = pl.col("language").cast(pl.Enum(languages))
    frames = []
    for domain in job.domains():
        kept = domain.columns("corpora", CORPUS, ["language", "_id"])
        documents = domain.columns("source_corpora", CORPUS, ["_id", "token_length"])
        drawn = pl.concat(
            draw_quality_sample(
                documents.join(rows, on="_id", how="semi", maintain_order="left"),
                domain=domain.name,
                **draw,
            ).with_columns(language=pl.lit(language))
            for language in languages
            for rows in [kept.filter(language=language)]
        )
        ids = drawn["doc_id"].unique().to_list()
        made = domain.columns("corpora", CORPUS, ["language", "_id", "text"], ids=ids).select(
            "language", doc_id="_id", translation="text"
        )
        sample = with_source_texts(drawn, domain, "source_corpora")
        frames.append(sample.join(made, on=["language", "doc_id"], maintain_order="left"))
    every = pl.concat(frames).select(
        pl.format("{}/{}", "language", "_id").alias("_id"),
        "language",
        pl.exclude("_id", "language"),
    )
    job.write("sample", every.sort(order, maintain_order=True), DOCUMENTS, params=draw)


def with_source_texts(drawn: pl.DataFrame, domain: DomainJob, corpora: str) -> pl.DataFrame:
    """Add the texts of an input of corpora to documents of `draw_quality_sample`.

    Returns ``_id, text, origin``, then the other columns of ``drawn``; reads no other text.
    """
    ids = drawn["doc_id"].unique().to_list()
    texts = domain.columns(corpora, CORPUS, ["_id", "text"], ids=ids).rename({"_id": "doc_id"})
    return drawn.join(texts, on="doc_id", maintain_order="left").select(
        "_id", "text", pl.col("domain").alias("origin"), pl.exclude("_id", "text")
    )


def draw_quality_sample(
    documents: pl.DataFrame, *, domain: str, per_stratum: int, seed: int
) -> pl.DataFrame:
    """Draw documents of a domain, the same number from each stratum of length.

    Draws the documents with the smallest hashes of seed and id. The draw does therefore not depend
    on their order, and a document that is missing in one language changes only one document of
    that language's sample.

    ``documents`` has ``_id`` and ``token_length`` (of the source) of the translated documents.
    Strata are Q1..Q4 of 512 tokens, longer documents in Q4; a stratum with fewer than
    ``per_stratum`` documents gives all of them. Returns ``_id`` (``domain/document``), ``domain``,
    ``doc_id``, ``length_bin``, by stratum, then in the order of the draw.
    """
    found = documents.select(
        _with_domain(domain),
        pl.lit(domain).alias("domain"),
        pl.col("_id").alias("doc_id"),
        length_bucket(pl.col("token_length")).alias("length_bin"),
    )
    ranked = found.with_columns(place=draw_order(found.get_column("_id"), seed)).sort("place")
    drawn = ranked.group_by("length_bin", maintain_order=True).head(per_stratum)
    return drawn.sort("length_bin", maintain_order=True).select(found.columns)


def _with_domain(domain: str) -> pl.Expr:
    """Put the domain in front of ids that lack it."""
    has_it = pl.col("_id").str.starts_with(f"{domain}/")
    return pl.when(has_it).then("_id").otherwise(pl.format("{}/{}", pl.lit(domain), "_id"))


# Task ``judge_translation``


def quality_items(tables: Tables, section: TranslateSection) -> Iterator[TaskItem]:
    """Yield a request for each sampled document that has a translation."""
    names = language_names(section)
    sample = _of_language(tables, section).select("_id", "text", "translation")
    sample = sample.drop_nulls("translation")
    for doc_id, source, translation in sample.iter_rows():
        yield TaskItem(doc_id, doc_id, {"source": source, "translation": translation, **names})


def gather_quality(
    tables: Tables, section: TranslateSection, replies: Iterable[Replied]
) -> Gathered:
    """Return a row for each sampled document; grades are null without a usable reply."""
    sample = _of_language(tables, section).select("_id", "domain", "doc_id", "length_bin")
    found = [(reply.item_id, *(reply.value[name] for name in DIMENSIONS)) for reply in replies]
    schema = {"_id": pl.String, **dict.fromkeys(DIMENSIONS, pl.Int32)}
    grades = pl.DataFrame(found, schema=schema, orient="row")
    rows = with_judgements(sample, grades)
    return Gathered(rows.select(TRANSLATION_GRADES.column_names))


def _of_language(tables: Tables, section: TranslateSection) -> pl.DataFrame:
    """Return the documents of the sample in the section's target language."""
    return tables[DOCUMENTS_TABLE].filter(language=section.target_language)


JUDGE_TRANSLATION = LlmTask(
    "judge_translation",
    "translations",
    (DOCUMENTS_TABLE,),
    TRANSLATION_GRADES,
    quality_items,
    gather_quality,
    prompt="judge_translation",
)


# Stage ``quality``


@stage("quality", version=2)
def run_quality(job: Job) -> None:
    """Write the quality table, and the agreement of the grades with people's grades.

    Inputs: ``grades``, a TRANSLATION_GRADES table per language, in the order of ``languages``, and
    ``human``, CSV files for `read_human_grades`; without files the agreement has no rows. Outputs:
    ``quality`` and ``agreement``.

    Raises
    ------
    InputError
        If a CSV has another format, or the language model graded none of its documents.
    """
    languages, human = job.value("languages", list[str]), job.paths("human")
    every = grades_of(languages, job.read_each("grades", TRANSLATION_GRADES))
    people = _people(human, every)
    record: dict[str, Any] = {"params": {}, "files": {path: hash_file(path) for path in human}}
    job.write("quality", quality_table(every), TRANSLATION_QUALITY, **record)
    job.write("agreement", agreement_table(every, people), TRANSLATION_AGREEMENT, **record)


def grades_of(languages: Sequence[str], tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Stack TRANSLATION_GRADES, one table per language in their order, and apply `graded`."""
    frames = (
        table.with_columns(language=pl.lit(name))
        for name, table in zip(languages, tables, strict=True)
    )
    return graded(pl.concat(frames))


def graded(grades: pl.DataFrame) -> pl.DataFrame:
    """Add ``overall``, the mean of a document's four grades; null unless all four exist."""
    complete = pl.all_horizontal(pl.col(name).is_not_null() for name in DIMENSIONS)
    overall = pl.when(complete).then(pl.mean_horizontal(DIMENSIONS)).alias(OVERALL)
    return grades.with_columns(pl.col(DIMENSIONS).cast(pl.Float64), overall)


def _people(paths: Sequence[str | Path], every: pl.DataFrame) -> pl.DataFrame:
    """Read people's grades; InputError for a file without a document of the sample."""
    people = read_human_grades(paths)
    for (path,), rows in people.group_by("path", maintain_order=True):
        unmatched = rows.join(every, on=DOCUMENT, how="anti", maintain_order="left")
        if unmatched.is_empty():
            continue
        first = ", ".join(unmatched.select(DOCUMENT).row(0))
        if unmatched.height == rows.height:
            raise InputError(
                f"{path}: none of its {rows.height} documents is in the quality sample; first: "
                f"{first}. Use language, domain and doc_id of documents in quality_sample.parquet."
            )
        logger.warning(
            "%s: ignoring %d of %d documents, which are not in the quality sample; first: %s",
            *(path, unmatched.height, rows.height, first),
        )
    return people.drop("path")


def quality_table(every: pl.DataFrame) -> pl.DataFrame:
    """Average the grades of `graded` to TRANSLATION_QUALITY rows.

    Groups by language, domain, length and dimension, with pooled rows ``all`` (of languages only if
    there are several). Pooled means are over documents. Only documents with all four grades count
    towards ``overall``.
    """
    languages = list(dict.fromkeys(every.get_column("language")))
    long = every.unpivot(
        [*DIMENSIONS, OVERALL], index=list(GROUPS), variable_name="dimension", value_name="grade"
    )
    pooled = [
        (True, False) if name != "language" or len(languages) > 1 else (False,) for name in GROUPS
    ]
    parts = [_averages(long, dict(zip(GROUPS, flags, strict=True))) for flags in product(*pooled)]
    domains = list(dict.fromkeys(every.get_column("domain")))
    orders: dict[str, Sequence[str]] = {
        "language": [*languages, ALL],
        "domain": [ALL, *(name for name in domains if name != ALL)],
        "length_bin": [ALL, *LENGTH_BUCKETS],
        "dimension": [*DIMENSIONS, OVERALL],
    }
    ranks = [pl.col(name).cast(pl.Enum(values)) for name, values in orders.items()]
    return pl.concat(parts).sort(ranks).select(TRANSLATION_QUALITY.column_names)


def _averages(long: pl.DataFrame, is_of_all: Mapping[str, bool]) -> pl.DataFrame:
    kept = [
        pl.lit(ALL).alias(name) if of_all else pl.col(name) for name, of_all in is_of_all.items()
    ]
    groups = long.with_columns(kept).group_by([*GROUPS, "dimension"], maintain_order=True)
    return groups.agg(
        n=pl.col("grade").count().cast(pl.Int64),
        n_unjudged=pl.col("grade").null_count().cast(pl.Int64),
        mean=pl.col("grade").mean(),
        sd=pl.col("grade").std(),
    )


# Agreement with people


def agreement_table(grades: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Compare a language model's grades with people's grades; returns TRANSLATION_AGREEMENT rows.

    Compares every row of ``human`` separately, as in PosIR. Rows are by language (first the pooled
    ``all``) and dimension: the four, ``overall`` (a document's mean) and ``all`` (all grades of the
    four dimensions). Without human grades there are no rows.
    """
    pairs = _pairs(grades, human)
    matched = pl.col("llm").is_not_null()
    apart = (pl.col("human") - pl.col("llm")).abs()
    compared = (
        _with_pooled(pairs)
        .group_by("language", "dimension", maintain_order=True)
        .agg(
            n=matched.sum().cast(pl.Int64),
            n_unmatched=(~matched).sum().cast(pl.Int64),
            within_one=(apart <= 1).mean(),
            mae=apart.mean(),
            mean_human=pl.col("human").filter(matched).mean(),
            mean_llm=pl.col("llm").mean(),
        )
    )
    ranks = {
        "language": [ALL, *dict.fromkeys(human.get_column("language"))],
        "dimension": [*DIMENSIONS, OVERALL, ALL],
    }
    return compared.sort([pl.col(name).cast(pl.Enum(order)) for name, order in ranks.items()])


def _pairs(grades: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Return a row per human grade: document, dimension, ``human``, ``llm``.

    ``llm`` is null if the model did not grade the document.
    """
    names = [*DIMENSIONS, OVERALL]
    floats = human.with_columns(pl.col(DIMENSIONS).cast(pl.Float64)).with_columns(
        pl.mean_horizontal(DIMENSIONS).alias(OVERALL)
    )
    people, model = (
        frame.unpivot(names, index=list(DOCUMENT), variable_name="dimension", value_name=value)
        for frame, value in ((floats, "human"), (grades, "llm"))
    )
    on = [*DOCUMENT, "dimension"]
    return people.join(model, on=on, how="left", maintain_order="left", validate="m:1")


def _with_pooled(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add pooled rows over all languages (first) and over the four dimensions."""
    together = pairs.filter(pl.col("dimension") != OVERALL).with_columns(dimension=pl.lit(ALL))
    every = pl.concat([pairs, together])
    return pl.concat([every.with_columns(language=pl.lit(ALL)), every])


class HumanGrades(BaseModel, str_strip_whitespace=True):
    """A row of a file with human grades; other columns, e.g. the texts, are ignored."""

    language: str
    domain: str
    doc_id: str
    fluency: int = Field(ge=1, le=5)
    accuracy: int = Field(ge=1, le=5)
    completeness: int = Field(ge=1, le=5)
    style: int = Field(ge=1, le=5)


def read_human_grades(paths: Sequence[str | Path]) -> pl.DataFrame:
    """Read human grades: document, four grades, ``path``; a document may have several rows.

    Raises
    ------
    InputError
        If a file cannot be read, has no row or lacks a column, or a grade is not a whole number
        from 1 to 5.
    """
    kind = TypeAdapter(HumanGrades)
    rows: list[dict[str, Any]] = []
    for path in paths:
        found = [
            validated(record, kind, f"{path}, line {line}").model_dump()
            for line, record in read_delimited(Path(path), ",")
        ]
        if not found:
            raise InputError(f"{path}: no grades; expected a header and one row per document")
        rows += [row | {"path": str(path)} for row in found]
    schema = dict.fromkeys(DOCUMENT, pl.String) | dict.fromkeys(DIMENSIONS, pl.Int64)
    return pl.DataFrame(rows, schema=schema | {"path": pl.String})
