"""Where evidence stands in a translation: the translated sentences that align with its own."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psibench.text.alignment import MOST_CELLS, Bead, align_lengths
from psibench.text.sentences import sentence_spans

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


@dataclass(frozen=True)
class Span:
    """A span in a translation, [start, end) in characters; None with the reason why not."""

    span: tuple[int, int] | None
    reason: str = ""


@dataclass(frozen=True)
class Alignment:
    """A text and its translation, sentence by sentence.

    Attributes
    ----------
    source, target
        Spans of the sentences.
    beads
        What aligns with what.
    reason
        Why the whole is not to be relied on; empty if it is.
    """

    source: list[tuple[int, int]]
    target: list[tuple[int, int]]
    beads: list[Bead]
    reason: str


def align_texts(source: str, target: str, *, ratio: float) -> Alignment:
    """Align a text and its translation by the lengths of their sentences.

    Parameters
    ----------
    ratio
        Characters of a translation per character of the text, usual for the two languages.
    """
    spans, found = sentence_spans(source), sentence_spans(target)
    if not spans or not found:
        return Alignment(spans, found, [], BLANK)
    if (len(spans) + 1) * (len(found) + 1) > MOST_CELLS:
        return Alignment(spans, found, [], TOO_MANY)
    beads = align_lengths(_lengths(spans), _lengths(found), ratio=ratio)
    return Alignment(spans, found, beads, POOR_ALIGNMENT if _is_poor(beads, spans, found) else "")


def locate_span(alignment: Alignment, span: tuple[int, int]) -> Span:
    """Find the translated sentences that align with those of a span of the text.

    Sentences in one bead cannot be told apart: all of its translated sentences are taken.

    Parameters
    ----------
    span
        [start, end) in characters of the text.
    """
    if alignment.reason:
        return Span(None, alignment.reason)
    touched = _touched(alignment.source, span)
    beads = [
        bead
        for bead in alignment.beads
        if bead.source[0] < touched[1] and touched[0] < bead.source[1]
    ]
    targets = [bead.target for bead in beads if bead.target[0] < bead.target[1]]
    if not targets:
        return Span(None, NO_COUNTERPART)
    if max(bead.cost for bead in beads) > MOST_BEAD_COST:
        return Span(None, POOR_BEAD)
    first, last = targets[0][0], targets[-1][1] - 1
    return Span((alignment.target[first][0], alignment.target[last][1]))


def _touched(sentences: Sequence[tuple[int, int]], span: tuple[int, int]) -> tuple[int, int]:
    """Return the range of sentences that a span touches; at least one, the nearest before."""
    first = max(bisect_right(sentences, span[0], key=lambda one: one[0]) - 1, 0)
    last = first
    while last + 1 < len(sentences) and sentences[last + 1][0] < span[1]:
        last += 1
    return first, last + 1


def _is_poor(
    beads: Sequence[Bead],
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]],
) -> bool:
    """Say whether lengths agree too little, or too much of either side has no counterpart."""
    paired = [bead for bead in beads if _is_paired(bead)]
    alone = [bead for bead in beads if not _is_paired(bead)]
    if not paired or np.mean([bead.cost for bead in paired]) > MOST_MEAN_COST:
        return True
    for spans, sides in (
        (source, [bead.source for bead in alone]),
        (target, [bead.target for bead in alone]),
    ):
        lengths = _lengths(spans)
        missing = sum(float(lengths[low:high].sum()) for low, high in sides)
        if missing > MOST_UNALIGNED * lengths.sum():
            return True
    return False


def _is_paired(bead: Bead) -> bool:
    return bead.source[0] < bead.source[1] and bead.target[0] < bead.target[1]


def _lengths(spans: Sequence[tuple[int, int]]) -> np.ndarray:
    return np.array([end - start for start, end in spans], dtype=np.float64)
