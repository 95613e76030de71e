"""Splitting of a long text into parts that can be joined to the same text again."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from psibench.text.lengths import TokenCounter

_CLOSERS = "\"'”’»›)\\]」』）】"
_PARAGRAPH = re.compile(r"(?<=\S)[^\S\n]*\n[^\S\n]*\n\s*")
_LINE = re.compile(r"(?<=\S)[^\S\n]*\n\s*")
_SENTENCE = re.compile(
    # A mark and white space; or a mark of a script without spaces.
    rf"(?:[.!?…؟۔।॥՞։።፧][{_CLOSERS}]*(?P<space>\s+)|[。！？｡][{_CLOSERS}]*(?P<any>\s*))"
)
_SPACE = re.compile(r"\s+")

Gap = tuple[int, int]
"""A possible cut: the offsets of the end of the part before it and of the start of the part after
it.

Only white space is between them, or nothing."""


def split_parts(text: str, *, max_tokens: int, count_tokens: TokenCounter) -> list[tuple[str, str]]:
    """Split a text into parts of at most ``max_tokens`` tokens, with as few cuts as possible.

    A part gets as many whole paragraphs (between blank lines) as fit. If the first does not fit,
    the part gets whole lines, else whole sentences, else words, else characters. A part always has
    at least one character, even if that exceeds ``max_tokens``.

    A longer beginning of a text should not have fewer tokens. If it has, a part may be shorter than
    possible but is never too long.

    Returns (part, the white space between it and the next part). Joined in order they give the
    text; white space at the ends of the text stays in the first and the last part.
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
    """Join parts or their translations; the last separator is not used.

    ``for_empty`` replaces empty separators: Chinese sentences have no space between them, but their
    translations need one. Returns the text, and the offsets of the second part and each later one.
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
    """Return the gap after the part from ``start``, of the best kind that the part reaches."""
    for gaps in kinds:
        first = bisect_right(gaps, start, key=_end)
        last = _last_fitting([_end(gap) for gap in gaps[first:]], fits)
        if last is not None:
            return gaps[first + last]
    last = _last_fitting(range(start + 1, n_chars + 1), fits)
    end = start + 1 + (last or 0)
    return end, end


def _last_fitting(ends: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Return the index of the last fitting end, by bisection; None if no end fits."""
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
