"""Stage ``fuse``: fuse the runs of several models, and record the visible parts of documents."""

from collections.abc import Sequence

import polars as pl

from psibench.config.models import FusionModel
from psibench.tables.job import Job
from psibench.tables.ranking import positives_of, rank_documents
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, RUN, SEEN
from psibench.tables.stage import stage


@stage("fuse", version=2)
def run_fuse(job: Job) -> None:
    """Fuse runs of one language pair and write the first ``top_k`` documents of each query.

    The output ``seen`` has how far any of the models read into each query's positive, because the
    fused run can rank by the part that only one model saw. If a model ``reads_all`` of a document,
    as BM25 does, that is the whole document.

    Inputs: ``runs`` in the order of ``entry.of``; ``encodings`` of the documents by those models
    that encode them; ``corpora``, ``queries`` and ``judged`` as in
    `psibench.rerankers.rerank.run_rerank`.
    """
    entry, reads_all = job.value("entry", FusionModel), job.value("reads_all", bool)
    pairs, seen = [], []
    for domain in job.domains():
        positives = positives_of(domain.read("queries", QUERIES), domain.read("judged", QUERIES))
        ids = positives["doc_id"].to_list()
        documents = domain.columns("corpora", CORPUS, ("_id", "char_length"), ids=ids)
        end = pl.col("char_length") if reads_all else pl.lit(0)
        seen.append(
            positives.join(documents, left_on="doc_id", right_on="_id").select(
                "query_id", "doc_id", visible_char_end=end
            )
        )
        pairs.append(positives.with_columns(domain=pl.lit(domain.name)))
    if job.has("encodings"):
        seen.append(_encoded_ends(job, pl.concat(pairs)))
    furthest = (
        pl.concat(frame.cast({"visible_char_end": pl.Int32}) for frame in seen)
        .group_by("query_id", "doc_id")
        .agg(pl.col("visible_char_end").max())
        .sort("query_id")
    )
    fused = fuse(job.read_each("runs", RUN), k=entry.k)
    job.write("seen", furthest, SEEN)
    job.write("run", rank_documents(fused, job.value("top_k", int)), RUN)


def _encoded_ends(job: Job, positives: pl.DataFrame) -> pl.DataFrame:
    """Return SEEN rows: how far each encoder read into the positives of each domain."""
    columns = ("role", "domain", "_id", "visible_char_end")
    ids = positives["doc_id"].unique().to_list()
    encoded = job.columns("encodings", ENCODINGS, columns, ids=ids)
    documents = encoded.filter(pl.col("role") == "document").rename({"_id": "doc_id"})
    return positives.join(documents, on=["domain", "doc_id"]).select(
        "query_id", "doc_id", "visible_char_end"
    )


def fuse(runs: Sequence[pl.DataFrame], *, k: int) -> pl.DataFrame:
    """Return (query_id, doc_id, score) of every document in the RUN frames.

    The score is reciprocal rank fusion, the sum of ``1 / (k + rank)`` over the runs with the
    document (Cormack, Clarke and Buettcher, SIGIR 2009).
    """
    gain = (1.0 / (k + pl.col("rank").cast(pl.Float64))).alias("gain")
    gains = [run.select("query_id", "doc_id", gain) for run in runs]
    # Sorted, because equal gains in another order must give the same sum, and so a tie.
    total = pl.col("gain").sort().sum().alias("score")
    return pl.concat(gains).group_by("query_id", "doc_id").agg(total)
