"""Chunks of a text with exact offsets, by one of several splitters.

A chunk is (start, end): characters of the text, end exclusive. Lengths are additive: a `Ruler`
holds the position of each unit (character or token) of the whole text, and the length of a piece is
the number of units that start in it. A text is therefore tokenized once, and not once per piece.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from psibench.errors import InputError
from psibench.text.sentences import sentence_spans

Chunk = tuple[int, int]
"""Start and end, characters of the text, end exclusive."""

TEXT_SEPARATORS = (r"\n\n", r"\n", " ", "")
MARKDOWN_SEPARATORS = (r"\n#{1,6} ", r"```\n", r"\n\*\*\*+\n", r"\n---+\n", r"\n___+\n")
"""Regular expressions at which pieces may start, the best first. `TEXT_SEPARATORS` are the defaults
of LangChain's ``RecursiveCharacterTextSplitter``; for ``Language.MARKDOWN`` it puts
`MARKDOWN_SEPARATORS` in front. The empty expression cuts anywhere."""


@dataclass(frozen=True)
class Ruler:
    """The units of a text: characters, or tokens with (n,) ascending starts and ends."""

    n_chars: int
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of_characters(cls, text: str) -> "Ruler":
        """Return a ruler whose units are the characters of the text."""
        numbers = np.arange(len(text) + 1)
        return cls(len(text), numbers[:-1], numbers[1:])

    @classmethod
    def of_tokens(cls, text: str, offsets: Sequence[tuple[int, int]] | np.ndarray) -> "Ruler":
        """Return a ruler of the text's tokens, given as (start, end) in order."""
        table = np.array(offsets, dtype=np.int64).reshape(-1, 2)
        return cls(len(text), np.maximum.accumulate(table[:, 0]), table[:, 1])

    @cached_property
    def before(self) -> list[int]:
        """Number of units that start before each character, and before the end of the text."""
        found: list[int] = np.searchsorted(self.starts, np.arange(self.n_chars + 1)).tolist()
        return found

    def length(self, start: int, end: int) -> int:
        """Return the number of units that start in [start, end)."""
        return self.before[end] - self.before[start]


def windows(ruler: Ruler, *, size: int, overlap: int) -> list[Chunk]:
    """Cut into windows of ``size`` units; each shares ``overlap`` units with the one before it."""
    n = len(ruler.starts)
    firsts = range(0, max(1, n - overlap), size - overlap) if n else ()
    return [
        (int(ruler.starts[first]), int(ruler.ends[min(first + size, n) - 1])) for first in firsts
    ]


def merged_sentences(text: str, ruler: Ruler, *, size: int, overlap: int) -> list[Chunk]:
    """Merge whole sentences into chunks of at most ``size`` units.

    A sentence of more than ``size`` units is a chunk by itself. A chunk repeats as many of the last
    sentences of the one before it as have at most ``overlap`` units.
    """
    spans = sentence_spans(text)
    pieces = [(start, nxt) for (start, _), (nxt, _) in zip(spans, spans[1:], strict=False)]
    pieces += spans[-1:]
    return _merge(pieces, ruler, size=size, overlap=overlap)


def split_recursively(
    text: str, ruler: Ruler, *, size: int, overlap: int, separators: Sequence[str] = TEXT_SEPARATORS
) -> list[Chunk]:
    """Cut at the best separator that leaves pieces below ``size`` units, and merge the pieces.

    Returns the same chunks as LangChain's ``RecursiveCharacterTextSplitter`` with these separators
    and ``keep_separator=True``. LangChain's start indices are wrong if a chunk repeats earlier text
    or lengths are not counted in characters.
    """
    return list(_recursive(text, (0, len(text)), ruler, size, overlap, separators))


def _recursive(
    text: str, piece: Chunk, ruler: Ruler, size: int, overlap: int, separators: Sequence[str]
) -> Iterator[Chunk]:
    found = (k for k, one in enumerate(separators) if re.search(one, text[slice(*piece)]))
    best = next(found, len(separators) - 1)
    finer = separators[best + 1 :]
    short: list[Chunk] = []
    for part in _parts(text, piece, separators[best]):
        if ruler.length(*part) < size:
            short.append(part)
            continue
        yield from _merge(short, ruler, size=size, overlap=overlap)
        short = []
        if finer:
            yield from _recursive(text, part, ruler, size, overlap, finer)
        else:
            yield part
    yield from _merge(short, ruler, size=size, overlap=overlap)


def _parts(text: str, piece: Chunk, separator: str) -> list[Chunk]:
    """Cut a piece in front of each separator; everywhere for the empty separator."""
    start, end = piece
    if not separator:
        return [(k, k + 1) for k in range(start, end)]
    inner = text[start:end]  # like LangChain, an anchor or a look-behind sees only the piece
    cuts = [start, *(start + match.start() for match in re.finditer(separator, inner)), end]
    return [(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def _merge(pieces: Sequence[Chunk], ruler: Ruler, *, size: int, overlap: int) -> list[Chunk]:
    """Merge consecutive pieces into chunks of at most ``size`` units."""
    lengths = [ruler.length(*piece) for piece in pieces]
    chunks: list[Chunk] = []
    first = total = 0
    for k, length in enumerate(lengths):
        if total + length > size and k > first:
            chunks.append((pieces[first][0], pieces[k - 1][1]))
            while total > overlap or (total + length > size and total > 0):
                total -= lengths[first]
                first += 1
        total += length
    if pieces:
        chunks.append((pieces[first][0], pieces[-1][1]))
    return chunks


def stripped(text: str, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks without the white space at their ends; blank chunks are left out."""
    kept = []
    for start, end in chunks:
        piece = text[start:end]
        if bare := piece.strip():
            start += len(piece) - len(piece.lstrip())
            kept.append((start, start + len(bare)))
    return kept


def after_space(text: str, end: int) -> int:
    """Return the end of the white space that begins at a character; that character if none does."""
    while end < len(text) and text[end].isspace():
        end += 1
    return end


def split_text(text: str, ruler: Ruler, *, splitter: str, size: int, overlap: int) -> list[Chunk]:
    """Cut a text by the splitter of this name.

    ``recursive``, ``markdown``, ``sentence``: see the functions; without white space at the ends.
    ``tokens``, ``characters``: windows of ``size`` units. Blank chunks, and chunks that are equal
    without the white space at their ends, are left out.

    Raises InputError if the splitter is unknown.
    """
    cut: dict[str, Callable[[], Any]] = {
        "recursive": lambda: split_recursively(text, ruler, size=size, overlap=overlap),
        "markdown": lambda: split_recursively(
            text,
            ruler,
            size=size,
            overlap=overlap,
            separators=(*MARKDOWN_SEPARATORS, *TEXT_SEPARATORS),
        ),
        "sentence": lambda: merged_sentences(text, ruler, size=size, overlap=overlap),
        "tokens": lambda: windows(ruler, size=size, overlap=overlap),
        "characters": lambda: windows(ruler, size=size, overlap=overlap),
    }
    if splitter not in cut:
        raise InputError(f"splitter {splitter!r}; allowed: {', '.join(cut)}, command")
    chunks = cut[splitter]()
    if splitter in ("tokens", "characters"):
        return [(start, end) for start, end in chunks if text[start:end].strip()]
    return list(dict.fromkeys(stripped(text, chunks)))
