"""Checks of the runs, queries and qrels that users provide."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import polars as pl

from psibench.errors import InputError
from psibench.metrics.buckets import MIXED, THIRDS, UNKNOWN
from psibench.metrics.query_scores import SEVERAL_SPANS, name_some
from psibench.tables.ranking import repeated_pairs
from psibench.text.lengths import MOST_TEXT_CHARS

logger = logging.getLogger("psibench")


def check_queries(queries: pl.DataFrame, *, source: str) -> None:
    """Raise InputError if queries (columns of `beir.QUERY_SCHEMA`) cannot be put in buckets.

    The reasons are: no query; a missing or repeated id; a span that is not 0 <= start < end;
    several spans that are not in order or that a query has in addition to one span; neither span
    nor class; an impossible length; a position other than beginning, middle or end (or mixed, for
    `target_position`).
    """
    if queries.is_empty():
        raise InputError(f"{source}: no queries; expected at least one")
    ids = queries.get_column("_id")
    if ids.null_count():
        raise InputError(f"{source}: {ids.null_count()} queries without an _id")
    if ids.is_duplicated().any():
        repeated = ids.filter(ids.is_duplicated()).unique()
        raise InputError(f"{source}: query ids that occur twice: {name_some(repeated)}")
    _check_spans(queries, source)
    refuse_odd_spans(queries, source=source)
    refuse_odd_lengths(queries, ["pos_token_length"], source=source)
    refuse_other_positions(queries, source=source)


def refuse_other_positions(queries: pl.DataFrame, *, source: str) -> None:
    """Raise InputError if a `target_position` is no third or mixed, or `positions` are no thirds.

    The message has the first such query; missing columns are ignored.
    """
    target, tags = pl.col("target_position"), pl.col("positions")
    unknown = {
        "target_position": (
            target.is_not_null() & ~target.is_in([*THIRDS, MIXED, UNKNOWN]),
            f"{MIXED}, {UNKNOWN}",
        ),
        "positions": (tags.list.eval(~pl.element().is_in(THIRDS)).list.any(), "lists of thirds"),
    }
    for name, (is_unknown, more) in unknown.items():
        odd = queries.filter(is_unknown) if name in queries.columns else queries.clear()
        for query_id, value in odd.select("_id", pl.col(f"^{name}$")).head(1).iter_rows():
            raise InputError(
                f"{source}: query {query_id!r} has the {name} {value!r}; "
                f"allowed: {', '.join(THIRDS)}, {more} or none"
            )


def refuse_odd_lengths(queries: pl.DataFrame, names: Iterable[str], *, source: str) -> None:
    """Raise InputError if a length is impossible for a text; null is allowed."""
    for name in names:
        odd = queries.filter(~pl.col(name).is_between(1, MOST_TEXT_CHARS))
        for query_id, length in odd.select("_id", name).head(1).iter_rows():
            raise InputError(
                f"{source}: query {query_id!r} has the {name} {length} ({odd.height} such "
                f"queries); allowed: 1 to {MOST_TEXT_CHARS}"
            )


def _check_spans(queries: pl.DataFrame, source: str) -> None:
    span, length = pl.col("pos_char_span"), pl.col("pos_char_length")
    start, end = (span.list.get(index, null_on_oob=True) for index in (0, 1))
    is_length, several = length.is_between(1, MOST_TEXT_CHARS), pl.col(SEVERAL_SPANS)
    by_span = (span.list.len() == 2) & (start >= 0) & (start < end) & is_length
    by_span &= end <= MOST_TEXT_CHARS  # `evidence_doubts` reports ends beyond the document
    by_class = pl.col("target_position").is_not_null() & (length.is_null() | is_length)
    by_class |= several.is_not_null()  # `refuse_odd_spans` checks these
    sound = pl.when(span.is_null()).then(by_class).otherwise(by_span)
    odd = queries.filter(~sound.fill_null(value=False))
    if not odd.is_empty():
        query_id, value, size = odd.select("_id", "pos_char_span", "pos_char_length").row(0)
        raise InputError(
            f"{source}: query {query_id!r} has the span {value} in a document of {size} characters "
            f"({odd.height} such queries); allowed: [start, end) with 0 <= start < end, "
            f"or no span but {SEVERAL_SPANS} or a target_position"
        )


def refuse_odd_spans(queries: pl.DataFrame, *, source: str) -> None:
    """Raise InputError if several spans are out of order or beyond their document."""
    if SEVERAL_SPANS not in queries.columns:
        return
    several = queries.filter(pl.col(SEVERAL_SPANS).is_not_null())
    columns = ("_id", SEVERAL_SPANS, "pos_char_span", "pos_char_length")
    for query_id, spans, single, size in several.select(columns).iter_rows():
        is_sized = size is not None and 1 <= size <= MOST_TEXT_CHARS
        if single is not None or not is_sized or not _in_order(spans, size):
            raise InputError(
                f"{source}: query {query_id!r} has the {SEVERAL_SPANS} {spans} and the "
                f"pos_char_span {single} in a document of {size} characters; allowed: "
                "[[start, end), ...] in order of the document, without overlaps, 0 <= start < end "
                "<= length, and no additional pos_char_span"
            )


def _in_order(spans: Sequence[Sequence[int | None] | None], most: int) -> bool:
    if not spans or not all(span and len(span) == 2 and None not in span for span in spans):
        return False
    ends = [end for span in spans for end in span or () if end is not None]
    is_filled = all(start < end for start, end in zip(ends[::2], ends[1::2], strict=True))
    return is_filled and [0, *ends, most] == sorted([0, *ends, most])


def keep_known(
    run: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    source: str,
    ignore_unknown: bool,
    remedy: str = "leave them out with --ignore-unknown",
) -> pl.DataFrame:
    """Return the run's rows whose query is among the queries.

    Raises InputError if no row is left, or if the run has an unknown query and `ignore_unknown` is
    false; `remedy` ends that message.
    """
    known = run.filter(pl.col("query_id").is_in(queries.get_column("_id").implode()))
    if known.is_empty():
        found = name_some(run.get_column("query_id").unique()) if run.height else "no rows"
        expected = name_some(queries.get_column("_id"))
        raise InputError(f"{source}: has none of the queries; found {found}; expected {expected}")
    if not ignore_unknown:
        _refuse_unknown(run.get_column("query_id"), queries, source, remedy)
    return known


def _refuse_unknown(ids: pl.Series, queries: pl.DataFrame, source: str, remedy: str) -> None:
    is_known = ids.is_in(queries.get_column("_id").implode()).fill_null(value=False)
    unknown = ids.filter(~is_known).unique()
    if len(unknown):
        raise InputError(
            f"{source}: query ids that are not among the queries: {name_some(unknown)}; {remedy}"
        )


def refuse_foreign_documents(run: pl.DataFrame, judged: pl.Series, *, source: str) -> None:
    """Raise InputError if a run has none of the judged documents, i.e. uses other ids."""
    ids = run.get_column("doc_id")
    if len(ids) and not judged.is_in(ids.unique().implode()).any():
        raise InputError(
            f"{source}: has none of the {judged.n_unique()} judged documents. Its ids are like "
            f"{ids[0]!r}, those of the judged documents like {judged[0]!r}; use the same ids"
        )


def refuse_unknown_documents(run: pl.DataFrame, documents: pl.Series, *, source: str) -> None:
    """Raise InputError if a run has documents that are not in ``documents``, the corpus' ids."""
    ids = run.get_column("doc_id")
    unknown = ids.filter(~ids.is_in(documents.implode()).fill_null(value=False)).unique()
    if len(unknown):
        raise InputError(
            f"{source}: document ids that are not in the corpus: {name_some(unknown)}; the corpus "
            f"has ids like {documents[0]!r}"
        )


