"""The text around a piece of evidence, short enough to read, cut where no character is torn."""

import unicodedata
from dataclasses import dataclass

CONTEXT = 200
"""Characters shown before and after the evidence."""
LONGEST = 500
"""Characters of evidence shown; of longer evidence its beginning and its end."""
SEARCHED = 24
"""How far a cut moves inwards to find white space."""
JOINER = "\u200d"


@dataclass(frozen=True)
class Excerpt:
    """A piece of a text.

    Attributes
    ----------
    evidence
        The evidence, or its beginning and its end; empty where it is not known.
    n_left_out
        Characters between the two parts of ``evidence``.
    """

    before: str
    evidence: tuple[str, ...]
    after: str
    n_left_out: int = 0
    is_cut_before: bool = False
    is_cut_after: bool = False


def excerpt(text: str, span: tuple[int, int]) -> Excerpt:
    """Return the text around ``span`` ([start, end), characters), the evidence apart.

    A span that ends beyond the text ends with it.
    """
    start, end = (min(place, len(text)) for place in span)
    first, last = _begin(text, max(0, start - CONTEXT), start), _end(text, end + CONTEXT, end)
    evidence: tuple[str, ...] = (text[start:end],)
    left_out = 0
    if end - start > LONGEST:
        head = _end(text, start + LONGEST // 2, start)
        tail = _begin(text, end - LONGEST // 2, end)
        evidence, left_out = (text[start:head], text[tail:end]), tail - head
    return Excerpt(
        text[first:start], evidence, text[end:last], left_out, first > 0, last < len(text)
    )


def excerpt_at(text: str, share: float) -> Excerpt:
    """Return the text around a share in [0, 1] of its length; nothing of it is called evidence."""
    middle = round(min(max(share, 0.0), 1.0) * len(text))
    half = CONTEXT + LONGEST // 4
    first, last = _begin(text, max(0, middle - half), middle), _end(text, middle + half, middle)
    return Excerpt(text[first:last], (), "", 0, first > 0, last < len(text))


def _begin(text: str, place: int, latest: int) -> int:
    """Move a cut to the right: behind white space, or at least before a whole character."""
    if place <= 0 or place >= latest:
        return min(place, latest)
    for i in range(place, min(place + SEARCHED, latest)):
        if text[i - 1].isspace():
            return i
    while place < latest and _is_inside(text, place):
        place += 1
    return place


def _end(text: str, place: int, earliest: int) -> int:
    """Move a cut to the left: before white space, or at least behind a whole character."""
    if place >= len(text) or place <= earliest:
        return max(min(place, len(text)), earliest)
    for i in range(place, max(place - SEARCHED, earliest), -1):
        if text[i].isspace():
            return i
    while place > earliest and _is_inside(text, place):
        place -= 1
    return place


def _is_inside(text: str, place: int) -> bool:
    """Say whether a cut here would take a mark from its letter, or tear an emoji sequence."""
    here, before = text[place], text[place - 1]
    return unicodedata.category(here)[0] == "M" or JOINER in (here, before)
