"""Chunks of documents: columns, ids, checks, and the ranking of runs of chunks."""

import polars as pl

from psibench.errors import InputError
from psibench.tables.ranking import rank_documents, with_ties
from psibench.text.lengths import MOST_TEXT_CHARS

CHUNK_COLUMNS = ("doc_id", "start", "end")
"""A document, and the characters [start, end) of it."""
CHUNK_ID = pl.format("{} [{}, {})", *CHUNK_COLUMNS)
"""The id of a chunk, from its columns."""
TOKENS_HANDED_ON = 1000
"""Tokens of ranked chunks that a system hands to a language model, by default."""


def refuse_invalid_chunks(chunks: pl.DataFrame, *, source: str) -> None:
    """Raise InputError unless chunks have 0 <= start < end, in whole numbers."""
    start, end = pl.col("start"), pl.col("end")
    sound = (start >= 0) & (start < end) & (end <= MOST_TEXT_CHARS)
    sound &= (start == start.round()) & (end == end.round())
    odd = chunks.filter(~(sound & pl.col("doc_id").is_not_null()).fill_null(value=False))
    if not odd.is_empty():
        doc_id, *ends = odd.select(CHUNK_COLUMNS).row(0)
        first, last = (int(n) if n is not None and n % 1 == 0 else n for n in ends)
        raise InputError(
            f"{source}: a chunk of document {doc_id!r} has start {first} and end {last} "
            f"({odd.height} such rows); allowed: whole numbers with 0 <= start < end, in "
            "characters of the document, end exclusive"
        )


def refuse_beyond(chunks: pl.DataFrame, lengths: pl.DataFrame, *, source: str) -> None:
    """Raise InputError if chunks end beyond their document; ``lengths`` has doc_id and length."""
    known = lengths.drop_nulls().group_by("doc_id").agg(pl.col("length").max())
    beyond = chunks.join(known, on="doc_id").filter(pl.col("end") > pl.col("length"))
    if not beyond.is_empty():
        doc_id, start, end, length = (
            beyond.sort(CHUNK_COLUMNS).select(*CHUNK_COLUMNS, "length").row(0)
        )
        raise InputError(
            f"{source}: a chunk of document {doc_id!r} is [{start}, {end}), but the document has "
            f"{length} characters ({beyond.height} such rows); start and end must be characters, "
            "not bytes or tokens, of the same text as the queries' spans"
        )


def rank_run(
    scores: pl.DataFrame, *, top_k: int | None = None, source: str = "the run"
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Rank a run of documents or chunks; return the run of documents, and of chunks or None.

    Parameters
    ----------
    scores : (n_pairs, >=3) frame with query_id, doc_id and score; for chunks also chunk_id, start,
        end, and tokens if known. Then top_k counts chunks, and chunks tied with the last one are
        kept.
    top_k, source : as in `rank_documents`.

    Returns
    -------
    Frames in the columns of the run table; the run of chunks also has chunk_id, start and end,
    and tokens if given.
    """
    if "chunk_id" not in scores.columns:
        return rank_documents(scores, top_k, source=source), None
    renamed = scores.select("query_id", "score", doc_id="chunk_id")
    ranked = rank_documents(renamed, source=source).rename({"doc_id": "chunk_id"})
    if top_k is not None:
        ranked = with_ties(ranked).filter(pl.col("tied_from") <= top_k)
        ranked = ranked.drop("tied_from", "tied_to")
    of_chunk = ["tokens"] if "tokens" in scores.columns else []
    places = scores.select("chunk_id", *CHUNK_COLUMNS, *of_chunk).unique("chunk_id")
    chunks = ranked.join(places, on="chunk_id", how="left", maintain_order="left")
    best = chunks.group_by("query_id", "doc_id").agg(pl.col("score").max())
    return rank_documents(best, source=source), chunks