_NUMERAL = r"^0*([0-9]+?)(?:\.0+)?$"


def _spelling(ids: pl.Expr) -> pl.Expr:
    """Return ids in NFC and lower case, without outer space, leading zeros and ``.0``."""
    plain = ids.str.normalize("NFC").str.strip_chars().str.to_lowercase()
    return plain.str.replace(_NUMERAL, "${1}")


def spelling_doubts(run: pl.DataFrame, positives: pl.DataFrame) -> Iterator[str]:
    """Yield a warning if a run has relevant documents only under another spelling of their id.

    Such documents count as not found, so the scores are too low. Some tools read ids as numbers,
    which drops leading zeros or adds ``.0``; others trim, decompose or lower-case ids.

    Parameters
    ----------
    run, positives : query_id and doc_id of every result, and of every query and relevant document.
    """
    pairs = ["query_id", "doc_id"]
    missing = positives.select(pairs).join(run.select("doc_id").unique(), on="doc_id", how="anti")
    others = run.select(pairs).join(missing, on="query_id", how="semi")
    others = others.join(positives.select("doc_id").unique(), on="doc_id", how="anti")
    spelt = _spelling(pl.col("doc_id")).alias("spelling")
    found = missing.with_columns(spelt).join(
        others.with_columns(spelt), on=["query_id", "spelling"], suffix="_found"
    )
    if found.height:
        query_id, doc_id, _, other = found.sort("query_id", "doc_id", "doc_id_found").row(0)
        n_found, n_all = found.select(pairs).n_unique(), positives.select(pairs).n_unique()
        yield (
            f"{n_found:,} of {n_all:,} relevant documents occur only under another spelling of "
            f"their id and count as not found: query {query_id!r} has {other!a}, the qrels have "
            f"{doc_id!a}. Use the same ids"
        )


