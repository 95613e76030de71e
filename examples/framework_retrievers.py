"""Measure a retriever of LangChain, LlamaIndex or Haystack with your splitter, embedder and store.

pip install langchain-core      # or llama-index-core, or haystack-ai
python examples/framework_retrievers.py langchain results/python-docs

For your retriever, pass a function to `langchain_search`, `llamaindex_search` or `haystack_search`
that takes the framework's documents and the number of results, and returns a retriever: see
`psibench.publish.frameworks`.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import psibench
from psibench.publish.frameworks import Build, haystack_search, langchain_search, llamaindex_search

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to (n_texts, dim) vectors."""


def langchain_vectors(encode: Encode) -> Build:
    """Cosine over whole documents, in memory."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Encoded(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return encode(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return encode([text])[0].tolist()

    def build(documents: list[Any], k: int) -> Any:
        store = InMemoryVectorStore(Encoded())
        store.add_documents(documents)
        return store.as_retriever(search_kwargs={"k": k})

    return build


def llamaindex_vectors(encode: Encode) -> Build:
    """Cosine over pieces of 1,024 tokens, LlamaIndex's own default, in memory."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding

    class Encoded(BaseEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return encode(texts).tolist()

        def _get_text_embedding(self, text: str) -> list[float]:
            return encode([text])[0].tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    def build(documents: list[Any], k: int) -> Any:
        index = VectorStoreIndex.from_documents(documents, embed_model=Encoded())
        return index.as_retriever(similarity_top_k=k)

    return build


def haystack_bm25(documents: list[Any], k: int, **store_options: Any) -> Any:
    """BM25 over whole documents, in memory."""
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(**store_options)
    store.write_documents(documents)
    return InMemoryBM25Retriever(store, top_k=k)


def main() -> None:
    """Evaluate and print the PSI table with verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=["langchain", "llamaindex", "haystack"])
    parser.add_argument("benchmark")
    parser.add_argument("--checkpoint", default="sentence-transformers/all-MiniLM-L6-v2")
    args = parser.parse_args()
    if args.framework == "haystack":
        search = haystack_search(haystack_bm25)
    else:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(args.checkpoint)

        def encode(texts: Sequence[str]) -> np.ndarray:
            return model.encode(list(texts))

        if args.framework == "langchain":
            search = langchain_search(langchain_vectors(encode))
        else:
            search = llamaindex_search(llamaindex_vectors(encode))
    found = psibench.evaluate(
        search, args.benchmark, model=args.framework, control="builtin", buckets=["thirds"]
    )
    print(found)


if __name__ == "__main__":
    main()
