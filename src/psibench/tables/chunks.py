"""Chunks of documents: columns, ids and checks."""

import polars as pl

from psibench.errors import InputError
from psibench.text.lengths import MOST_TEXT_CHARS

CHUNK_COLUMNS = ("doc_id", "start", "end")
"""A document, and the characters [start, end) of it."""
CHUNK_ID = pl.format("{} [{}, {})", *CHUNK_COLUMNS)
"""The id of a chunk, from its columns."""
_IN_ID = r"(?s)^(?<doc_id>.*) \[(?<start>\d+), (?<end>\d+)\)$"


def from_chunk_ids(ids: pl.Series) -> pl.DataFrame:
    """Return the columns of chunks from their ids."""
    parts = pl.DataFrame({"id": ids}).select(pl.col("id").str.extract_groups(_IN_ID)).unnest("id")
    return parts.cast({"start": pl.Int64, "end": pl.Int64})


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
