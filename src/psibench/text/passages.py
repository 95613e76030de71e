"""Cutting of long texts into passages of varied length, between paragraphs."""

import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
from polars import selectors

PAGE_STARTS = "page_starts"
"""Column of documents with pages: the list of offsets at which the file's pages start, characters
into the text; 0 for pages that start at the text's beginning or before it. In a passage and in a
whole document, the page of a character is the number of starts that are not above its offset."""
PAGES = selectors.by_name(PAGE_STARTS, require_all=False)
"""Selector of that column; selects nothing if it is missing."""
EXCERPT_CHARS = 80
"""Characters of a left-out paragraph or passage that its dropped row shows."""


def cut_documents(
    documents: pl.DataFrame, *, min_words: int, max_words: int, seed: int
) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """Cut every document of more than ``max_words`` words into passages.

    Cuts fall between paragraphs (blank lines); a paragraph of more than ``max_words`` words is cut
    after that many. A document of at most ``max_words`` words is not changed, even below
    ``min_words``.

    Returns DOCUMENTS rows, the passages of ``d`` with ids ``d-001``, ``d-002``, ...; and the pieces
    outside the bounds (words split at white space) as (document id, text).
    """
    schema: dict[str, Any] = dict.fromkeys(("_id", "text", "origin"), pl.String)
    if PAGE_STARTS in documents.columns:
        schema[PAGE_STARTS] = pl.List(pl.Int32)
    rows: list[tuple[Any, ...]] = []
    left_out: list[tuple[str, str]] = []
    for doc_id, text, origin, *pages in documents.select(*schema).iter_rows():
        if len(text.split()) <= max_words:
            rows.append((doc_id, text, origin, *pages))
            continue
        rng = np.random.default_rng([seed, zlib.crc32(doc_id.encode())])
        starts, paragraphs = zip(*_paragraphs(text, max_words), strict=True)
        passages, short = cut_passages(paragraphs, min_words, max_words, rng)
        for k, part in enumerate(passages, start=1):
            passage = paragraphs[part.start : part.stop]
            inside = [
                given and _starts_inside(given, starts[part.start : part.stop], passage)
                for given in pages
            ]
            rows.append((f"{doc_id}-{k:03d}", "\n\n".join(passage), origin, *inside))
        left_out += [(doc_id, "\n\n".join(paragraphs[one.start : one.stop])) for one in short]
    return pl.DataFrame(rows, schema=schema, orient="row"), left_out


def _paragraphs(text: str, max_words: int) -> Iterator[tuple[int, str]]:
    """Yield the start and text of each paragraph; long paragraphs are split."""
    start = 0
    for end, next_start in [
        *(match.span() for match in re.finditer(r"\n\s*\n", text)),
        (len(text), len(text)),
    ]:
        words = list(re.finditer(r"\S+", text[start:end]))
        for number in range(0, len(words), max_words):
            part = words[number : number + max_words]
            first, last = start + part[0].start(), start + part[-1].end()
            yield first, text[first:last]
        start = next_start


def _starts_inside(
    page_starts: Sequence[int], starts: Sequence[int], paragraphs: Sequence[str]
) -> list[int]:
    """Return the page starts in a passage from those in its document.

    ``starts`` are the offsets of the passage's paragraphs in the document; a page starts with a
    paragraph.
    """
    offsets = [0, *accumulate(len(paragraph) + 2 for paragraph in paragraphs)]
    return [offsets[bisect_left(starts, page)] for page in page_starts if page <= starts[-1]]


def cut_passages(
    paragraphs: Sequence[str], min_words: int, max_words: int, rng: np.random.Generator
) -> tuple[list[range], list[range]]:
    """Join consecutive paragraphs into passages of randomly drawn length.

    The paragraph that reaches the drawn length ends a passage. A short rest at the end of a page is
    added to the passage before it if both together have at most ``max_words``.

    Returns the passages of ``min_words`` to ``max_words`` words, and the pieces outside these
    bounds, both as numbers of the paragraphs, from 0.
    """
    sizes = [len(paragraph.split()) for paragraph in paragraphs]
    groups = [range(0)]
    n_words, aim = 0, _draw_length(min_words, max_words, rng)
    for number, size in enumerate(sizes):
        if groups[-1] and (n_words >= aim or n_words + size > max_words):
            groups.append(range(number, number))
            n_words, aim = 0, _draw_length(min_words, max_words, rng)
        groups[-1] = range(groups[-1].start, number + 1)
        n_words += size
    if len(groups) > 1 and _n_words(sizes, groups[-1]) < min_words:
        joined = range(groups[-2].start, groups[-1].stop)
        if _n_words(sizes, joined) <= max_words:
            groups[-2:] = [joined]
    fits = [min_words <= _n_words(sizes, group) <= max_words for group in groups]
    return (
        [group for group, fit in zip(groups, fits, strict=True) if fit],
        [group for group, fit in zip(groups, fits, strict=True) if group and not fit],
    )


def _n_words(sizes: Sequence[int], group: range) -> int:
    return sum(sizes[group.start : group.stop])


def _draw_length(min_words: int, max_words: int, rng: np.random.Generator) -> float:
    return float(rng.uniform(min_words**0.5, max_words**0.5) ** 2)
