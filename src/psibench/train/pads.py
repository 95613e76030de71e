"""Position-aware data sampling (PADS): pairs of windows of documents (Needles, section 5).

Of a share of the documents, two random windows of consecutive tokens are a positive pair, and a
window and one of another document a negative pair. A window has half of the document's tokens and
starts anywhere up to where it still fits, so that no end of a document is privileged. The pairs are
made once, and seen in every epoch.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from psibench.errors import InputError
from psibench.filters.mixtures import draw_order
from psibench.train.sections import Pads


def pads_pairs(
    pool: pl.DataFrame, settings: Pads, tokenizer: Any, *, seed: int, sampling_seed: int
) -> pl.DataFrame:
    """Make the positive and the negative pair of each document drawn.

    ``pool`` has ``domain``, ``doc_id`` and ``document``, a row or more of each document;
    ``tokenizer`` is a fast tokenizer of transformers. ``seed`` decides the windows and whose window
    is the negative, ``sampling_seed`` the draw of documents, of all or of each domain: by hash, so
    that a smaller draw is part of a larger one.

    Returns ``first`` and ``second``, the windows as they are in the text, and ``label``: 1 for two
    of one document, 0 otherwise; the rows of a document follow one another.

    Raises
    ------
    InputError
        If fewer than two documents are drawn, a domain has fewer than it is to give, or a document
        has fewer than two tokens.
    """
    documents = pool.unique(["domain", "doc_id"], maintain_order=True)
    keys = documents.select(pl.concat_str("domain", "doc_id", separator="\0")).to_series()
    places = draw_order(keys, sampling_seed)
    documents = documents.with_columns(place=places).sort("place")
    if settings.per_domain is None:
        drawn = documents.head(ceil(settings.share * documents.height))
    else:
        _refuse_too_few(documents["domain"], settings.per_domain)
        wanted = pl.col("domain").replace_strict(settings.per_domain, default=0)
        drawn = documents.filter(pl.int_range(pl.len()).over("domain") < wanted)
    texts = drawn.get_column("document").to_list()
    if len(texts) < 2:
        raise InputError(
            f"PADS: {len(texts)} of {documents.height} documents drawn, and a negative pair needs "
            "two; raise `pads.share`, or take a larger pool"
        )
    generator = np.random.default_rng(seed)
    offsets = [_token_offsets(tokenizer, text) for text in texts]

    def window(number: int) -> str:
        tokens = offsets[number]
        n_tokens = max(1, int(len(tokens) * settings.window))
        start = int(generator.integers(len(tokens) - n_tokens + 1))
        return texts[number][tokens[start][0] : tokens[start + n_tokens - 1][1]]

    rows = []
    for number in range(len(texts)):
        other = (number + 1 + int(generator.integers(len(texts) - 1))) % len(texts)
        rows.append((window(number), window(number), 1))
        rows.append((window(number), window(other), 0))
    return pl.DataFrame(rows, schema=["first", "second", "label"], orient="row")


def _refuse_too_few(domains: pl.Series, wanted: Mapping[str, int]) -> None:
    """Raise InputError if domains of the pool, one per document, have fewer than wanted."""
    counts = dict(domains.value_counts().iter_rows())
    for name, n in wanted.items():
        if counts.get(name, 0) < n:
            found = ", ".join(f"{domain} {count:,}" for domain, count in sorted(counts.items()))
            raise InputError(
                f"pads.per_domain.{name}: {n:,} documents wanted, and the pool has "
                f"{counts.get(name, 0):,} (documents by domain: {found}). Lower it, or take a "
                "larger pool"
            )


def _token_offsets(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Return where each token of a text is, characters; of the whole text, whatever its length."""
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
    )
    found = [(start, end) for start, end in encoded["offset_mapping"] if end > start]
    if len(found) < 2:
        raise InputError(f"PADS: document {text[:40]!r} has {len(found)} tokens, and needs two")
    return found
