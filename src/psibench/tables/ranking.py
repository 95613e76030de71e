"""The one ranking rule of the project: score descending, then document id descending.

This is the order of trec_eval, and therefore of mteb, beir, ir-measures and PyTerrier. It compares
ids byte by byte (`strcmp`; in UTF-8 the order of code points) and, up to 9.0.8, scores as 32-bit
floats (form_res_rels.c, trec_format.h; pytrec_eval-terrier 0.5 does the same). trec_eval
10.0 compares them as 64-bit floats: runs of psibench, whose scores have 32 bits, keep their order,
but a foreign run's scores that differ beyond those are tied here and not there.

PosIR was evaluated with pytrec_eval, so in this order. SQuAD-PosQ and FineWeb-PosQ were evaluated
with scikit-learn's `ndcg_score`, which gives tied documents the mean gain of their ranks: this is
the metric ``ndcg-tie-averaged@k``, which uses `with_ties`.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl

from psibench.errors import InputError

ROWS_AT_ONCE = 16_384
"""Rows that are checked at once; their intermediate results fit into a CPU's cache."""
NOTHING_FOUND = pl.DataFrame(
    schema={"query_id": pl.String, "doc_id": pl.String, "score": pl.Float32}
)
"""Results of a domain without queries or documents."""


def rank_documents(
    scores: pl.DataFrame, top_k: int | None = None, *, source: str = "the run"
) -> pl.DataFrame:
    """Rank each query's documents by score descending, ties by document id descending.

    Scores are compared as float32, the precision the run table keeps, so that ranking a run that
    was written and read again changes nothing. Document ids compare by code point, as Python
    strings do. The order of the rows given has no influence.

    Parameters
    ----------
    scores : (n_pairs, >=3) frame with query_id (String), doc_id (String), score (numeric)
        One row per scored pair, in any order; further columns are ignored.
    top_k : keep the first `top_k` documents of a query (all when None).
    source : what an error message calls the input, e.g. a file name.

    Returns
    -------
    (n_kept, 4) frame query_id, doc_id, rank (Int32, from 1), score (Float32), ordered by query_id
    then rank; no rows for an empty input.

    Raises
    ------
    InputError
        On a missing column, a null, a score that is not a number, a pair given twice or top_k < 1.
    """
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k is {top_k}; allowed: 1 or more, or None for all documents")
    frame = _typed(scores, source)
    _refuse_missing_values(frame, source)
    if frame.n_chunks() * ROWS_AT_ONCE > frame.height:  # else large: copying them costs more
        frame = frame.rechunk()
    first, is_ranked = _first_rows(frame)
    if not is_ranked:
        frame, first = _sorted(frame, first)
    _refuse_duplicates(frame, first, source)
    rank = np.arange(1, frame.height + 1, dtype=np.int32)
    rank -= np.repeat(first, np.diff(first, append=frame.height))
    run = frame.select("query_id", "doc_id", pl.Series("rank", rank), "score")
    return run if top_k is None else run.filter(pl.col("rank") <= top_k)


