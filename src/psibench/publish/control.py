"""The built-in position-blind control: search a corpus with the mean of static word embeddings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from psibench.config.models import StaticModel
from psibench.config.registry import load_registry
from psibench.models.protocols import Role

BUILTIN = "builtin"
CONTROL_MODEL = "minilm-static"
"""Entry of the registry: the mean of the word embeddings of all-MiniLM-L6-v2, which ships with
psibench-ir[models]. It reads whole texts, and the order of their words has no effect."""
TEXTS_AT_ONCE = 1024


def search_blind(queries: pl.DataFrame, documents: pl.DataFrame, *, k: int) -> pl.DataFrame:
    """Search documents with the built-in control, like the model `CONTROL_MODEL` of a run.

    Parameters
    ----------
    queries, documents
        Columns ``_id`` and ``text``; texts are not null, ids of documents are unique.
    k
        Documents per query; fewer if the corpus is smaller.

    Returns
    -------
    Frame of query_id, doc_id and score (float32), the best document first.
    """
    from psibench.models.load import load_encoder
    from psibench.search.exact import search_vectors

    entry = load_registry()[CONTROL_MODEL]
    assert isinstance(entry, StaticModel)
    encoder = load_encoder(entry, device="cpu")

    def encode(texts: pl.Series, role: Role) -> np.ndarray:
        vectors = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            items = encoder.tokenize(texts[start : start + TEXTS_AT_ONCE].to_list(), role)
            windows = [item.windows[0] for item in items]
            vectors += encoder.forward(windows, [item.content[0] for item in items])
        return np.concatenate(vectors)

    documents = documents.sort("_id", descending=True)  # the order of `TopK`
    top = search_vectors(
        encode(queries["text"], "query"), encode(documents["text"], "document"), k=k
    )
    return top.frame(queries["_id"], documents["_id"])


def builtin_search(
    queries: Mapping[str, str], corpus: Any, /, *, k: int
) -> dict[str, dict[Any, float]]:
    """Search a corpus with the built-in control, as a `psibench.Search`."""
    texts = [
        pl.DataFrame({"_id": [*some], "text": [*some.values()]}) for some in (queries, corpus.texts)
    ]
    found: dict[str, dict[Any, float]] = {query_id: {} for query_id in queries}
    for query_id, doc_id, score in search_blind(*texts, k=k).iter_rows():
        found[query_id][doc_id] = score
    return found


def searched_text(n_documents: int, where: str, *, n_domains: int = 1) -> str:
    """Return a sentence on the documents that the built-in control searched."""
    parts = f" in {n_domains} domains, each query only its domain" if n_domains > 1 else ""
    return (
        f"The control is {CONTROL_MODEL}, the mean of static word embeddings, which ignores "
        f"position. It searched {n_documents:,} documents of {where}{parts}."
    )
