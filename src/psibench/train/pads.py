"""Position-aware data sampling (PADS): pairs of windows of documents (Needles, section 5).

For each sampled document, two random windows of consecutive tokens form a positive pair, and a
window with a window of another document a negative pair. A window has half of the document's tokens
and a uniformly random start. The pairs are drawn once and used in every epoch.
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
    """Make a positive and a negative pair for each document drawn.

    ``pool`` has ``domain``, ``doc_id`` and ``document``, one or more rows per document;
    ``tokenizer`` is a fast tokenizer of transformers. ``sampling_seed`` draws the documents by
    hash (overall or per domain), so a smaller draw is a subset of a larger one. ``seed`` decides
    the windows and the documents of the negatives.

    Returns ``first`` and ``second``, the windows' texts, and ``label``: 1 for two windows of one
    document, else 0. The two rows of a document are adjacent.

    Raises
    ------
    InputError
        If fewer than two documents are drawn, a domain has fewer documents than `per_domain`, or a
        document has fewer than two tokens.
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
            f"PADS: {len(texts)} of {documents.height} documents drawn, but a negative pair needs "
            "two; raise `pads.share` or use a larger pool"
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
    """Raise InputError if a domain has fewer documents than ``wanted``; one item per document."""
    counts = dict(domains.value_counts().iter_rows())
    for name, n in wanted.items():
        if counts.get(name, 0) < n:
            found = ", ".join(f"{domain} {count:,}" for domain, count in sorted(counts.items()))
            raise InputError(
                f"pads.per_domain.{name}: {n:,} documents requested, but the pool has "
                f"{counts.get(name, 0):,} (documents by domain: {found}). Lower it or use a "
                "larger pool"
            )


def _token_offsets(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """Return the character span of each token of a text, without truncation."""
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
    )
    found = [(start, end) for start, end in encoded["offset_mapping"] if end > start]
    if len(found) < 2:
        raise InputError(f"PADS: document {text[:40]!r} has {len(found)} tokens, but needs two")
    return found
