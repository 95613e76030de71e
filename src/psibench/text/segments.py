"""Pieces of a text with exact offsets: equal segments, chunks of words, and thirds of spans.

Lengths and offsets are 0-based indices into the Python ``str``; ends are exclusive.
"""

import re
from functools import cache
from typing import Any, Literal

Position = Literal["beginning", "middle", "end"]

POSITIONS: tuple[Position, ...] = ("beginning", "middle", "end")


def equal_segments(n_chars: int, n_segments: int = 3) -> list[tuple[int, int]]:
    """Cut ``n_chars`` characters into ``n_segments`` contiguous segments of equal size.

    Every segment has ``n_chars // n_segments`` characters; the last one also takes the remainder.
    A text shorter than ``n_segments`` has empty segments before the last.
    """
    size = n_chars // n_segments
    cuts = [size * k for k in range(n_segments)] + [n_chars]
    return list(zip(cuts[:-1], cuts[1:], strict=True))


def split_equal(text: str) -> list[str]:
    """Cut ``text`` into three strings of equal size; joined they give ``text``."""
    return [text[start:end] for start, end in equal_segments(len(text))]


def tag_posq(start: int, end: int, n_chars: int) -> Position:
    """Return the third of a text that contains a span, by the single-tag rule of PosQ.

    With ``third = n_chars // 3``: a span whose end is below ``third`` is at the beginning, a span
    whose start is above ``2 * third`` at the end, every other span in the middle. A span that
    touches a border is therefore in the middle. The span is [start, end), characters, with ``0 <=
    start <= end <= n_chars``.
    """
    third = n_chars // 3
    if end < third:
        return "beginning"
    return "end" if start > 2 * third else "middle"


def tag_myopic(start: int, end: int, n_chars: int) -> tuple[Position, ...]:
    """Return the thirds of a text that contain a span, by the rule that allows two tags (Myopic).

    With ``third = n_chars // 3``, the first line that applies: end < third: beginning; third <=
    start and end < 2 * third: middle; start >= 2 * third: end; end < 2 * third: beginning and
    middle; otherwise middle and end. The span is as in `tag_posq`.
    """
    third = n_chars // 3
    if end < third:
        return ("beginning",)
    if start >= third and end < 2 * third:
        return ("middle",)
    if start >= 2 * third:
        return ("end",)
    return ("beginning", "middle") if end < 2 * third else ("middle", "end")


def inner_thirds(n_chars: int) -> dict[Position, tuple[int, int]]:
    """Return the ranges in which every span has the same single tag under both rules.

    Each position has a range [low, high): for a non-empty span with ``low <= start`` and ``end <=
    high``, `tag_posq` and `tag_myopic` both return only that position. In texts of few characters a
    range may be empty (high <= low).
    """
    third = n_chars // 3
    return {
        "beginning": (0, third - 1),
        "middle": (third, 2 * third - 1),
        "end": (2 * third + 1, n_chars),
    }


# --- Chunks of words, cut where the text breaks

SEPARATORS = (r"(?:\r?\n){2}", r"\r?\n", " ", r"\s")
"""Separators at which a chunk may end, the best first; a chunk never ends inside a word."""


def split_chunks(text: str, *, chunk_words: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Split a text into chunks of at most ``chunk_words`` words: (start, end) in order.

    ``overlap`` is a number of words below ``chunk_words``. If it is above 0, every chunk except the
    last has exactly ``chunk_words`` words and begins ``overlap`` words before the end of the
    previous chunk; the last one ends with the text.

    If it is 0, the cuts equal those of LangChain's ``RecursiveCharacterTextSplitter`` (PosQ,
    section 3.2): between paragraphs if that suffices, else between lines, else between words. Words
    are split at runs of white space, not on one space as for the sizes of passages, which would
    count a space at the start of a piece as a word. Chunks do not overlap, and only white space is
    between them.

    No chunk starts or ends with white space. A blank text has no chunks.
    """
    if overlap:  # the splitter's start indices are wrong if it counts words
        words = [word.span() for word in re.finditer(r"\S+", text)]
        first = range(0, max(1, len(words) - overlap), chunk_words - overlap)
        parts = (words[k : k + chunk_words] for k in first)
        return [(part[0][0], part[-1][1]) for part in parts if part]
    spans = []
    for piece in _splitter(chunk_words).create_documents([text]):
        content, chunk = piece.page_content, piece.page_content.strip()
        start = piece.metadata["start_index"] + content.index(chunk)
        if chunk:
            spans.append((start, start + len(chunk)))
    return spans


@cache
def _splitter(chunk_words: int) -> Any:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(
        separators=list(SEPARATORS),
        is_separator_regex=True,
        chunk_size=chunk_words,
        chunk_overlap=0,
        add_start_index=True,
        length_function=lambda piece: len(piece.split()),
    )
