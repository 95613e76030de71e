"""A benchmark in the layout of PosIR's release, taken as it is: no text is made or changed.

The evidence span, the characters and the tokens of a query's positive are those published. In a
translated language these are the original's; the length of the positive's own text then stands in
a column of its own. A release that psibench exported with ``--extra`` says which document is a
query's positive and which position it was made for: these are taken, too.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from pydantic import Field

from psibench.config.base import Language
from psibench.config.paths import workflow_path
from psibench.config.sources import PosirReleaseSource
from psibench.errors import InputError
from psibench.formats.checks import qrels_of_corpus
from psibench.formats.posir import (
    FURTHER,
    REPOSITORY,
    ReleaseTables,
    discover,
    read_dataset,
    release_files,
)
from psibench.generate.base import BucketSchemes, Build, Domain, LengthBuckets
from psibench.generate.loaders import Loader, NothingLeftError
from psibench.generate.sampling import prefixed
from psibench.metrics.query_scores import EVIDENCE_LISTS
from psibench.tables.build_schemas import TRANSLATED_LENGTH
from psibench.tables.dropped import Dropped, Flow, dropped_frame, reasons_text
from psibench.text.lengths import TokenCounter, with_lengths
from psibench.translate.steps import Languages

STAGE = "posir_release"
QUERY_IDS = ("_id", "pos_corpus_id")

logger = logging.getLogger("psibench")


DomainList = Annotated[list[Domain], Field(min_length=1)]
Domains = DomainList | Annotated[dict[Language, DomainList], Field(min_length=1)]


class PosirRelease(Loader):
    """A benchmark in the layout of PosIR's release, read as it is; nothing is built."""

    recipe: Literal["posir_release"]
    source: PosirReleaseSource
    languages: Languages | None = None
    """Languages to read; null: every folder of a local release. Needed for one on the hub."""
    domains: Domains | None = None
    """Domains to read; null: every folder of a local release. Needed for one on the hub. A list is
    of all languages, a mapping has a list for each: {eng-Latn: [game, law], ara-Arab: [game]}. Of a
    list, a domain that a local release lacks in some language is left out there (on_empty)."""
    queries_by: str | None = None
    """Who wrote the queries, as llm:DeepSeek-V3.1 or people; null: not recorded."""
    prefix_ids: bool = True
    """Put the domain in front of each id, as in mining/123: ids have to differ between domains."""
    length_buckets: LengthBuckets = True
    buckets: BucketSchemes = Field(default=["relative-20", "thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def languages_and_domains(self) -> list[tuple[str, str]]:
        """List the folders to read: those of a local release that are not left out.

        Raises
        ------
        InputError
            If the release lacks a language or domain that is named.
        """
        languages, domains = self.languages, self.domains
        if isinstance(domains, Mapping):
            chosen = [one for one in domains if languages is None or one in languages]
            return [(language, domain) for language in chosen for domain in domains[language]]
        root = Path(self.source.path)
        if languages is not None and domains is not None:
            named = list(product(languages, domains))
            if self.on_empty == "fail" or not root.is_dir():
                return named
            there = [one for one in named if root.joinpath(*one).is_dir()]
            _refuse_absent("languages", languages, [language for language, _ in there])
            _refuse_absent("domains", domains, [domain for _, domain in there])
            return there
        found = discover(self.source.path)
        _refuse_absent("languages", languages, list(found))
        _refuse_absent("domains", domains, [name for names in found.values() for name in names])
        return [
            (language, domain)
            for language, names in found.items()
            if languages is None or language in languages
            for domain in names
            if domains is None or domain in domains
        ]

    def named_domains(self) -> list[str]:
        """List the domains that the section names, in any language; none if it takes all."""
        if isinstance(self.domains, Mapping):
            return list(dict.fromkeys(chain.from_iterable(self.domains.values())))
        return list(self.domains or ())

    def files(self) -> list[str]:
        """List the local files of its folders; none for a name on the hub."""
        path = self.source.path
        if not Path(path).is_dir() and re.match(REPOSITORY, path):
            return []
        return [
            workflow_path(str(file))
            for language, domain in self.languages_and_domains()
            for file in release_files(path, language=language, domain=domain).values()
        ]

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read one language and domain of a release: those of the section.

        A query's positive is the one in ``pos_corpus_id`` where the release has that column; else
        its document of the highest grade among those in the corpus; of several, the first whose
        length is the published one. ``target_position`` is the release's, or null. Queries are
        dropped, with the reason, that have no positive in the qrels (``no_positive``) or none in
        the corpus (``positive_missing``), or whose span is empty, or begins outside its document
        (``span_outside``). A span that only ends beyond it is kept: PosIR's relative position takes
        its middle as at most the length.

        ``count_tokens`` counts the documents' tokens; those of the positives stay as published.

        Raises
        ------
        InputError
            If the dataset cannot be read, or what it says of a positive is not so: it is not in
            corpus and qrels, or has another length.
        NothingLeftError
            If no query is left.
        """
        source, language, domain = self.source, self.language, self.domain
        tables = read_dataset(
            source.path, language=language, domain=domain, revision=source.revision
        )
        tables = _prefixed(tables, f"{domain}/") if self.prefix_ids else tables
        corpus = with_lengths(tables.corpus, count_tokens=count_tokens)
        usable = tables.qrels.join(
            corpus.select(pl.col("_id").alias("corpus-id"), own_length="char_length"),
            on="corpus-id",
            how="inner",
            maintain_order="left",
        )
        where = f"{source.path}, {language}/{domain}"
        judged = qrels_of_corpus(tables.qrels, corpus["_id"], source=where)
        named = _with_further(tables.queries)
        asked = named.join(
            _positives(usable, named), on="_id", how="left", maintain_order="left"
        ).with_columns(reason=_reason(tables.qrels))
        _refuse_contradictions(asked, where)
        kept = asked.filter(pl.col("reason").is_null())
        _log_overruns(kept, where)
        ids = kept.select(pl.col("_id").alias("query-id"))
        qrels = judged.join(ids, on="query-id", how="semi", maintain_order="left")
        built = Build(
            corpus,
            _queries(kept),
            qrels.select("query-id", "corpus-id", pl.col("score").cast(pl.Int32)),
            _dropped(asked.filter(pl.col("reason").is_not_null())),
            ((STAGE, Flow("queries", asked.height, kept.height)),),
        )
        if kept.is_empty():
            dropped = f"; dropped: {reasons_text(built.dropped)}" if asked.height else ""
            found = f"no query is left of {asked.height}{dropped}"
            raise NothingLeftError(f"{where}: {found}; documents: {corpus.height}", built)
        return built


def _refuse_absent(key: str, wanted: Sequence[str] | None, found: Sequence[str]) -> None:
    absent = [name for name in wanted or () if name not in found]
    if absent:
        there = ", ".join(dict.fromkeys(found)) or "none"
        raise InputError(f"no {key} {', '.join(absent)} in the release; it has {there}")


def _prefixed(tables: ReleaseTables, prefix: str) -> ReleaseTables:
    queries = tables.queries
    return ReleaseTables(
        prefixed(tables.corpus, prefix, "_id"),
        prefixed(queries, prefix, *(name for name in QUERY_IDS if name in queries.columns)),
        prefixed(tables.qrels, prefix, "query-id", "corpus-id"),
    )


def _with_further(queries: pl.DataFrame) -> pl.DataFrame:
    """Give the queries all of `FURTHER`; a positive and its length as ``stated`` by the release."""
    lacking = {n: kind for n, kind in FURTHER["queries"].items() if n not in queries.columns}
    return queries.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in lacking.items()
    ).rename({"pos_corpus_id": "stated", TRANSLATED_LENGTH: "stated_length"})


def _refuse_contradictions(asked: pl.DataFrame, where: str) -> None:
    """Refuse a positive that is not there, and a length that is not its own."""
    is_lost = pl.col("stated").is_not_null() & pl.col("pos_corpus_id").is_null()
    for query_id, stated in asked.filter(is_lost).select("_id", "stated").head(1).iter_rows():
        raise InputError(
            f"{where}: query {query_id!r} has pos_corpus_id {stated!r}, which is not in the corpus "
            "or has no score above 0 for it in the qrels; correct it, or leave the column out"
        )
    is_other = pl.col("stated_length") != pl.col("own_length")
    columns = ("_id", "stated_length", "pos_corpus_id", "own_length")
    for query_id, stated, document, length in asked.filter(is_other).select(columns).iter_rows():
        raise InputError(
            f"{where}: query {query_id!r} has {TRANSLATED_LENGTH} {stated}, and its positive "
            f"{document!r} has {length} characters; correct it, or leave the column out"
        )


def _positives(usable: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Choose each query's positive: ``_id``, ``pos_corpus_id``, ``own_length``."""
    lengths = queries.select(pl.col("_id").alias("query-id"), "pos_char_length", "stated")
    return (
        usable.filter(pl.col("score") > 0)
        .join(lengths, on="query-id", how="inner", maintain_order="left")
        .filter(pl.col("stated").is_null() | (pl.col("stated") == pl.col("corpus-id")))
        .with_columns(other_length=pl.col("own_length") != pl.col("pos_char_length"))
        .sort("score", "other_length", descending=[True, False], maintain_order=True)
        .unique("query-id", keep="first", maintain_order=True)
        .select(
            pl.col("query-id").alias("_id"),
            pl.col("corpus-id").alias("pos_corpus_id"),
            "own_length",
        )
    )


def _reason(qrels: pl.DataFrame) -> pl.Expr:
    """Say why a query cannot be used; null if it can."""
    judged = qrels.filter(pl.col("score") > 0).get_column("query-id").unique()
    start, end = (pl.col("pos_char_span").list.get(place) for place in (0, 1))
    inside = (start >= 0) & (start < end) & (start < pl.col("pos_char_length"))
    return (
        pl.when(~pl.col("_id").is_in(judged.implode()))
        .then(pl.lit("no_positive"))
        .when(pl.col("pos_corpus_id").is_null())
        .then(pl.lit("positive_missing"))
        .when(~inside)
        .then(pl.lit("span_outside"))
    )


def _queries(kept: pl.DataFrame) -> pl.DataFrame:
    """QUERIES rows; with the positive's own length where it is stated or not the published one."""
    queries = kept.select(
        "_id",
        "text",
        "pos_corpus_id",
        pl.col("pos_char_span").cast(pl.Array(pl.Int32, 2)),
        pl.col("pos_char_length").cast(pl.Int32),
        pl.col("pos_token_length").cast(pl.Int32),
        "target_position",
        pl.col("own_length").cast(pl.Int32).alias(TRANSLATED_LENGTH),
        *(name for name in EVIDENCE_LISTS if kept.get_column(name).count()),
    )
    is_other = queries.get_column(TRANSLATED_LENGTH) != queries.get_column("pos_char_length")
    is_stated = kept.get_column("stated_length").is_not_null()
    return queries if is_other.any() or is_stated.any() else queries.drop(TRANSLATED_LENGTH)


def _dropped(left_out: pl.DataFrame) -> pl.DataFrame:
    columns = ("_id", "pos_corpus_id", "reason", "pos_char_span", "pos_char_length")
    return dropped_frame(
        Dropped(
            STAGE,
            "queries",
            query,
            document,
            reason,
            detail=f"span {span}" if reason == "span_outside" else None,
            char_length=length,
        )
        for query, document, reason, span, length in left_out.select(columns).iter_rows()
    )


def _log_overruns(kept: pl.DataFrame, where: str) -> None:
    beyond = (
        kept.get_column("pos_char_span").list.get(1) > kept.get_column("pos_char_length")
    ).sum()
    if beyond:
        logger.warning(
            "%s: %d spans end beyond their document; their middle counts as at most its length",
            where,
            beyond,
        )
