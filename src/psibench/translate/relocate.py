"""Where the evidence of a query is in the translation of its document, and how far it has moved.

PosIR lets its translations share the spans of the originals. Spans found again in the translation
show how far positions survive it; they are columns beside the original's and replace nothing. Taken
are the translated sentences that align with those of the evidence by their lengths
(`psibench.text.alignment`).
"""

import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from psibench.tables.build_schemas import LOCATED_FROM, LOCATED_SPAN
from psibench.text.alignment import MOST_CELLS, Bead, align_lengths, sentence_spans
from psibench.text.locate import Located

logger = logging.getLogger("psibench")

NOT_LOCATED, NO_SPAN = "not_located", "no_span"
BLANK, TOO_MANY, NO_COUNTERPART = "blank_text", "too_many_sentences", "no_counterpart"
POOR_ALIGNMENT, POOR_BEAD = "poor_alignment", "unequal_sentences"

MOST_MEAN_COST = 2.0
"""Largest mean of the costs of lengths over the aligned beads (`Bead.cost`) that is relied on.

Six of XQuAD's English paragraphs joined to one text and their human translations cost 0.3 to 1.5.
"""
MOST_UNALIGNED = 0.2
"""Largest share of either text that may be left without a counterpart."""
MOST_BEAD_COST = 6.0
"""Largest cost of the lengths of a bead that evidence lies in: a chance of 1 in 400."""

Offsets = tuple[int, int]
SPAN_TYPE = pl.Array(pl.Int32, 2)


@dataclass(frozen=True)
class Alignment:
    """A text and its translation, sentence by sentence.

    ``source`` and ``target`` are the spans of the sentences, ``beads`` what aligns with what,
    ``reason`` why the whole is not to be relied on (empty if it is).
    """

    source: list[Offsets]
    target: list[Offsets]
    beads: list[Bead]
    reason: str


def relocated(queries: pl.DataFrame, source: pl.DataFrame, corpus: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that say where evidence is in the translation, or why it was not found.

    Taken are the translated sentences that align with those of the evidence; ``located_from_span``
    are these. How much longer translations are is taken from all documents: the median of their
    ratios. A query without a span is not looked for.

    ``queries`` are the translated ones, with the spans of the original; ``source`` and ``corpus``
    the CORPUS rows of the original and of the translation.
    """
    sources, translations = (
        dict(side.select("_id", "text").iter_rows()) for side in (source, corpus)
    )
    ratio = length_ratio(sources, translations)
    aligned = {
        doc_id: align_texts(sources[doc_id], translations[doc_id], ratio=ratio)
        for doc_id in queries.get_column("pos_corpus_id").unique(maintain_order=True)
    }
    rows = []
    for doc_id, span in queries.select("pos_corpus_id", "pos_char_span").iter_rows():
        found = Located(None, NO_SPAN) if span is None else locate_span(aligned[doc_id], span)
        origin = found.span and _whole_sentences(aligned[doc_id].source, span)
        rows.append((found.span, found.reason, origin))
    schema: dict[str, Any] = {LOCATED_SPAN: SPAN_TYPE, NOT_LOCATED: pl.String}
    columns = pl.DataFrame(rows, schema=schema | {LOCATED_FROM: SPAN_TYPE}, orient="row")
    is_lost = columns[LOCATED_SPAN].is_null()
    counts = columns.filter(is_lost).group_by(NOT_LOCATED, maintain_order=True).len().iter_rows()
    logger.info(
        "evidence of %d of %d queries located%s",
        (~is_lost).sum(),
        columns.height,
        "".join(f"; {n} {reason}" for reason, n in counts),
    )
    return queries.hstack(columns)


def length_ratio(sources: Mapping[str, str], translations: Mapping[str, str]) -> float:
    """Compute the median of characters per character of the original; 1 of no documents."""
    ratios = [len(text) / len(sources[doc_id]) for doc_id, text in translations.items() if text]
    return float(np.median(ratios)) if ratios else 1.0


def align_texts(source: str, target: str, *, ratio: float) -> Alignment:
    """Align a text and its translation by the lengths of their sentences.

    ``ratio`` is how many characters a translation usually has per character of the text.
    """
    spans, found = sentence_spans(source), sentence_spans(target)
    if not spans or not found:
        return Alignment(spans, found, [], BLANK)
    if (len(spans) + 1) * (len(found) + 1) > MOST_CELLS:
        return Alignment(spans, found, [], TOO_MANY)
    lengths, found_lengths = _lengths(spans), _lengths(found)
    beads = align_lengths(lengths, found_lengths, ratio=ratio)
    is_poor = _is_poor(beads, lengths, found_lengths)
    return Alignment(spans, found, beads, POOR_ALIGNMENT if is_poor else "")


def locate_span(alignment: Alignment, span: Offsets) -> Located:
    """Find the translated sentences that align with those of a span [start, end) of the text.

    Sentences in one bead cannot be told apart: all of its translated sentences are taken.
    """
    if alignment.reason:
        return Located(None, alignment.reason)
    first, end = _touched(alignment.source, span)
    beads = [bead for bead in alignment.beads if bead.source[0] < end and first < bead.source[1]]
    targets = [bead.target for bead in beads if bead.target[0] < bead.target[1]]
    if not targets:
        return Located(None, NO_COUNTERPART)
    if max(bead.cost for bead in beads) > MOST_BEAD_COST:
        return Located(None, POOR_BEAD)
    return Located((alignment.target[targets[0][0]][0], alignment.target[targets[-1][1] - 1][1]))


def _touched(sentences: Sequence[Offsets], span: Offsets) -> Offsets:
    """Return the range of sentences that a span touches; at least one, the nearest before."""
    first = max(bisect_right(sentences, span[0], key=lambda one: one[0]) - 1, 0)
    last = first
    while last + 1 < len(sentences) and sentences[last + 1][0] < span[1]:
        last += 1
    return first, last + 1


def _whole_sentences(sentences: Sequence[Offsets], span: Offsets) -> Offsets:
    """Return [start, end) of the sentences that a span touches, characters."""
    first, end = _touched(sentences, span)
    return sentences[first][0], sentences[end - 1][1]


def _is_poor(beads: Sequence[Bead], source: np.ndarray, target: np.ndarray) -> bool:
    """Say whether lengths agree too little, or too much of either side has no counterpart."""
    costs, missing_source, missing_target = [], 0.0, 0.0
    for bead in beads:
        of_source, of_target = source[slice(*bead.source)], target[slice(*bead.target)]
        if len(of_source) and len(of_target):
            costs.append(bead.cost)
        else:
            missing_source += of_source.sum()
            missing_target += of_target.sum()
    return bool(
        not costs
        or np.mean(costs) > MOST_MEAN_COST
        or missing_source > MOST_UNALIGNED * source.sum()
        or missing_target > MOST_UNALIGNED * target.sum()
    )


def _lengths(spans: Sequence[Offsets]) -> np.ndarray:
    return np.array([end - start for start, end in spans], dtype=np.float64)
