"""Measure what an OpenSearch server retrieves (Elasticsearch's client has the same calls).

pip install opensearch-py
python examples/opensearch_retriever.py results/python-docs --url http://localhost:9200
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from opensearchpy import OpenSearch, helpers

import psibench

BATCH = 64


class OpenSearchRetriever:
    """Searches an index for each language and domain, which it fills.

    An index of as many documents as there are texts is taken as filled: remove it when texts or
    the mapping change and their number does not.
    """

    def __init__(self, client: OpenSearch, mapping: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self.mapping = mapping or {"properties": {"text": {"type": "text"}}}

    def __call__(
        self, queries: Mapping[str, str], corpus: psibench.Corpus, *, k: int
    ) -> dict[str, dict[str, float]]:
        """Rank documents for each query by the server's own score, BM25 by default."""
        index = f"{corpus.benchmark}-{corpus.language}-{corpus.domain}".lower()
        if not self._is_filled(index, len(corpus.texts)):
            self._fill(index, corpus.texts)
        found = {}
        for batch in batches(queries.items()):
            body: list[dict[str, Any]] = []
            for _, text in batch:
                body += [{"index": index}, {"query": self.query(text), "size": k, "_source": False}]
            answers = self.client.msearch(body=body)["responses"]
            for (query_id, _), answer in zip(batch, answers, strict=True):
                if "error" in answer:
                    raise RuntimeError(f"query {query_id!r}: {answer['error']}")
                found[query_id] = {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
        return found

    def _is_filled(self, index: str, n_texts: int) -> bool:
        """Say whether all is there: a fill that was cut short, or of other texts, is not."""
        if not self.client.indices.exists(index=index):
            return False
        self.client.indices.refresh(index=index)
        return bool(self.client.count(index=index)["count"] == n_texts)

    def _fill(self, index: str, texts: Mapping[str, str]) -> None:
        if self.client.indices.exists(index=index):
            self.client.indices.delete(index=index)
        self.client.indices.create(index=index, body={"mappings": dict(self.mapping)})
        rows = ({"_index": index, "_id": i, "text": t} for i, t in texts.items())
        helpers.bulk(self.client, rows)
        self.client.indices.refresh(index=index)

    def query(self, text: str) -> dict[str, Any]:
        """Return the query that the server gets; put your hybrid or neural query here."""
        return {"match": {"text": text}}


def batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Cut into lists of at most `BATCH`."""
    left = iter(items)
    while batch := list(islice(left, BATCH)):
        yield batch


def main() -> None:
    """Evaluate and print the PSI table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("--url", default="http://localhost:9200")
    args = parser.parse_args()
    retriever = OpenSearchRetriever(OpenSearch(args.url))
    found = psibench.evaluate(retriever, args.benchmark, model="opensearch", buckets=["thirds"])
    print(found.psi.select("corpus_lang", "metric", "mean", "psi", "psi_same", "p_position"))


if __name__ == "__main__":
    main()
