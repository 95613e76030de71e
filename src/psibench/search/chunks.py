"""Search of chunks, and stage ``search_chunks``: a run of chunks, and of documents by their best.

Each query gets as many chunks as a number of documents and a number of tokens need. A fixed number
of chunks would give fewer documents wherever several chunks of one document are found.
"""

import logging
from typing import Any

import numpy as np
import polars as pl

from psibench.config.models import ChunkedEntry
from psibench.encode.rows import own_rows
from psibench.search.ranking import DocumentVectors
from psibench.search.runs import search_by_kind, stored_domains
from psibench.store.vectors import Vectors
from psibench.tables.chunks import CHUNK_ID, TOKENS_HANDED_ON, rank_run
from psibench.tables.job import Job
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import CHUNK_ENCODINGS, CHUNK_RUN, CORPUS, QUERIES, RUN
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

FEWEST_CHUNKS = 50
BLOCK_BYTES = 512 * 1024 * 1024
CHUNK_ROWS = ("start", "end", "tokens")


@stage("search_chunks", version=1)
def run_chunk_search(job: Job) -> None:
    """Search every domain with a model's stored chunks; write the runs of documents and chunks.

    Inputs as in `psibench.search.runs.run_vector_search`, with CHUNK_ENCODINGS tables. ``run`` has
    ``top_k`` documents, each with the score of its best chunk. ``chunks`` has
    the ranked chunks down to the last of these documents, more if the metrics of chunks count more,
    and all chunks with the same score as the last one.

    Raises
    ------
    InputError
        If an encodings table does not name its model, or vectors are not in the store.
    """
    entry, top_k = job.value("entry", ChunkedEntry), job.value("top_k", int)
    is_removed = bool(job.value("remove_identical_ids", default=False))
    options: dict[str, Any] = {"encoded": CHUNK_ENCODINGS}
    queries = own_rows(job, "query_encodings", "query", own="own_queries", spec=QUERIES, **options)
    chunks = own_rows(
        job,
        "corpus_encodings",
        "document",
        own="own_corpus",
        spec=CORPUS,
        further=CHUNK_ROWS,
        **options,
    )
    frames = [NO_CHUNKS]
    for rows, inside, questions, corpus, how in stored_domains(job, queries, chunks):
        found = search_chunks(
            entry.scores_by,
            questions,
            corpus,
            queries["_id"].gather(rows),
            chunks[inside].select("start", "end", "tokens", doc_id="_id"),
            tokens=TOKENS_HANDED_ON,
            documents=top_k,
            without_identical_ids=is_removed,
            **how,
        )
        frames.append(found)
    if is_removed:
        n_same = queries["_id"].is_in(chunks["_id"].unique().implode()).sum()
        logger.info("%s: %d queries do not find the document with their id", job.where, n_same)
    documents, ranked = rank_run(pl.concat(frames, how="vertical_relaxed"))
    assert ranked is not None
    job.write("run", rank_documents(documents, top_k), RUN)
    job.write("chunks", ranked.select(CHUNK_RUN.column_names), CHUNK_RUN)


def search_chunks(
    scores_by: str,
    asked: Vectors,
    vectors: DocumentVectors,
    query_ids: pl.Series,
    chunks: pl.DataFrame,
    *,
    tokens: int,
    documents: int,
    without_identical_ids: bool = False,
    device: str = "cpu",
    block_bytes: int = BLOCK_BYTES,
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
    tokens, documents
        Each query gets the first chunks that have this many tokens and are of this many documents
        (or of all that there are), at least `FEWEST_CHUNKS`, and all that tie with the last one.
    without_identical_ids
        Whether to leave out chunks of the document that has the query's id.

    Returns
    -------
    (n_kept, 7) frame query_id, doc_id, score, start, end, tokens and chunk_id, in no order.
    """
    options = {} if scores_by == "sparse" else {"device": device}
    numbers = pl.Series("number", range(chunks.height), dtype=pl.Int64)
    numbered = chunks.with_columns(numbers, chunk_id=CHUNK_ID)
    known = chunks["doc_id"].unique()
    is_removed = pl.lit(without_identical_ids) & pl.col("query_id").is_in(known.implode())
    needed = pl.min_horizontal(pl.lit(documents), len(known) - is_removed.cast(pl.Int64))
    left, k = np.arange(len(query_ids)), min(max(FEWEST_CHUNKS, documents), chunks.height)
    frames = [NO_CHUNKS]
    while len(left):
        ids = query_ids.gather(left)
        best = search_by_kind(
            scores_by, asked.take(left), vectors, k=k, block_bytes=block_bytes, **options
        )
        found = best.frame(ids, numbers).rename({"doc_id": "number"})
        found = found.join(numbered, on="number", maintain_order="left")
        if without_identical_ids:
            found = found.filter(pl.col("query_id") != pl.col("doc_id"))
        deepest = _last_scores(found, tokens=tokens, documents=needed)
        found = found.join(deepest, on="query_id", how="left", maintain_order="left")
        if k == chunks.height:
            done = ids
        else:  # complete if the search went beyond all chunks that tie with the last one
            done = deepest.filter(pl.col("lowest") < pl.col("last"))["query_id"]
        kept = found.filter(
            pl.col("query_id").is_in(done.implode()),
            (pl.col("score") >= pl.col("last")).fill_null(value=True),
        )
        frames.append(kept.select(NO_CHUNKS.columns))
        left, k = left[~ids.is_in(done.implode()).to_numpy()], min(4 * k, chunks.height)
    return pl.concat(frames, how="vertical_relaxed")


def _last_scores(found: pl.DataFrame, *, tokens: int, documents: pl.Expr) -> pl.DataFrame:
    """Return the score of the last needed chunk of each query that has enough chunks.

    ``found`` is ordered by score within a query; ``documents`` is the number that a query needs.
    Returns query_id, ``last``, and the ``lowest`` score found.
    """
    is_new = pl.col("doc_id").is_first_distinct().over("query_id")
    counted = found.with_columns(
        n_chunks=pl.col("query_id").cum_count().over("query_id"),
        n_tokens=pl.col("tokens").cast(pl.Int64).cum_sum().over("query_id"),
        n_documents=is_new.cast(pl.Int64).cum_sum().over("query_id"),
        lowest=pl.col("score").min().over("query_id"),
    )
    enough = counted.filter(
        pl.col("n_chunks") >= FEWEST_CHUNKS,
        pl.col("n_tokens") >= tokens,
        pl.col("n_documents") >= documents,
    )
    return enough.group_by("query_id").agg(
        last=pl.col("score").max(), lowest=pl.col("lowest").first()
    )


NO_CHUNKS = pl.DataFrame(
    schema={
        "query_id": pl.String,
        "doc_id": pl.String,
        "score": pl.Float32,
        "start": pl.Int64,
        "end": pl.Int64,
        "tokens": pl.Int64,
        "chunk_id": pl.String,
    }
)
"""Results of a domain without queries or documents."""
