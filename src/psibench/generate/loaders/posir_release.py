"""A benchmark in the layout of PosIR's release; its texts are used unchanged.

Span, characters and tokens of a query's positive are the published values. In a translated language
these describe the original; a separate column then has the length of the positive's text. A release
exported by psibench with ``--extra`` also has each query's positive and target position, which the
recipe uses.
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

_STAGE = "posir_release"
_QUERY_ID_COLUMNS = ("_id", "pos_corpus_id")

logger = logging.getLogger("psibench")


DomainList = Annotated[list[Domain], Field(min_length=1)]
Domains = DomainList | Annotated[dict[Language, DomainList], Field(min_length=1)]


class PosirRelease(Loader):
    """A benchmark in the layout of PosIR's release, read unchanged."""

    recipe: Literal["posir_release"]
    source: PosirReleaseSource
    languages: Languages | None = None
    """Languages to read; null: every folder of a local release. Required for a release on the
    hub."""
    domains: Domains | None = None
    """Domains to read; null: every folder of a local release. Required for a release on the hub. A
    list applies to all languages; a mapping has a list per language: {eng-Latn: [game, law],
    ara-Arab: [game]}. With a list, a language skips domains that the local release lacks in it
    (on_empty)."""
    queries_by: str | None = None
    """Who wrote the queries, e.g. llm:DeepSeek-V3.1 or people; null: not recorded."""
    prefix_ids: bool = True
    """Put the domain before each id, e.g. mining/123, so that ids differ between domains."""
    length_buckets: LengthBuckets = True
    buckets: BucketSchemes = Field(default=["relative-20", "thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    def languages_and_domains(self) -> list[tuple[str, str]]:
        """List the folders to read, without domains that a local release lacks.

        Raises
        ------
        InputError
            If the release lacks a configured language or domain.
        """
        languages, domains = self.languages, self.domains
        if isinstance(domains, Mapping):
            chosen = [one for one in domains if languages is None or one in languages]
            return [(language, domain) for language in chosen for domain in domains[language]]
        root = Path(self.source.path)
        if languages is not None and domains is not None:
            wanted = list(product(languages, domains))
            if self.on_empty == "fail" or not root.is_dir():
                return wanted
            existing = [one for one in wanted if root.joinpath(*one).is_dir()]
            _refuse_absent("languages", languages, [language for language, _ in existing])
            _refuse_absent("domains", domains, [domain for _, domain in existing])
            return existing
        domains_of = discover(self.source.path)
        _refuse_absent("languages", languages, list(domains_of))
        _refuse_absent("domains", domains, list(chain.from_iterable(domains_of.values())))
        return [
            (language, domain)
            for language, names in domains_of.items()
            if languages is None or language in languages
            for domain in names
            if domains is None or domain in domains
        ]

    def named_domains(self) -> list[str]:
        """List the domains that the section names in any language; empty if it reads all."""
        if isinstance(self.domains, Mapping):
            return list(dict.fromkeys(chain.from_iterable(self.domains.values())))
        return list(self.domains or ())

    def files(self) -> list[str]:
        """List the local files of its folders; none for a release on the hub."""
        path = self.source.path
        if not Path(path).is_dir() and re.match(REPOSITORY, path):
            return []
        return [
            workflow_path(str(file))
            for language, domain in self.languages_and_domains()
            for file in release_files(path, language=language, domain=domain).values()
        ]

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the section's language and domain of a release.

        A query's positive is ``pos_corpus_id`` if the release has that column. Otherwise it is the
        query's document of the highest grade in the corpus; in a tie, the first whose length is the
        published one. ``target_position`` is the release's, or null. These queries are dropped:
        without a positive in the qrels (``no_positive``) or in the corpus (``positive_missing``),
        or with a span that is empty or begins outside its document (``span_outside``). A span that
        only ends beyond its document is kept: PosIR's relative position counts its middle as at
        most the length.

        ``count_tokens`` counts the tokens of documents; the token lengths of positives are the
        published ones.

        Raises
        ------
        InputError
            If the dataset cannot be read, or contradicts itself: a positive is not in corpus and
            qrels, or has another length.
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
        complete = _with_further(tables.queries)
        queries = complete.join(
            _positives(usable, complete), on="_id", how="left", maintain_order="left"
        ).with_columns(reason=_reason(tables.qrels))
        _refuse_contradictions(queries, where)
        kept = queries.filter(pl.col("reason").is_null())
        _log_overruns(kept, where)
        ids = kept.select(pl.col("_id").alias("query-id"))
        qrels = judged.join(ids, on="query-id", how="semi", maintain_order="left")
        built = Build(
            corpus,
            _queries(kept),
            qrels.select("query-id", "corpus-id", pl.col("score").cast(pl.Int32)),
            _dropped(queries.filter(pl.col("reason").is_not_null())),
            ((_STAGE, Flow("queries", queries.height, kept.height)),),
        )
        if kept.is_empty():
            dropped = f"; dropped: {reasons_text(built.dropped)}" if queries.height else ""
            problem = f"no query is left of {queries.height}{dropped}"
            raise NothingLeftError(f"{where}: {problem}; documents: {corpus.height}", built)
        return built


def _refuse_absent(key: str, wanted: Sequence[str] | None, existing: Sequence[str]) -> None:
    absent = [name for name in wanted or () if name not in existing]
    if absent:
        allowed = ", ".join(dict.fromkeys(existing)) or "none"
        raise InputError(f"no {key} {', '.join(absent)} in the release; it has {allowed}")


def _prefixed(tables: ReleaseTables, prefix: str) -> ReleaseTables:
    queries = tables.queries
    return ReleaseTables(
        prefixed(tables.corpus, prefix, "_id"),
        prefixed(queries, prefix, *(name for name in _QUERY_ID_COLUMNS if name in queries.columns)),
        prefixed(tables.qrels, prefix, "query-id", "corpus-id"),
    )


def _with_further(queries: pl.DataFrame) -> pl.DataFrame:
    """Add the missing columns of `FURTHER`; rename the release's positive to ``stated``."""
    lacking = {n: kind for n, kind in FURTHER["queries"].items() if n not in queries.columns}
    return queries.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in lacking.items()
    ).rename({"pos_corpus_id": "stated", TRANSLATED_LENGTH: "stated_length"})


def _refuse_contradictions(queries: pl.DataFrame, where: str) -> None:
    """Raise InputError if a positive is missing or has another length than stated."""
    is_lost = pl.col("stated").is_not_null() & pl.col("pos_corpus_id").is_null()
    for query_id, stated in queries.filter(is_lost).select("_id", "stated").head(1).iter_rows():
        raise InputError(
            f"{where}: query {query_id!r} has pos_corpus_id {stated!r}, which is not in the corpus "
            "or has no score above 0 for it in the qrels; correct it, or remove the column"
        )
    is_other = pl.col("stated_length") != pl.col("own_length")
    columns = ("_id", "stated_length", "pos_corpus_id", "own_length")
    for query_id, stated, document, length in queries.filter(is_other).select(columns).iter_rows():
        raise InputError(
            f"{where}: query {query_id!r} has {TRANSLATED_LENGTH} {stated}, but its positive "
            f"{document!r} has {length} characters; correct it, or remove the column"
        )


def _positives(usable: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """Return each query's positive: ``_id``, ``pos_corpus_id``, ``own_length``."""
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
    """Return why a query cannot be used; null if it can."""
    judged = qrels.filter(pl.col("score") > 0).get_column("query-id").unique()
    start, end = (pl.col("pos_char_span").list.get(index) for index in (0, 1))
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
    """Return QUERIES rows, with the positive's length if it is stated or not the published one."""
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
            _STAGE,
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
            "%s: %d spans end beyond their document; their middle is limited to its length",
            where,
            beyond,
        )
