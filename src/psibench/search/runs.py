"""Stages ``search_lexical`` and ``search_vectors``: a model's run for a language pair."""

import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import polars as pl

from psibench.config.models import Bm25Model, EmbeddingApiModel, EncoderEntry
from psibench.encode.rows import own_rows
from psibench.encode.store import fingerprint_of, key_array, open_store
from psibench.models.dtypes import pick_device
from psibench.search.bm25 import search_bm25
from psibench.search.exact import search_vectors
from psibench.search.ranking import DocumentVectors, TopK
from psibench.search.sparse import search_sparse_vectors
from psibench.store.vectors import Vectors
from psibench.tables.job import Job
from psibench.tables.ranking import (
    NOTHING_FOUND,
    rank_documents,
    removed_text,
    without_identical_ids,
)
from psibench.tables.schemas import CORPUS, QUERIES, RUN
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@stage("search_lexical", version=5)
def run_lexical_search(job: Job) -> None:
    """Search every domain with BM25 and write the run.

    Inputs: ``corpora`` and ``queries``. With ``remove_identical_ids``, a query's ranking excludes
    the document of the same id, and has ``top_k`` others (`without_identical_ids`).
    """
    entry, language = job.value("entry", Bm25Model), job.value("corpus_lang", str)
    frames = []
    for domain in job.domains():
        documents = domain.read("corpora", CORPUS).sort("_id", descending=True)
        queries = domain.read("queries", QUERIES)
        texts, questions = (f.get_column("text").to_list() for f in (documents, queries))
        if texts and questions:
            best = search_bm25(entry, texts, questions, k=_depth(job), language=language)
            frames.append(best.frame(queries["_id"], documents["_id"]))
    made_by = f"bm25s {version('bm25s')}, PyStemmer {version('PyStemmer')}"
    _write_run(job, frames, revisions={f"model:{job.value('model')}": made_by})


@stage("search_vectors", version=4)
def run_vector_search(job: Job) -> None:
    """Search every domain with a model's stored vectors and write the run.

    Inputs: ``query_encodings`` and ``corpus_encodings``; if they have more texts than the
    benchmark, also ``own_queries`` and ``own_corpus``, which select its texts. The ``device`` is
    cpu, cuda, or auto: cuda if available. ``remove_identical_ids`` as in `run_lexical_search`.

    If the documents' vectors fit into half of ``block_mib``, they are read once for all domains.
    Otherwise they are read for each domain, block by block, so that memory does not depend on the
    size of the corpus.

    Raises
    ------
    InputError
        If an encodings table does not name its model, or vectors are not in the store.
    """
    entry = job.value("entry", EncoderEntry | EmbeddingApiModel)
    queries = own_rows(job, "query_encodings", "query", own="own_queries", spec=QUERIES)
    documents = own_rows(job, "corpus_encodings", "document", own="own_corpus", spec=CORPUS)
    queries, documents = (side.sort("_id", descending=True) for side in (queries, documents))
    frames = []
    for rows, inside, questions, corpus, options in stored_domains(job, queries, documents):
        best = search_by_kind(entry.scores_by, questions, corpus, k=_depth(job), **options)
        frames.append(best.frame(queries["_id"].gather(rows), documents["_id"].gather(inside)))
    _write_run(job, frames)


def stored_domains(
    job: Job, queries: pl.DataFrame, documents: pl.DataFrame
) -> Iterator[tuple[pl.Series, pl.Series, Vectors, DocumentVectors, dict[str, Any]]]:
    """Yield the stored vectors of each domain that has queries and documents, or chunks of them.

    Parameters
    ----------
    queries, documents : frames with domain and key, from the inputs ``query_encodings`` and
        ``corpus_encodings`` (`own_rows`).

    Yields
    ------
    Row numbers of the domain's queries and documents, their vectors, and options of the search.
    """
    query_store, document_store = (
        open_store(
            job.value("model"),
            store=job.value("store"),
            fingerprint=fingerprint_of(job.paths(encodings)),
        )
        for encodings in ("query_encodings", "corpus_encodings")
    )
    block_bytes = job.value("block_mib", int) * 1024 * 1024
    options = {
        "block_bytes": block_bytes,
        "device": pick_device(job.value("device", default="cpu")),
    }
    questions = query_store.load(queries["key"].to_list())
    keys = key_array(documents["key"].to_list())
    corpus = document_store.documents(keys, block_bytes=block_bytes // 2)
    for domain in job.domain_names:
        rows, inside = ((side["domain"] == domain).arg_true() for side in (queries, documents))
        if not (rows.is_empty() or inside.is_empty()):
            some = questions.take(rows.to_numpy()), corpus.take(inside.to_numpy())
            yield rows, inside, *some, options


def _depth(job: Job) -> int:
    """Return how many documents to search: one more than ``top_k`` if one may be removed."""
    return int(job.value("top_k", int)) + bool(job.value("remove_identical_ids", default=False))


def search_by_kind(
    scores_by: str, queries: Vectors, source: DocumentVectors, *, k: int, **options: Any
) -> TopK:
    """Search by the kind of a model's vectors."""
    if scores_by == "sparse":
        del options["device"]  # sparse matrices are multiplied on the CPU
        return search_sparse_vectors(queries, source, k=k, **options)
    return search_vectors(queries, source, k=k, mean=scores_by == "mean-maxsim", **options)


def _write_run(job: Job, frames: Sequence[pl.DataFrame], **record: Any) -> None:
    retrieved = pl.concat([NOTHING_FOUND, *frames], how="vertical_relaxed")
    if job.value("remove_identical_ids", default=False):
        retrieved, n_removed = without_identical_ids(retrieved)
        logger.info("%s: %s", job.where, removed_text(n_removed))
    job.write("run", rank_documents(retrieved, job.value("top_k", int)), RUN, **record)
