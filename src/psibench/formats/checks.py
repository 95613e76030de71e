"""Checks across the run, the queries and the qrels a user brings."""

from collections.abc import Iterator

import polars as pl

from psibench.errors import InputError
from psibench.metrics.buckets import THIRDS
from psibench.metrics.query_scores import name_some
from psibench.search.ranking import repeated_pairs
from psibench.text.lengths import MOST_CHARS


def check_queries(queries: pl.DataFrame, *, source: str, spans_may_overrun: bool = False) -> None:
    """Refuse queries that cannot be put in a bucket.

    Parameters
    ----------
    queries : columns of `psibench.formats.beir.QUERY_SCHEMA`.
    source : file name for messages.
    spans_may_overrun : accept spans that end beyond the document (their relative position is
        then taken as at most 1).

    Raises
    ------
    InputError
        If there is no query, an id is missing or occurs twice, a span is not 0 <= start < end
        <= length, a length is not one of a text, or a target position is not beginning, middle or
        end.
    """
    if queries.is_empty():
        raise InputError(f"{source}: no queries")
    ids = queries.get_column("_id")
    if ids.null_count():
        raise InputError(f"{source}: {ids.null_count()} queries without an _id")
    if ids.n_unique() < len(ids):
        repeated = ids.filter(ids.is_duplicated()).unique()
        raise InputError(f"{source}: query ids that occur twice: {name_some(repeated)}")
    _check_spans(queries, source, spans_may_overrun)
    target = pl.col("target_position")
    odd = queries.filter(target.is_not_null() & ~target.is_in(THIRDS))
    if not odd.is_empty():
        query_id, value = odd.select("_id", "target_position").row(0)
        raise InputError(
            f"{source}: query {query_id!r} has the target_position {value!r}; "
            f"allowed: {', '.join(THIRDS)} or none"
        )


def _check_spans(queries: pl.DataFrame, source: str, spans_may_overrun: bool) -> None:
    span = pl.col("pos_char_span")
    start, end, length = (
        span.list.get(0, null_on_oob=True),
        span.list.get(1, null_on_oob=True),
        (pl.col("pos_char_length")),
    )
    sound = (span.list.len() == 2) & (start >= 0) & (start < end)
    sound &= length.is_between(1, MOST_CHARS) & (end <= MOST_CHARS)
    if not spans_may_overrun:
        sound &= end <= length
    odd = queries.filter(~sound.fill_null(value=False))
    if not odd.is_empty():
        query_id, found, size = odd.select("_id", "pos_char_span", "pos_char_length").row(0)
        raise InputError(
            f"{source}: query {query_id!r} has the span {found} in a document of {size} characters "
            f"({odd.height} such queries); allowed: [start, end) with 0 <= start < end <= length; "
            "spans that end beyond the document are accepted with --spans-may-overrun"
        )
    tokens = pl.col("pos_token_length")
    odd = queries.filter(~tokens.is_between(1, MOST_CHARS))
    if not odd.is_empty():
        query_id, found = odd.select("_id", "pos_token_length").row(0)
        raise InputError(
            f"{source}: query {query_id!r} has the pos_token_length {found} ({odd.height} such "
            "queries); allowed: 1 or more, or none"
        )


def keep_known(
    run: pl.DataFrame, queries: pl.DataFrame, *, source: str, ignore_unknown: bool
) -> pl.DataFrame:
    """Return the run's rows whose query is among the queries.

    Raises
    ------
    InputError
        If the run holds no known query at all, or an unknown one unless `ignore_unknown`.
    """
    known = run.filter(pl.col("query_id").is_in(queries.get_column("_id").implode()))
    if known.is_empty():
        found = name_some(run.get_column("query_id").unique()) if run.height else "no rows"
        expected = name_some(queries.get_column("_id"))
        raise InputError(f"{source}: holds none of the queries; found {found}; expected {expected}")
    if known.height < run.height and not ignore_unknown:
        unknown = run.join(queries, left_on="query_id", right_on="_id", how="anti")
        raise InputError(
            f"{source}: query ids that are not among the queries: "
            f"{name_some(unknown.get_column('query_id').unique())}; "
            "leave them out with --ignore-unknown"
        )
    return known


def match_qrels(
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    source: str,
    ignore_unknown: bool,
    ignore_unjudged: bool,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the queries that have a positive, and the qrels of those queries.

    Raises
    ------
    InputError
        If there is no positive at all; if a query has none, unless `ignore_unjudged`; if the
        qrels name an unknown query, unless `ignore_unknown`, or a pair twice.
    """
    refuse_repeated_pairs(qrels, source=source)
    positive = qrels.filter(pl.col("score") > 0).get_column("query-id").unique()
    ids = queries.get_column("_id")
    judged = queries.filter(ids.is_in(positive.implode()))
    if judged.is_empty():
        raise InputError(f"{source}: no positive (score above 0) for any of the queries")
    unjudged = ids.filter(~ids.is_in(positive.implode()))
    if len(unjudged) and not ignore_unjudged:
        raise InputError(
            f"{source}: queries without a positive: {name_some(unjudged)}; "
            "leave them out with --ignore-unjudged"
        )
    named = qrels.get_column("query-id")
    unknown = named.filter(~named.is_in(ids.implode())).unique()
    if len(unknown) and not ignore_unknown:
        raise InputError(
            f"{source}: query ids that are not among the queries: {name_some(unknown)}; "
            "leave them out with --ignore-unknown"
        )
    return judged, qrels.filter(named.is_in(judged.get_column("_id").implode()))


def refuse_repeated_pairs(qrels: pl.DataFrame, *, source: str) -> None:
    """Refuse qrels that judge a document twice for a query: graded 1 and 0, neither is meant."""
    twice = repeated_pairs(qrels, query="query-id", doc="corpus-id")
    for query_id, doc_id, count in twice.head(1).iter_rows():
        same = (pl.col("query-id") == query_id) & (pl.col("corpus-id") == doc_id)
        grades = ", ".join(map(str, qrels.filter(same).get_column("score").to_list()[:5]))
        raise InputError(
            f"{source}: query {query_id!r}, document {doc_id!r} is graded {count} times: {grades} "
            f"({twice.height} such pairs); allowed: once"
        )


def evidence_doubts(queries: pl.DataFrame, qrels: pl.DataFrame) -> Iterator[str]:
    """Say where it is not certain of which document a query's span is.

    Parameters
    ----------
    queries, qrels : as `match_qrels` returns them.
    """
    positives = qrels.filter(pl.col("score") > 0).select(_id="query-id", own="corpus-id", g="score")
    best = positives.filter(pl.col("g") == pl.col("g").max().over("_id"))
    several = best.filter(pl.col("_id").is_duplicated()).select("_id").unique()
    unnamed = queries.filter(pl.col("pos_corpus_id").is_null())
    unclear = unnamed.join(several, on="_id", how="semi").get_column("_id")
    if len(unclear):
        yield (
            f"{len(unclear):,} of {queries.height:,} queries have several positives of the highest "
            f"grade and one span: {name_some(unclear)}. It is taken to be in the first of them by "
            "id; name the document in pos_corpus_id"
        )
    named = queries.filter(pl.col("pos_corpus_id").is_not_null())
    foreign = named.join(
        positives, left_on=["_id", "pos_corpus_id"], right_on=["_id", "own"], how="anti"
    ).get_column("_id")
    if len(foreign):
        yield (
            f"the pos_corpus_id of {len(foreign):,} of {queries.height:,} queries is no positive "
            f"in the qrels: {name_some(foreign)}"
        )
