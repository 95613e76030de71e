"""Measure the position sensitivity of a running Qdrant server with its index.

pip install qdrant-client
python examples/qdrant_retriever.py results/python-docs --url http://localhost:6333 \
        --checkpoint sentence-transformers/all-MiniLM-L6-v2
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

import psibench

BATCH = 64

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to (n_texts, dim) vectors."""


class QdrantRetriever:
    """Searches a collection for each language and domain, which it fills.

    A collection of as many points as there are texts is taken as filled: remove it when texts or
    the encoder change and their number does not.
    """

    def __init__(self, client: QdrantClient, encode: Encode, *, exact: bool = False) -> None:
        self.client, self.encode, self.exact = client, encode, exact

    def __call__(
        self, queries: Mapping[str, str], corpus: psibench.Corpus, *, k: int
    ) -> dict[str, dict[str, float]]:
        """Rank documents for each query by the server's own score."""
        name = f"{corpus.benchmark}-{corpus.language}-{corpus.domain}"
        if not self._is_filled(name, len(corpus.texts)):
            self._fill(name, corpus.texts)
        found = {}
        for batch in batches(queries.items()):
            answers = self.client.query_batch_points(
                name,
                [
                    models.QueryRequest(
                        query=vector.tolist(),
                        limit=k,
                        with_payload=True,
                        params=models.SearchParams(exact=self.exact),
                    )
                    for vector in self.encode([text for _, text in batch])
                ],
            )
            for (query_id, _), answer in zip(batch, answers, strict=True):
                found[query_id] = {p.payload["doc_id"]: p.score for p in answer.points}
        return found

    def _is_filled(self, name: str, n_texts: int) -> bool:
        """Say whether all is there: a fill that was cut short, or of other texts, is not."""
        if not self.client.collection_exists(name):
            return False
        return self.client.count(name, exact=True).count == n_texts

    def _fill(self, name: str, texts: Mapping[str, str]) -> None:
        """Store every document; Qdrant's own ids are numbers, so ours go into the payload."""
        self.client.delete_collection(name)
        dim = self.encode([""]).shape[1]
        vectors = models.VectorParams(size=dim, distance=models.Distance.COSINE)
        self.client.create_collection(name, vectors_config=vectors)
        for batch in batches(enumerate(texts.items())):
            rows = self.encode([text for _, (_, text) in batch])
            self.client.upsert(
                name,
                [
                    models.PointStruct(id=n, vector=row.tolist(), payload={"doc_id": doc_id})
                    for (n, (doc_id, _)), row in zip(batch, rows, strict=True)
                ],
                wait=True,
            )


def batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Cut into lists of at most `BATCH`."""
    left = iter(items)
    while batch := list(islice(left, BATCH)):
        yield batch


def main() -> None:
    """Evaluate and print the PSI table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("--url", default="http://localhost:6333")
    parser.add_argument("--checkpoint", default="sentence-transformers/all-MiniLM-L6-v2")
    args = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(args.checkpoint)
    retriever = QdrantRetriever(QdrantClient(args.url), lambda texts: model.encode(list(texts)))
    found = psibench.evaluate(retriever, args.benchmark, model="qdrant", buckets=["thirds"])
    print(found.psi.select("corpus_lang", "metric", "mean", "psi", "psi_same", "p_position"))


if __name__ == "__main__":
    main()
