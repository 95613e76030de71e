"""Stage ``fuse``: the runs of several models as one, and what these read of the documents."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import FusionModel
from psibench.tables import read_table, write_table
from psibench.tables.columns import read_columns
from psibench.tables.derived import derived
from psibench.tables.ranking import positives_of, rank_documents
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, RUN, SEEN
from psibench.tables.stage import stage


@stage("fuse", version=2)
def run_fuse(
    entry: FusionModel,
    *,
    domains: Sequence[str],
    runs: Sequence[str | Path],
    encodings: Sequence[str | Path],
    reads_all: bool,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    judged: Sequence[str | Path],
    top_k: int,
    run: str | Path,
    seen: str | Path,
) -> None:
    """Fuse runs of one language pair and write the first ``top_k`` documents of each query.

    Beside the run it is written how far into each query's positive any of the models read: the
    fused run can rank by what one of them saw alone. All of it where one reads everything.

    Parameters
    ----------
    runs
        RUN of all domains, in the order of ``entry.of``.
    encodings
        ENCODINGS of the documents, of those of the models that encode them.
    reads_all
        Whether one of the models reads whole documents, as BM25 does.
    corpora, queries, judged
        As of `psibench.rerankers.rerank.run_rerank`.
    """
    fused = fuse([read_table(path, RUN) for path in runs], k=entry.k)
    pairs = [
        positives_of(read_table(asked, QUERIES), read_table(known, QUERIES))
        for asked, known in zip(queries, judged, strict=True)
    ]
    ends = [
        frame.join(
            read_columns(corpus, CORPUS, ("_id", "char_length"), ids=frame["doc_id"].to_list()),
            left_on="doc_id",
            right_on="_id",
        ).select("query_id", "doc_id", visible_char_end="char_length" if reads_all else pl.lit(0))
        for frame, corpus in zip(pairs, corpora, strict=True)
    ]
    ends += [_encoded_ends(path, domains, pairs) for path in encodings]
    furthest = (
        pl.concat(frame.cast({"visible_char_end": pl.Int32}) for frame in ends)
        .group_by("query_id", "doc_id")
        .agg(pl.col("visible_char_end").max())
        .sort("query_id")
    )
    known = [path for path in judged if path not in queries]
    params = retrieval_params(entry) | {"top_k": top_k}
    origin = derived("fuse", [*runs, *encodings, *corpora, *queries, *known], params=params)
    write_table(furthest, seen, SEEN, provenance=origin)
    write_table(rank_documents(fused, top_k), run, RUN, provenance=origin)


def _encoded_ends(
    encodings: str | Path, domains: Sequence[str], pairs: Sequence[pl.DataFrame]
) -> pl.DataFrame:
    """Return how far an encoder read into the positives of each domain: SEEN rows."""
    asked = pl.concat(
        frame.with_columns(domain=pl.lit(domain))
        for domain, frame in zip(domains, pairs, strict=True)
    )
    columns = ("role", "domain", "_id", "visible_char_end")
    found = read_columns(encodings, ENCODINGS, columns, ids=asked["doc_id"].unique().to_list())
    documents = found.filter(pl.col("role") == "document").rename({"_id": "doc_id"})
    return asked.join(documents, on=["domain", "doc_id"]).select(
        "query_id", "doc_id", "visible_char_end"
    )


def fuse(runs: Sequence[pl.DataFrame], *, k: int) -> pl.DataFrame:
    """Return (query_id, doc_id, score) of every document that one of the RUN frames has.

    The score is reciprocal rank fusion, the sum of ``1 / (k + rank)`` over the runs that have it
    (Cormack, Clarke and Buettcher, SIGIR 2009).
    """
    gain = (1.0 / (k + pl.col("rank").cast(pl.Float64))).alias("part")
    parts = [run.select("query_id", "doc_id", gain) for run in runs]
    # Sorted, so that equal parts in another order give the same sum, and so a tie.
    total = pl.col("part").sort().sum().alias("score")
    return pl.concat(parts).group_by("query_id", "doc_id").agg(total)
