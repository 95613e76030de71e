"""Cut long texts into passages of varied length, between paragraphs."""

import re
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl


def cut_documents(
    documents: pl.DataFrame, *, min_words: int, max_words: int, seed: int
) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """Cut every document of more than ``max_words`` words into passages.

    Cuts fall between paragraphs (blank lines); a paragraph of more than ``max_words`` words is cut
    after that many. A document that is short enough stays as it is, also below ``min_words``.

    Returns DOCUMENTS rows, the passages of ``d`` with ids ``d-001``, ``d-002``, ...; and the pieces
    outside the bounds (words split at white space) as (document id, text).
    """
    rows: list[tuple[str, str, str]] = []
    left_out: list[tuple[str, str]] = []
    for doc_id, text, origin in documents.select("_id", "text", "origin").iter_rows():
        if len(text.split()) <= max_words:
            rows.append((doc_id, text, origin))
            continue
        rng = np.random.default_rng([seed, zlib.crc32(doc_id.encode())])
        passages, short = cut_passages(_paragraphs(text, max_words), min_words, max_words, rng)
        rows += [(f"{doc_id}-{k:03d}", passage, origin) for k, passage in enumerate(passages, 1)]
        left_out += [(doc_id, piece) for piece in short]
    schema = dict.fromkeys(("_id", "text", "origin"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row"), left_out


def _paragraphs(text: str, max_words: int) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        words = [match.end() for match in re.finditer(r"\S+", paragraph)]
        start = 0
        for end in [*words[max_words - 1 : -1 : max_words], len(paragraph)]:
            if paragraph[start:end].strip():
                yield paragraph[start:end].strip()
            start = end


def cut_passages(
    paragraphs: Iterable[str], min_words: int, max_words: int, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Join consecutive paragraphs into passages of randomly drawn length.

    A passage is closed by the paragraph that reaches the drawn length. What is left at the end of a
    page joins the passage before it where both together stay within ``max_words``. Returns the
    passages of ``min_words`` to ``max_words`` words, paragraphs separated by a blank line, and the
    pieces that are outside the bounds.
    """
    groups: list[list[str]] = [[]]
    n_words, aim = 0, _draw_length(min_words, max_words, rng)
    for paragraph in paragraphs:
        size = len(paragraph.split())
        if groups[-1] and (n_words >= aim or n_words + size > max_words):
            groups.append([])
            n_words, aim = 0, _draw_length(min_words, max_words, rng)
        groups[-1].append(paragraph)
        n_words += size
    texts = ["\n\n".join(group) for group in groups if group]
    if len(texts) > 1 and len(texts[-1].split()) < min_words:
        joined = "\n\n".join(texts[-2:])
        if len(joined.split()) <= max_words:
            texts[-2:] = [joined]
    fits = [min_words <= len(text.split()) <= max_words for text in texts]
    return (
        [text for text, fit in zip(texts, fits, strict=True) if fit],
        [text for text, fit in zip(texts, fits, strict=True) if not fit],
    )


def _draw_length(min_words: int, max_words: int, rng: np.random.Generator) -> float:
    return float(rng.uniform(min_words**0.5, max_words**0.5) ** 2)
