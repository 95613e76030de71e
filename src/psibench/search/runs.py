"""Stage ``search``: a run of one model on all domains of a language pair."""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import Bm25Model, EmbeddingApiModel, EncoderEntry
from psibench.encode.store import fingerprint_of, key_array, open_store
from psibench.models.dtypes import pick_device
from psibench.search.bm25 import search_bm25
from psibench.search.exact import search_vectors
from psibench.search.ranking import DocumentVectors, TopK
from psibench.search.sparse import search_sparse_vectors
from psibench.store.vectors import Vectors
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.columns import read_columns, rows_in
from psibench.tables.derived import derived
from psibench.tables.ranking import (
    NOTHING_FOUND,
    rank_documents,
    removed_text,
    without_identical_ids,
)
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, RUN
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@stage("search_lexical", version=5)
def run_lexical_search(
    entry: Bm25Model,
    *,
    model: str,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    corpus_lang: str,
    top_k: int,
    output: str | Path,
    remove_identical_ids: bool = False,
) -> None:
    """Search every domain with BM25 and write the run.

    With ``remove_identical_ids`` a query's ranking is without the document of the same id, and
    has ``top_k`` others (`without_identical_ids`).
    """
    frames = []
    depth = top_k + remove_identical_ids
    for corpus_path, queries_path in zip(corpora, queries, strict=True):
        documents = read_table(corpus_path, CORPUS).sort("_id", descending=True)
        asked = read_table(queries_path, QUERIES)
        texts, questions = (f.get_column("text").to_list() for f in (documents, asked))
        if texts and questions:
            best = search_bm25(entry, texts, questions, k=depth, language=corpus_lang)
            frames.append(best.frame(asked["_id"], documents["_id"]))
    source = derived(
        "search_lexical",
        [*corpora, *queries],
        params={
            **retrieval_params(entry),
            "top_k": top_k,
            "language": corpus_lang,
            "remove_identical_ids": remove_identical_ids,
        },
        revisions={f"model:{model}": f"bm25s {version('bm25s')}, PyStemmer {version('PyStemmer')}"},
    )
    _write_run(frames, output, source, top_k=top_k, remove_identical_ids=remove_identical_ids)


@stage("search_vectors", version=4)
def run_vector_search(
    entry: EncoderEntry | EmbeddingApiModel,
    *,
    model: str,
    domains: Sequence[str],
    query_encodings: str | Path,
    corpus_encodings: str | Path,
    store: str | Path,
    top_k: int,
    block_mib: int,
    output: str | Path,
    own_queries: Sequence[str | Path] = (),
    own_corpus: Sequence[str | Path] = (),
    device: str = "cpu",
    remove_identical_ids: bool = False,
) -> None:
    """Search every domain with a model's stored vectors and write the run.

    Documents are read once for all domains where their vectors fit half of ``block_mib``; else for
    each domain, block by block, so that memory does not depend on the size of the corpus.

    Parameters
    ----------
    own_queries, own_corpus
        QUERIES and CORPUS tables, domain by domain: only their texts take part. Without any, all
        that the encodings have.
    device
        cpu, cuda, or auto: cuda where there is one.
    remove_identical_ids
        As of `run_lexical_search`.

    Raises
    ------
    InputError
        If an encodings table names no model, or vectors are not in the store.
    """
    asked = rows_in(_side("query", query_encodings, domains), domains, own_queries, QUERIES)
    documents = rows_in(_side("document", corpus_encodings, domains), domains, own_corpus, CORPUS)
    query_store, document_store = (
        open_store(model, store=store, fingerprint=fingerprint_of(path))
        for path in (query_encodings, corpus_encodings)
    )
    block_bytes = block_mib * 1024 * 1024
    questions = query_store.load(asked["key"].to_list())
    keys = key_array(documents["key"].to_list())
    corpus = document_store.documents(keys, block_bytes=block_bytes // 2)
    frames = []
    for domain in domains:
        mine, inside = ((side["domain"] == domain).arg_true() for side in (asked, documents))
        if mine.is_empty() or inside.is_empty():
            continue
        best = _search(
            entry.scores_by,
            questions.take(mine.to_numpy()),
            corpus.take(inside.to_numpy()),
            k=top_k + remove_identical_ids,
            block_bytes=block_bytes,
            device=pick_device(device),
        )
        frames.append(best.frame(asked["_id"].gather(mine), documents["_id"].gather(inside)))
    paths = sorted({str(query_encodings), str(corpus_encodings), *map(str, own_queries)})
    paths += map(str, own_corpus)
    params = {
        **retrieval_params(entry),
        "top_k": top_k,
        "remove_identical_ids": remove_identical_ids,
    }
    source = derived("search_vectors", paths, params=params)
    _write_run(frames, output, source, top_k=top_k, remove_identical_ids=remove_identical_ids)


def _side(role: str, path: str | Path, domains: Sequence[str]) -> pl.DataFrame:
    """Read the keys of a role's texts in the domains, the last id first."""
    frame = read_columns(path, ENCODINGS, ("role", "domain", "_id", "key"))
    rows = frame.filter(pl.col("domain").is_in(domains), role=role)
    return rows.sort("_id", descending=True)


def _search(
    scores_by: str, queries: Vectors, source: DocumentVectors, *, k: int, **options: Any
) -> TopK:
    """Search by what a model's vectors are made for."""
    if scores_by == "sparse":
        del options["device"]  # a product of sparse matrices, on the CPU
        return search_sparse_vectors(queries, source, k=k, **options)
    return search_vectors(queries, source, k=k, mean=scores_by == "mean-maxsim", **options)


def _write_run(
    frames: Sequence[pl.DataFrame],
    output: str | Path,
    source: Provenance,
    *,
    top_k: int,
    remove_identical_ids: bool,
) -> None:
    found = pl.concat([NOTHING_FOUND, *frames], how="vertical_relaxed")
    if remove_identical_ids:
        found, n_removed = without_identical_ids(found)
        logger.info("%s: %s", output, removed_text(n_removed))
    write_table(rank_documents(found, top_k), output, RUN, provenance=source)
