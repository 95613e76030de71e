"""Retrievers of LangChain, LlamaIndex and Haystack as functions for `psibench.evaluate`.

Each takes a function that makes your retriever from the framework's documents and the number of
results. The rank is used as the score: all three return the best result first, but LangChain's
scores are similarities in some stores and distances in others, and its retrievers return no scores.
A document that was split has the rank of its best piece, so the retriever must find more pieces
than the number of documents.

Haystack reports its use to its makers unless HAYSTACK_TELEMETRY_ENABLED is False. LlamaIndex cannot
cut what uv installed with links, since nltk 3.10.3: uv pip install --link-mode copy --reinstall.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from psibench.publish.retriever import Chunk, Corpus, Results, Search

ID = "psibench_id"
"""Key of the document's id in the metadata, which every splitter hands on to the pieces."""
Build = Callable[[list[Any], int], Any]
"""Function from the framework's documents and the number of results to a retriever."""


def langchain_search(build: Build) -> Search:
    """Return a `Search` with LangChain's `BaseRetriever`, from the package langchain-core.

    A vector store's retriever is `as_retriever(search_kwargs={"k": k})`.
    """
    from langchain_core.documents import Document

    return _search(
        build,
        lambda doc_id, text: Document(page_content=text, metadata={ID: doc_id}),
        lambda retriever, query: (hit.metadata for hit in retriever.invoke(query)),
    )


def llamaindex_search(build: Build) -> Search:
    """Return a `Search` with LlamaIndex's `BaseRetriever`, from the package llama-index-core.

    An index's retriever is `as_retriever(similarity_top_k=k)`.
    """
    from llama_index.core import Document

    hidden = {"excluded_embed_metadata_keys": [ID], "excluded_llm_metadata_keys": [ID]}
    return _search(
        build,
        lambda doc_id, text: Document(text=text, metadata={ID: doc_id}, **hidden),
        lambda retriever, query: (hit.metadata for hit in retriever.retrieve(query)),
    )


def haystack_search(build: Build) -> Search:
    """Return a `Search` with a component of Haystack, from the package haystack-ai.

    It is called as `run(query=...)` and returns `documents`.
    """
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
) -> Search:
    """Index the corpus of a call, and rank the documents whose metadata `ask` finds, best first."""

    def search(queries: Mapping[str, str], corpus: Corpus, /, *, k: int) -> Results:
        retriever = build([document(*item) for item in corpus.texts.items()], k)
        found: dict[str, dict[str | Chunk, float]] = {}
        for query_id, text in queries.items():
            ids = dict.fromkeys(metadata[ID] for metadata in ask(retriever, text))
            found[query_id] = {doc_id: -float(place) for place, doc_id in enumerate(ids)}
        return found

    return search
