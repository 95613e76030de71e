"""The best documents of each query, and their order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from psibench.store.vectors import Vectors


class DocumentVectors(Protocol):
    """The vectors of a corpus, whose documents are numbered as in `TopK`."""

    @property
    def n_documents(self) -> int:
        """Number of documents in the corpus."""

    @property
    def is_single(self) -> bool:
        """Whether each document has one vector."""

    def blocks(self, block_bytes: int) -> Iterator[tuple[np.ndarray, Vectors]]:
        """Yield blocks of documents, (n,) int64 numbers and their vectors; each document once.

        The order of documents is arbitrary.

        Parameters
        ----------
        block_bytes
            Memory of the vectors of one block; a document that needs more is a block by itself.
        """


@dataclass
class TopK:
    """The best documents of each query, best first.

    Documents are numbered by descending id, so that among equal scores the smaller number wins, as
    in `rank_documents`.

    Attributes
    ----------
    scores, documents
        (n_queries, n_kept) float32 and int64; unused cells are -inf and -1.
    """

    scores: np.ndarray
    documents: np.ndarray

    def frame(self, query_ids: pl.Series, document_ids: pl.Series) -> pl.DataFrame:
        """Return query_id, doc_id and score, a row per retrieved document."""
        queries, columns = np.nonzero(self.documents >= 0)
        return pl.DataFrame(
            {
                "query_id": query_ids.gather(queries),
                "doc_id": document_ids.gather(self.documents[queries, columns]),
                "score": self.scores[queries, columns],
            }
        )


class BestDocuments:
    """The ``k`` best documents of each query so far, in the order of `TopK`, block by block.

    A document and its score are encoded in one number, smaller for better documents (`rank_keys`),
    because that sorts several times as fast as two columns.
    """

    def __init__(self, k: int, n_queries: int, n_documents: int) -> None:
        self.k, self.n_documents = min(k, n_documents), n_documents
        unused = np.full((n_queries, self.k), -np.inf, np.float32)
        self._keys = rank_keys(unused, np.zeros(self.k, np.int64))

    def scores(self, rows: slice) -> np.ndarray:
        """Return the scores of some queries, (n_rows, k) float32, in any order; -inf if unused."""
        return _scores_of(self._keys[rows])

    def merge(self, rows: slice, scores: np.ndarray, documents: np.ndarray) -> None:
        """Merge documents, each once, into the best of some queries.

        Parameters
        ----------
        scores
            (n_rows, n) float32; -inf for documents to ignore.
        documents
            (n_rows, n) or (n,) int64.
        """
        keys = np.concatenate([self._keys[rows], rank_keys(scores, documents)], axis=1)
        keys.partition(self.k - 1)
        self._keys[rows] = keys[:, : self.k]

    def top_k(self) -> TopK:
        """Return the best documents, ranked."""
        keys = np.sort(self._keys)
        scores = _scores_of(keys)
        return TopK(scores, np.where(np.isneginf(scores), -1, keys & 0xFFFFFFFF))


def rank_keys(scores: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Return int64 keys in ranking order: score (float32) descending, document (32 bits) ascending.

    Positive floats have the order of their bits, negative floats the reverse order.
    """
    keys = (~_turned((scores + np.float32(0)).view(np.int32))).astype(np.int64)  # no -0.0
    keys <<= 32
    keys |= documents
    return keys


def _scores_of(keys: np.ndarray) -> np.ndarray:
    return _turned(~(keys >> 32).astype(np.int32)).view(np.float32)


def _turned(bits: np.ndarray) -> np.ndarray:
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
