"""Stage ``search``: a run of one model on all domains of a language pair."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.models import Bm25Model, EncoderModel, SentenceTransformerModel
from psibench.errors import InputError
from psibench.models.bm25 import search_bm25
from psibench.models.load import retrieval_params
from psibench.search.exact import search_vectors
from psibench.search.late import search_token_vectors
from psibench.search.ranking import rank_documents
from psibench.search.topk import TopK
from psibench.stages.encode import open_store
from psibench.stages.tables import derived
from psibench.store.embeddings import EmbeddingStore, Vectors
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, RUN


def run_lexical_search(
    entry: Bm25Model,
    *,
    model: str,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    language: str,
    top_k: int,
    output: str | Path,
) -> None:
    """Search every domain with BM25 and write the run; ``language`` is the documents'."""
    frames = []
    for corpus_path, queries_path in zip(corpora, queries, strict=True):
        documents = read_table(corpus_path, CORPUS).sort("_id")
        asked = read_table(queries_path, QUERIES)
        texts, questions = (f.get_column("text").to_list() for f in (documents, asked))
        best = search_bm25(entry, texts, questions, k=top_k, language=language)
        frames.append(_scores(best, asked.get_column("_id"), documents.get_column("_id")))
    source = derived(
        "search",
        [*corpora, *queries],
        params={**retrieval_params(entry), "top_k": top_k, "language": language},
        revisions={f"model:{model}": f"bm25s {version('bm25s')}, PyStemmer {version('PyStemmer')}"},
    )
    _write_run(frames, output, source)


def run_vector_search(
    entry: EncoderModel,
    *,
    model: str,
    domains: Sequence[str],
    query_encodings: str | Path,
    corpus_encodings: str | Path,
    store: str | Path,
    top_k: int,
    block_mib: int,
    output: str | Path,
) -> None:
    """Search every domain with a model's stored vectors and write the run."""
    sides = []
    for role, path in (("query", query_encodings), ("document", corpus_encodings)):
        fingerprint = fingerprint_of(path)
        frame = read_table(path, ENCODINGS).filter(pl.col("role") == role)
        sides.append((frame, open_store(model, store=store, fingerprint=fingerprint)))
    (asked, query_store), (documents, document_store) = sides
    late = isinstance(entry, SentenceTransformerModel) and entry.scoring == "maxsim"
    search = _search_late if late else _search_dense
    frames = []
    for domain in domains:
        queries = asked.filter(pl.col("domain") == domain)
        corpus = documents.filter(pl.col("domain") == domain).sort("_id")
        best = search(
            query_store.load(queries.get_column("key").to_list()),
            corpus,
            document_store,
            top_k,
            block_mib * 1024 * 1024,
        )
        frames.append(_scores(best, queries.get_column("_id"), corpus.get_column("_id")))
    paths = sorted({str(query_encodings), str(corpus_encodings)})
    params = {**retrieval_params(entry), "top_k": top_k}
    _write_run(frames, output, derived("search", paths, params=params))


def fingerprint_of(encodings: str | Path) -> str:
    """Return the fingerprint of the model whose vectors an encodings table points to."""
    params = (read_provenance(encodings) or {}).get("params", {})
    if "fingerprint" not in params:
        raise InputError(
            f"{encodings}: its metadata names no model fingerprint, so its vectors cannot be "
            "found; make it again with the stage encode"
        )
    return str(params["fingerprint"])


def _search_dense(
    queries: Vectors, corpus: pl.DataFrame, store: EmbeddingStore, k: int, block_bytes: int
) -> TopK:
    documents = store.load(corpus.get_column("key").to_list())
    return search_vectors(
        queries.values, documents.values, documents.offsets, k=k, block_bytes=block_bytes
    )


def _search_late(
    queries: Vectors, corpus: pl.DataFrame, store: EmbeddingStore, k: int, block_bytes: int
) -> TopK:
    keys = corpus.get_column("key").to_list()

    def load(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        block = store.load(keys[first:last])
        return block.values, block.offsets

    return search_token_vectors(
        queries.values,
        queries.offsets,
        corpus.get_column("n_tokens").to_numpy(),
        load,
        k=k,
        block_bytes=block_bytes,
    )


def _scores(best: TopK, query_ids: pl.Series, document_ids: pl.Series) -> pl.DataFrame:
    """Flatten the best documents into (query_id, doc_id, score) rows."""
    rows, places = np.nonzero(best.documents >= 0)
    return pl.DataFrame(
        {
            "query_id": query_ids.gather(rows),
            "doc_id": document_ids.gather(best.documents[rows, places]),
            "score": best.scores[rows, places],
        }
    )


def _write_run(frames: Sequence[pl.DataFrame], output: str | Path, source: Provenance) -> None:
    write_table(rank_documents(pl.concat(frames)), output, RUN, provenance=source)
