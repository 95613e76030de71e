"""Search of chunks: as many ranked chunks per query as a number of tokens needs."""

import polars as pl

from psibench.search.runs import search_by_kind
from psibench.store.vectors import Vectors
from psibench.tables.chunks import CHUNK_ID

FEWEST_CHUNKS = 50
BLOCK_BYTES = 512 * 1024 * 1024


def search_chunks(
    scores_by: str,
    asked: Vectors,
    vectors: Vectors,
    query_ids: pl.Series,
    chunks: pl.DataFrame,
    *,
    tokens: int,
    device: str = "cpu",
) -> pl.DataFrame:
    """Rank the chunks of all documents for each query.

    Parameters
    ----------
    scores_by
        How vectors are compared; see `Scoring`.
    asked, vectors
        Vectors of the queries, and of the chunks in the order of ``chunks``.
    chunks
        doc_id, start, end and tokens.
    tokens
        Each query gets at least `FEWEST_CHUNKS` chunks, and as many as have this many tokens.

    Returns
    -------
    (n_queries * n_kept, 7) frame query_id, doc_id, score, start, end, tokens and chunk_id.
    """
    options = {} if scores_by == "sparse" else {"device": device}
    k = min(FEWEST_CHUNKS, chunks.height)
    while True:
        best = search_by_kind(scores_by, asked, vectors, k=k, block_bytes=BLOCK_BYTES, **options)
        counts = chunks["tokens"].to_numpy()[best.documents]
        if k == chunks.height or counts.sum(axis=1).min() >= tokens:
            break
        k = min(2 * k, chunks.height)
    numbers = pl.Series("number", range(chunks.height), dtype=pl.Int64)
    run = best.frame(query_ids, numbers).rename({"doc_id": "number"})
    placed = run.join(chunks.with_columns(numbers), on="number", maintain_order="left")
    return placed.select("query_id", "doc_id", "score", "start", "end", "tokens", chunk_id=CHUNK_ID)
