"""A long text in parts, cut where it breaks best; put together they are the text again."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from psibench.text.lengths import TokenCounter

_CLOSERS = "\"'”’»›)\\]」』）】"
_PARAGRAPH = re.compile(r"(?<=\S)[^\S\n]*\n[^\S\n]*\n\s*")
_LINE = re.compile(r"(?<=\S)[^\S\n]*\n\s*")
_SENTENCE = re.compile(
    # A mark and white space; or a mark of a script that writes no space there.
    rf"(?:[.!?…؟۔।॥՞։።፧][{_CLOSERS}]*(?P<space>\s+)|[。！？｡][{_CLOSERS}]*(?P<any>\s*))"
)
_SPACE = re.compile(r"\s+")

Gap = tuple[int, int]
"""Where a text may be cut: the part before ends at the first offset, the next begins at the last.

Between them there is white space or nothing."""


def split_parts(text: str, *, max_tokens: int, count_tokens: TokenCounter) -> list[tuple[str, str]]:
    """Cut a text into parts of at most ``max_tokens`` tokens, as few cuts as this takes.

    A part takes in as many whole paragraphs (between blank lines) as fit. Where not even one
    does, it takes whole lines, else whole sentences, else words, else characters. Cut at
    characters, a part has at least one, whatever it counts.

    What a longer beginning of a text counts should not be less; where it is, a part may be shorter
    than it could be, and is never too long.

    Returns (part, the white space between it and the next one): one after the other they are the
    text; white space at its ends stays in the first and the last part.
    """

    def fits(start: int, end: int) -> bool:
        return int(count_tokens([text[start:end]])[0]) <= max_tokens

    if not text or fits(0, len(text)):
        return [(text, "")]
    kinds = [[*_gaps(text, pattern), (len(text), len(text))] for pattern in _PATTERNS]
    parts: list[tuple[str, str]] = []
    start = 0
    while start < len(text):
        end, following = _cut(start, kinds, len(text), partial(fits, start))
        parts.append((text[start:end], text[end:following]))
        start = following
    return parts


def join_parts(
    texts: Sequence[str], separators: Sequence[str], *, for_empty: str = ""
) -> tuple[str, list[int]]:
    """Put parts together, or what they became; the last separator is not used.

    ``for_empty`` stands where a separator is empty: between Chinese sentences there is nothing,
    between their translations there has to be a space. Returns the text, and the offsets at which
    the second part and each later one begin.
    """
    pieces: list[str] = []
    joins: list[int] = []
    length = 0
    for number, text in enumerate(texts):
        if number:
            between = separators[number - 1] or for_empty
            pieces.append(between)
            length += len(between)
            joins.append(length)
        pieces.append(text)
        length += len(text)
    return "".join(pieces), joins


def _cut(start: int, kinds: list[list[Gap]], n_chars: int, fits: Callable[[int], bool]) -> Gap:
    """Return where the part from ``start`` ends, at the best kind of gap that it reaches."""
    for gaps in kinds:
        first = bisect_right(gaps, start, key=_end)
        last = _last_fitting([_end(gap) for gap in gaps[first:]], fits)
        if last is not None:
            return gaps[first + last]
    last = _last_fitting(range(start + 1, n_chars + 1), fits)
    end = start + 1 + (last or 0)
    return end, end


def _last_fitting(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Return the index of the last end that fits, if those before it do; None if none does."""
    n_fitting = bisect_left(ends, True, key=lambda end: not fits(end))
    return n_fitting - 1 if n_fitting else None


def _gaps(text: str, pattern: re.Pattern[str]) -> Iterator[Gap]:
    """Yield the gaps of one kind inside a text, in order."""
    for match in pattern.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        if start > 0 and end < len(text):
            yield start, end


_PATTERNS = (_PARAGRAPH, _LINE, _SENTENCE, _SPACE)


def _end(gap: Gap) -> int:
    return gap[0]