def without_identical_ids(scores: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Remove the document that has its query's own id, as BEIR does; also return how many rows.

    In ArguAna and Quora queries are documents of the corpus, and each would find itself first.
    BEIR (`EvaluateRetrieval.evaluate` and its searches), mteb (`ignore_identical_ids` of a task)
    and pyserini (`--remove-query`) remove it by its id, before ranks are counted. Rank the rows
    that are returned: a removed document takes no rank.

    Parameters
    ----------
    scores : frame with query_id and doc_id, of documents or chunks, not ranked yet.
    """
    query_id, doc_id = (pl.col(name).cast(pl.String) for name in ("query_id", "doc_id"))
    kept = scores.filter(query_id.ne_missing(doc_id))
    return kept, scores.height - kept.height


def removed_text(n_removed: int) -> str:
    """Say how many results `without_identical_ids` removed."""
    return f"{n_removed:,} results removed whose document has its query's id, as BEIR does"


def place_in_query(query: str = "query_id") -> pl.Expr:
    """Number each query's rows from 0 (Int32), in a frame where they follow each other."""
    row, number = pl.int_range(pl.len(), dtype=pl.Int32), pl.col(query).rle_id()
    is_first = (number != number.shift()).fill_null(value=True)
    return row - row.filter(is_first).gather(number)


def _typed(scores: pl.DataFrame, source: str) -> pl.DataFrame:
    """Select the three columns with their types; adding 0 turns -0.0 into 0.0."""
    wanted = ["query_id", "doc_id", "score"]
    missing = [name for name in wanted if name not in scores.columns]
    if missing:
        raise InputError(f"{source} lacks the columns {missing}; found {scores.columns}")
    if not (scores.schema["score"].is_numeric() or scores.schema["score"] == pl.Null):
        raise InputError(f"score in {source} is {scores.schema['score']}; allowed: numbers")
    return scores.select(
        pl.col("query_id").cast(pl.String),
        pl.col("doc_id").cast(pl.String),
        pl.col("score").cast(pl.Float32) + pl.lit(0.0, dtype=pl.Float32),
    )


def _refuse_missing_values(frame: pl.DataFrame, source: str) -> None:
    unusable = frame.filter(
        pl.any_horizontal(pl.all().is_null()) | pl.col("score").is_nan().fill_null(value=True)
    )
    if unusable.is_empty():
        return
    query_id, doc_id, score = unusable.row(0)
    raise InputError(
        f"{source} gives query {query_id!r}, document {doc_id!r} the score {score} "
        f"({unusable.height} such rows); every row needs two ids and a number: "
        "remove these rows, or give them a lowest score"
    )


def _first_rows(frame: pl.DataFrame) -> tuple[np.ndarray, bool]:
    """Return the first row of each sequence of equal queries, and whether all rows are ranked.

    Ids are slow to compare: queries are only ordered where they change, documents where scores tie.
    """
    first, is_ranked = [np.arange(min(frame.height, 1), dtype=np.int32)], True
    for start in range(0, frame.height - 1, ROWS_AT_ONCE):
        rows = frame.slice(start, ROWS_AT_ONCE + 1)
        (query, doc, score), (next_query, next_doc, next_score) = rows.head(-1), rows.slice(1)
        is_new = next_query != query
        first.append(is_new.arg_true().to_numpy().astype(np.int32) + np.int32(start + 1))
        if is_ranked:
            tied = ~is_new & (next_score == score)
            is_ranked = (
                (is_new | (next_score <= score)).all()
                and (next_query.filter(is_new) > query.filter(is_new)).all()
                and (next_doc.filter(tied) <= doc.filter(tied)).all()
            )
    return np.concatenate(first), is_ranked


def _sorted(frame: pl.DataFrame, first: np.ndarray) -> tuple[pl.DataFrame, np.ndarray]:
    """Sort by the ranking rule; take and return the first row of each sequence of equal queries."""
    ids = frame["query_id"].gather(first).to_frame()
    numbered = ids.unique().sort("query_id").with_row_index("query")
    code = ids.join(numbered, on="query_id", how="left", maintain_order="left")["query"].to_numpy()
    query = np.repeat(code, np.diff(first, append=frame.height))
    ordered = frame.with_columns(query=query).sort(
        "query", "score", "doc_id", descending=[False, True, True]
    )
    lengths = np.bincount(query)
    return ordered, (np.cumsum(lengths) - lengths).astype(np.int32)


def _refuse_duplicates(frame: pl.DataFrame, first: np.ndarray, source: str) -> None:
    """Raise InputError if a pair occurs twice; ``first`` has the first row of each query."""
    starts = np.searchsorted(first, np.arange(0, frame.height, ROWS_AT_ONCE), side="right") - 1
    edges = [*np.unique(first[starts]), frame.height]  # of blocks with whole queries
    n_pairs = pair_key("query_id", "doc_id").n_unique()
    if all(frame[i:j].select(n_pairs).item() == j - i for i, j in pairwise(edges)):
        return
    twice = repeated_pairs(frame, query="query_id", doc="doc_id")
    if not twice.is_empty():
        query_id, doc_id, count = twice.row(0)
        raise InputError(
            f"{source} scores document {doc_id!r} {count} times for query {query_id!r} "
            f"({twice.height} such pairs); allowed: once; keep one score per pair (of chunks: add "
            "start and end)"
        )


def with_ties(run: pl.DataFrame) -> pl.DataFrame:
    """Add `tied_from` and `tied_to`: the first and last rank of a query that have a row's score.

    ``run`` is as `rank_documents` makes it, and whole: ordered by query and rank.
    """
    query, score = pl.col("query_id"), pl.col("score")
    differs = (query != query.shift(1)) | (score != score.shift(1))
    block = differs.fill_null(value=True).cum_sum()
    return run.with_columns(
        tied_from=pl.col("rank").min().over(block), tied_to=pl.col("rank").max().over(block)
    )


def pair_key(query: str, doc: str) -> pl.Expr:
    """Return a UInt64 key of the ids in the String columns `query` and `doc`, for fast look-ups.

    Equal pairs have equal keys; unequal pairs may, rarely, share one, so whoever finds equal keys
    compares the ids afterwards. The keys hold within a process and are never stored.
    """
    return pl.col(query).hash(1) ^ pl.col(doc).hash(2)


def may_be_among(keys: pl.Series) -> Callable[[pl.Series], pl.Series]:
    """Return a test of other keys of `pair_key`: False only for keys that are not among ``keys``.

    It is several times as fast as a look-up, because its table of bits fits into a CPU's cache;
    at most one in 16 unequal keys passes (a Bloom filter with one hash function).
    """
    wanted = keys.to_numpy()
    n_bits = max(10, int(16 * len(wanted)).bit_length())
    in_byte = np.uint64(64 - (n_bits - 3))

    def place(of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (of >> in_byte).view(np.int64), of.astype(np.uint8) & np.uint8(7)

    table = np.zeros(1 << (n_bits - 3), np.uint8)
    byte, bit = place(wanted)
    np.bitwise_or.at(table, byte, np.uint8(1) << bit)

    def test(others: pl.Series) -> pl.Series:
        numbers, passes = others.to_numpy(), np.empty(len(others), np.bool_)
        for start in range(0, len(numbers), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            byte, bit = place(numbers[some])
            passes[some] = table.take(byte) >> bit & np.uint8(1)
        return pl.Series(passes)

    return test


def repeated_pairs(frame: pl.DataFrame, *, query: str, doc: str) -> pl.DataFrame:
    """Return the pairs that occur more than once: columns `query`, `doc`, n; ordered by ids."""
    keys = frame.select(pair_key(query, doc)).to_series()
    ordered = keys.sort()
    repeated = ordered.filter(ordered == ordered.shift())
    suspects = frame.filter(keys.is_in(repeated.implode())) if len(repeated) else frame.clear()
    counts = suspects.group_by(query, doc).agg(n=pl.len())
    return counts.filter(pl.col("n") > 1).sort(query, doc)


def positives_of(asked: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
    """Return (query_id, doc_id) of the queries asked that have a positive in this language."""
    known = judged.select(query_id="_id", doc_id="pos_corpus_id")
    ids = asked.select(query_id="_id")
    return ids.join(known, on="query_id", how="inner", maintain_order="left")
