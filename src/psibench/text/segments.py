"""Pieces of a text with their exact offsets: equal segments, and chunks of so many words.

Also which third a span of characters lies in. Lengths and offsets are 0-based indices into the
Python ``str``; ends are exclusive.
"""

from functools import cache
from typing import Any, Literal

from psibench.errors import InputError

Position = Literal["beginning", "middle", "end"]

POSITIONS: tuple[Position, ...] = ("beginning", "middle", "end")


def equal_segments(n_chars: int, n_segments: int = 3) -> list[tuple[int, int]]:
    """Cut ``n_chars`` characters into contiguous segments of equal size.

    Every segment has ``n_chars // n_segments`` characters; the last one also takes the remainder.
    A text shorter than ``n_segments`` has empty segments before the last.

    Parameters
    ----------
    n_chars
        Length of the text, characters, at least 0.
    n_segments
        Number of segments, at least 1.

    Returns
    -------
    list of (start, end)
        ``n_segments`` pairs; the first starts at 0, the last ends at ``n_chars``.

    Raises
    ------
    InputError
        If the length is negative or ``n_segments`` is below 1.
    """
    if n_segments < 1:
        raise InputError(f"n_segments is {n_segments}; allowed: at least 1")
    if n_chars < 0:
        raise InputError(f"n_chars is {n_chars}; allowed: at least 0")
    size = n_chars // n_segments
    cuts = [size * k for k in range(n_segments)] + [n_chars]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def split_equal(text: str, n_segments: int = 3) -> list[str]:
    """Cut ``text`` into ``n_segments`` strings of equal size; joined they give ``text`` back."""
    return [text[start:end] for start, end in equal_segments(len(text), n_segments)]


def tag_posq(start: int, end: int, n_chars: int) -> Position:
    """Say which third of a text holds a span, by the single-tag rule of PosQ.

    With ``third = n_chars // 3``: a span whose end is below ``third`` is at the beginning, one
    whose start is above ``2 * third`` at the end, every other one in the middle. A span that
    touches a border is therefore in the middle.

    Parameters
    ----------
    start, end
        Span [start, end), characters, with ``0 <= start <= end <= n_chars``.
    n_chars
        Length of the text, characters.

    Raises
    ------
    InputError
        If the span does not lie inside the text.
    """
    _check_span(start, end, n_chars)
    third = n_chars // 3
    if end < third:
        return "beginning"
    return "end" if start > 2 * third else "middle"


def tag_myopic(start: int, end: int, n_chars: int) -> tuple[Position, ...]:
    """Say which thirds of a text hold a span, by the rule that allows two tags (Myopic).

    With ``third = n_chars // 3``, the first line that applies: end < third: beginning;
    third <= start and end < 2 * third: middle; start >= 2 * third: end; end < 2 * third:
    beginning and middle; otherwise middle and end.

    Parameters
    ----------
    start, end
        Span [start, end), characters, with ``0 <= start <= end <= n_chars``.
    n_chars
        Length of the text, characters.

    Raises
    ------
    InputError
        If the span does not lie inside the text.
    """
    _check_span(start, end, n_chars)
    third = n_chars // 3
    if end < third:
        return ("beginning",)
    if start >= third and end < 2 * third:
        return ("middle",)
    if start >= 2 * third:
        return ("end",)
    return ("beginning", "middle") if end < 2 * third else ("middle", "end")


def inner_thirds(n_chars: int) -> dict[Position, tuple[int, int]]:
    """Give the ranges in which every span carries one and the same tag under both rules.

    Returns
    -------
    dict
        For each position the range [low, high); a non-empty span with ``low <= start`` and
        ``end <= high`` is tagged with that position alone by `tag_posq` and `tag_myopic`.
        In texts of few characters a range may be empty (high <= low).
    """
    third = n_chars // 3
    return {
        "beginning": (0, third - 1),
        "middle": (third, 2 * third - 1),
        "end": (2 * third + 1, n_chars),
    }


def _check_span(start: int, end: int, n_chars: int) -> None:
    if not 0 <= start <= end <= n_chars:
        raise InputError(
            f"span [{start}, {end}) does not lie in a text of {n_chars} characters; "
            "allowed: 0 <= start <= end <= length"
        )


# --- chunks of so many words, cut where the text breaks

SEPARATORS = (r"\n\n", r"\n", " ", r"\s")
"""Where a chunk may end, the best place first; never inside a word."""


def split_chunks(text: str, *, chunk_words: int) -> list[tuple[int, int]]:
    """Split a text into consecutive chunks of at most ``chunk_words`` words.

    The cuts are those of LangChain's ``RecursiveCharacterTextSplitter`` without overlap (PosQ,
    section 3.2): between paragraphs where that suffices, else between lines, else between words.
    Words are split at runs of white space. The count on one space that sizes passages would not
    do: it counts a space that opens a piece as one more word.

    Parameters
    ----------
    chunk_words
        Longest chunk, words, at least 1.

    Returns
    -------
    list of (start, end)
        Character offsets into ``text``, in order. Chunks do not overlap, neither start nor end
        with white space, and only white space lies between them. A blank text has none.

    Raises
    ------
    InputError
        If ``chunk_words`` is below 1.
    """
    if chunk_words < 1:
        raise InputError(f"chunk_words is {chunk_words}; allowed: at least 1")
    spans, at = [], 0
    for piece in _splitter(chunk_words).split_text(text):
        chunk = piece.strip()
        start = _skip_space(text, at)
        at = start + len(chunk)
        if not chunk or text[start:at] != chunk:
            raise RuntimeError(
                f"the text splitter's chunk {chunk[:40]!r} does not stand at character {start}, "
                "where the one before it ends; another version of langchain-text-splitters?"
            )
        spans.append((start, at))
    return spans


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


@cache
def _splitter(chunk_words: int) -> Any:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(
        separators=list(SEPARATORS),
        is_separator_regex=True,
        chunk_size=chunk_words,
        chunk_overlap=0,
        length_function=lambda piece: len(piece.split()),
    )
