"""Measure a retriever of LangChain, LlamaIndex or Haystack with your splitter, embedder and store.

pip install langchain-core      # or llama-index-core, or haystack-ai
python examples/framework_retrievers.py langchain results/python-docs

For your retriever, pass a function to `langchain_search`, `llamaindex_search` or `haystack_search`
that takes the framework's documents and the number of results, and returns a retriever. The rank is
used as the score: all three return the best result first, but LangChain's scores are similarities
in some stores and distances in others, and its retrievers return no scores. A document that was
split has the rank of its best piece, so the retriever must find more pieces than the number of
documents.

Haystack reports its use to its makers unless HAYSTACK_TELEMETRY_ENABLED is False. LlamaIndex cannot
cut what uv installed with links, since nltk 3.10.3: uv pip install --link-mode copy --reinstall.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import psibench

ID = "psibench_id"  # in the metadata, which every splitter hands on to the pieces

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts to (n_texts, dim) vectors."""

Build = Callable[[list[Any], int], Any]
"""Function from the framework's documents and the number of results to a retriever."""


def langchain_search(build: Build) -> psibench.Search:
    """Ask a `BaseRetriever`; a vector store's is `as_retriever(search_kwargs={"k": k})`."""
    from langchain_core.documents import Document

    return _search(
        build,
        lambda doc_id, text: Document(page_content=text, metadata={ID: doc_id}),
        lambda retriever, query: (hit.metadata for hit in retriever.invoke(query)),
    )


def llamaindex_search(build: Build) -> psibench.Search:
    """Ask a `BaseRetriever`; an index's is `as_retriever(similarity_top_k=k)`."""
    from llama_index.core import Document

    hidden = {"excluded_embed_metadata_keys": [ID], "excluded_llm_metadata_keys": [ID]}
    return _search(
        build,
        lambda doc_id, text: Document(text=text, metadata={ID: doc_id}, **hidden),
        lambda retriever, query: (hit.metadata for hit in retriever.retrieve(query)),
    )


def haystack_search(build: Build) -> psibench.Search:
    """Ask a component that is `run(query=...)` and puts out `documents`."""
    from haystack import Document

    return _search(
        build,
        lambda doc_id, text: Document(content=text, meta={ID: doc_id}),
        lambda retriever, query: (hit.meta for hit in retriever.run(query=query)["documents"]),
    )


def _search(
    build: Build,
    document: Callable[[str, str], Any],
    ask: Callable[[Any, str], Iterable[Mapping[str, Any]]],
) -> psibench.Search:
    """Index the corpus of a call, and rank the documents whose metadata `ask` finds, best first."""

    def search(
        queries: Mapping[str, str], corpus: psibench.Corpus, *, k: int
    ) -> dict[str, dict[str, float]]:
        retriever = build([document(*item) for item in corpus.texts.items()], k)
        found = {}
        for query_id, text in queries.items():
            ids = dict.fromkeys(metadata[ID] for metadata in ask(retriever, text))
            found[query_id] = {doc_id: -float(place) for place, doc_id in enumerate(ids)}
        return found

    return search


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
    """Evaluate and print the PSI table."""
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
    found = psibench.evaluate(search, args.benchmark, model=args.framework, buckets=["thirds"])
    print(found.psi.select("corpus_lang", "metric", "mean", "psi", "psi_same", "p_position"))


if __name__ == "__main__":
    main()