def match_qrels(
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    source: str,
    ignore_unknown: bool,
    ignore_unjudged: bool,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the queries that have a positive, and the qrels of those queries.

    Raises InputError if no query has a positive; if a query has none and `ignore_unjudged` is
    false; if the qrels have an unknown query and `ignore_unknown` is false; or if they have a pair
    twice.
    """
    qrels = without_repeated_rows(qrels, source=source)
    positive = qrels.filter(pl.col("score") > 0).get_column("query-id").unique()
    ids = queries.get_column("_id")
    judged = queries.filter(ids.is_in(positive.implode()))
    if judged.is_empty():
        raise InputError(f"{source}: none of the queries has a positive (score above 0)")
    unjudged = ids.filter(~ids.is_in(positive.implode()))
    if len(unjudged) and not ignore_unjudged:
        raise InputError(
            f"{source}: queries without a positive: {name_some(unjudged)}; "
            "leave them out with --ignore-unjudged"
        )
    if not ignore_unknown:
        query_ids = qrels.get_column("query-id").drop_nulls()
        _refuse_unknown(query_ids, queries, source, "leave them out with --ignore-unknown")
    is_judged = pl.col("query-id").is_in(judged.get_column("_id").implode())
    return judged, qrels.filter(is_judged)


def without_repeated_rows(qrels: pl.DataFrame, *, source: str) -> pl.DataFrame:
    """Return qrels with each pair once; log repetitions with the same grade.

    Raises InputError if a pair has two grades.
    """
    distinct = qrels.unique(maintain_order=True)
    if lost := qrels.height - distinct.height:
        rows = qrels.filter(qrels.is_duplicated()).head(1)
        query_id, doc_id = rows.select("query-id", "corpus-id").row(0)
        logger.warning(
            "%s: %d rows of the qrels repeat another row, and count once; the first: query %r, "
            "document %r",
            *(source, lost, query_id, doc_id),
        )
    refuse_repeated_pairs(distinct, source=source)
    return distinct


def refuse_repeated_pairs(qrels: pl.DataFrame, *, source: str) -> None:
    """Raise InputError if qrels judge a document twice for a query, e.g. as 1 and 0."""
    twice = repeated_pairs(qrels, query="query-id", doc="corpus-id")
    for query_id, doc_id, count in twice.head(1).iter_rows():
        same = (pl.col("query-id") == query_id) & (pl.col("corpus-id") == doc_id)
        grades = ", ".join(map(str, qrels.filter(same).get_column("score").to_list()[:5]))
        raise InputError(
            f"{source}: query {query_id!r}, document {doc_id!r} is graded {count} times: {grades} "
            f"({twice.height} such pairs); give each pair one grade"
        )


def qrels_of_corpus(qrels: pl.DataFrame, documents: pl.Series, *, source: str) -> pl.DataFrame:
    """Return the qrels of the queries that have a relevant document in a corpus.

    If such a query has other relevant documents that the corpus lacks, these are kept, with a
    warning. As in trec_eval and BEIR they count as never found, in nDCG's ideal ranking and in
    recall. Irrelevant documents that the corpus lacks are left out.

    Parameters
    ----------
    documents : ids of the corpus.
    source : name of the qrels in the warning.
    """
    is_relevant, is_there = pl.col("score") > 0, pl.col("corpus-id").is_in(documents.implode())
    answerable = qrels.filter(is_relevant & is_there).select("query-id").unique()
    of_answerable = qrels.filter(is_relevant | is_there).join(
        answerable, on="query-id", how="semi", maintain_order="left"
    )
    missing = of_answerable.filter(~is_there)
    for query_id, document in missing.select("query-id", "corpus-id").head(1).iter_rows():
        logger.warning(
            "%s: %d relevant documents of %d queries are not in the corpus and count as not found, "
            "as in trec_eval; the first: query %r, document %r. The corpus has other relevant "
            "documents of these queries",
            *(source, missing.height, missing.get_column("query-id").n_unique()),
            *(query_id, document),
        )
    return of_answerable


IdenticalIds = Literal["auto", "remove", "keep"]
"""Treatment of a document in a ranking that has the query's id. auto: remove it, unless the qrels
label such a document relevant, since ids of queries and documents are then unrelated numbers."""


def identical_positives(qrels: pl.DataFrame) -> pl.Series:
    """Return the ids of queries whose relevant document has the query's id."""
    is_own = pl.col("query-id") == pl.col("corpus-id")
    return qrels.filter(is_own & (pl.col("score") > 0)).get_column("query-id")


def identical_ids_removed(setting: IdenticalIds, qrels: pl.DataFrame) -> bool:
    """Return whether rankings for these qrels leave out the document with the query's id."""
    return setting == "remove" or (setting == "auto" and identical_positives(qrels).is_empty())


def evidence_doubts(queries: pl.DataFrame, qrels: pl.DataFrame) -> Iterator[str]:
    """Yield warnings about spans beyond their document, or whose document is uncertain.

    ``queries`` and ``qrels`` as `match_qrels` returns them.
    """
    overrun = queries.filter(pl.col("pos_char_span").list.get(1) > pl.col("pos_char_length"))
    if overrun.height:
        yield (
            f"the spans of {overrun.height:,} of {queries.height:,} queries end beyond their "
            f"document: {name_some(overrun['_id'])}; their middle is limited to its length. Check "
            "that spans and lengths are in characters"
        )
    positives = qrels.filter(pl.col("score") > 0).select(_id="query-id", doc="corpus-id", g="score")
    best = positives.filter(pl.col("g") == pl.col("g").max().over("_id"))
    several = best.filter(pl.col("_id").is_duplicated()).select("_id").unique()
    without_document = queries.filter(pl.col("pos_corpus_id").is_null())
    unclear = without_document.join(several, on="_id", how="semi").get_column("_id")
    if len(unclear):
        yield (
            f"{len(unclear):,} of {queries.height:,} queries have several positives of the highest "
            f"grade and one span: {name_some(unclear)}. The span is assumed to be in the first "
            "positive by id; if not, add pos_corpus_id"
        )
    with_document = queries.filter(pl.col("pos_corpus_id").is_not_null())
    foreign = with_document.join(
        positives, left_on=["_id", "pos_corpus_id"], right_on=["_id", "doc"], how="anti"
    ).get_column("_id")
    if len(foreign):
        yield (
            f"the pos_corpus_id of {len(foreign):,} of {queries.height:,} queries is not a "
            f"positive in the qrels: {name_some(foreign)}"
        )
