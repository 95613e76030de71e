"""Variants of a text, changed at known positions.

Each function returns variants of a text, each with its position and the changed part, or raises
`UnfitError` with a reason. Offsets are 0-based indices into the Python ``str``, ends exclusive.
Sentences come from `text.sentences.sentence_spans`: a sentence ends at a mark or a line's end, in
any script.

Cuts are made between sentences if one starts nearby, else between words, else between grapheme
clusters (in scripts without blanks), which keeps an emoji or an accented letter whole. Only
`segments` cuts at any character, like its papers.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import regex

from psibench.text.lengths import TokenCounter
from psibench.text.segments import equal_segments
from psibench.text.sentences import sentence_spans

Span = tuple[int, int]
PARAGRAPH = "\n\n"
"""Separator between inserted text and the document."""
GRAPHEME = regex.compile(r"\X")
WORD = regex.compile(r"(?<=\s)\S")


class UnfitError(ValueError):
    """A text does not allow a variant; the message is the reason in a few words."""


@dataclass(frozen=True)
class Variant:
    """A text with a change at ``place`` (1-based; 0 is the original text).

    ``part`` is the span of the changed part: in ``text`` if ``is_part_inside`` (inserted or moved
    text), else in the reference (removed text).
    """

    text: str
    place: int
    part: Span
    is_part_inside: bool


def segments(text: str, cut: int | Sequence[float]) -> list[Variant]:
    """Cut a text into segments, by characters (PosQ; Controlled, section 6.3).

    ``cut`` is a number of equal segments, or the cuts as shares of the characters, rounded down;
    PosQ's script uses (.333, .666).

    Raises
    ------
    UnfitError
        If a segment has only white space because the text is too short.
    """
    if isinstance(cut, int):
        spans = equal_segments(len(text), cut)
    else:
        spans = list(pairwise([0, *(int(len(text) * share) for share in cut), len(text)]))
    if not all(text[start:end].strip() for start, end in spans):
        raise UnfitError(f"fewer than {len(spans)} segments with text")
    return [
        Variant(text[start:end], place, (start, end), is_part_inside=False)
        for place, (start, end) in enumerate(spans, 1)
    ]


def insertions(text: str, filler: str) -> list[Variant]:
    """Insert a filler at the beginning, in the middle and at the end (Needles, section 3.1.1).

    The middle is the sentence boundary nearest to the middle character. The filler becomes a
    separate paragraph; the text changes only in white space at the insertion.

    Raises
    ------
    UnfitError
        If the text or the filler is blank, or the text is a single grapheme cluster.
    """
    if not text.strip() or not filler.strip():
        raise UnfitError("no text")
    cut = soft_cut(text, len(text) // 2, reach=len(text))
    if cut is None:
        raise UnfitError("no position inside the text")
    made = []
    for place, at in enumerate((0, cut, len(text)), 1):
        before, after = text[:at].rstrip(), text[at:].lstrip()
        opening = before + PARAGRAPH if before else ""
        closing = PARAGRAPH + after if after else ""
        start = len(opening)
        part = (start, start + len(filler))
        made.append(Variant(opening + filler + closing, place, part, is_part_inside=True))
    return made


def removals(text: str, *, size: float) -> list[Variant]:
    """Remove sentences at the beginning, the middle and the end (Needles, section 3.1.2).

    Removes the share ``size`` of the sentences, rounded up. If the middle cannot be centred, one
    more sentence remains after the gap than before it.

    Raises
    ------
    UnfitError
        If fewer than two sentences would remain, so that the text has no middle.
    """
    sentences = sentence_spans(text)
    n_removed = ceil(round(size * len(sentences), 9))
    n_left = len(sentences) - n_removed
    if n_left < 2:
        raise UnfitError("too few sentences")
    made = []
    for place, first in enumerate((0, n_left // 2, n_left), 1):
        last = first + n_removed
        before = text[: sentences[first - 1][1]] if first else ""
        after = text[sentences[last][0] :] if last < len(sentences) else ""
        gap = _wider_gap(text, sentences, first, last) if before and after else ""
        part = (sentences[first][0], sentences[last - 1][1])
        made.append(Variant(before + gap + after, place, part, is_part_inside=False))
    return made


def moved_evidence(text: str, span: Span, n_places: int) -> list[Variant]:
    """Move the evidence to evenly spaced positions (Controlled, section 6.2).

    The span is widened to whole sentences. The other sentences keep their text and order. The first
    position is before all other sentences, the last behind them. The positions between are the
    sentence boundaries nearest to evenly spaced characters of the other sentences; in a text of few
    sentences several positions share a boundary.

    Returns
    -------
    list
        Place 0 (the original text) and places 1 to ``n_places``; ``part`` is the evidence's span.

    Raises
    ------
    UnfitError
        If the span overlaps no sentence, or the evidence is the whole text.
    """
    sentences = sentence_spans(text)
    inside = [k for k, (start, end) in enumerate(sentences) if start < span[1] and span[0] < end]
    if not inside:
        raise UnfitError("no sentence in the span")
    home, behind = inside[0], inside[-1] + 1
    rest = [*sentences[:home], *sentences[behind:]]
    if not rest:
        raise UnfitError("the evidence is the whole text")
    part = (sentences[home][0], sentences[behind - 1][1])
    evidence = text[slice(*part)]
    pieces = [text[start:end] for start, end in rest]
    gaps = [text[a[1] : b[0]] for a, b in pairwise(rest)]
    closed = _wider_gap(text, sentences, home, behind)
    if 0 < home < len(rest):
        gaps[home - 1] = closed
    starts = [0]
    for piece, gap in zip(pieces, [*gaps, ""], strict=True):
        starts.append(starts[-1] + len(piece) + len(gap))
    made = [Variant(text, 0, part, is_part_inside=True)]
    for place in range(1, n_places + 1):
        aim = starts[-1] * (place - 1) / max(n_places - 1, 1)
        boundary = min(range(len(starts)), key=lambda k: abs(starts[k] - aim))
        if boundary == home:
            varied, at = text[sentences[0][0] : sentences[-1][1]], part[0] - sentences[0][0]
        else:
            inner = 0 < boundary < len(pieces)
            gap = gaps[boundary - 1] if inner else closed
            before = _joined(pieces[:boundary], gaps[: max(boundary - 1, 0)])
            after = _joined(pieces[boundary:], gaps[boundary:])
            opening = before + gap if before else ""
            varied, at = opening + evidence + (gap + after if after else ""), len(opening)
        found = (at, at + len(evidence))
        made.append(Variant(varied, place, found, is_part_inside=True))
    return made


@dataclass(frozen=True)
class Permuted:
    """A text with its pieces in another order; ``moved[k]`` is the new span of piece ``k``."""

    text: str
    moved: tuple[Span, ...]


def permuted(text: str, pieces: Sequence[Span], order: Sequence[int]) -> Permuted:
    """Reorder the pieces of a text; ``order[k]`` is the number of the piece that becomes the k-th.

    ``pieces`` are sorted spans [start, end) without overlap. The gaps between pieces keep their
    order: the first gap follows whichever piece is now first.
    """
    gaps = [text[a[1] : b[0]] for a, b in pairwise(pieces)] + [text[pieces[-1][1] :]]
    out = text[: pieces[0][0]]
    moved: dict[int, Span] = {}
    for number, gap in zip(order, gaps, strict=True):
        piece = text[slice(*pieces[number])]
        moved[number] = (len(out), len(out) + len(piece))
        out += piece + gap
    return Permuted(out, tuple(moved[k] for k in range(len(pieces))))


def reversed_segments(
    text: str, n_segments: int = 5, *, is_exact: bool = False
) -> tuple[tuple[Span, ...], Permuted]:
    """Reverse the order of a text's equal contiguous segments (Controlled, appendix E.1).

    With ``is_exact`` the cuts are after equal numbers of characters. Otherwise each cut moves by at
    most a quarter of a segment to the nearest sentence start, else word start, else start of a
    grapheme cluster.

    Returns
    -------
    segments, reversed
        The segments of ``text``, and the text in reverse order. Unless ``is_exact``, white space
        around a cut belongs to no segment and keeps its position.

    Raises
    ------
    UnfitError
        If a segment would be blank because the text is too short.
    """
    if is_exact:
        exact = [variant.part for variant in segments(text, n_segments)]
        return tuple(exact), permuted(text, exact, range(n_segments)[::-1])
    reach = len(text) // (4 * n_segments)
    cuts = [0]
    for number in range(1, n_segments):
        at = len(text) * number // n_segments
        cuts.append(soft_cut(text, at, reach=reach) or 0)
    if cuts != sorted(set(cuts)):
        raise UnfitError(f"fewer than {n_segments} segments with text")
    spans = [_stripped(text, span) for span in pairwise([*cuts, len(text)])]
    return tuple(spans), permuted(text, spans, range(n_segments)[::-1])


def moved_pieces(segments: Sequence[Span], order: Permuted, span: Span) -> list[Span]:
    """Return the spans of a span's characters in a permuted text, in their old order.

    A cut splits the span into several pieces; white space at a cut is in no piece.
    """
    pieces = []
    for (start, end), (moved, _) in zip(segments, order.moved, strict=True):
        low, high = max(start, span[0]), min(end, span[1])
        if low < high:
            pieces.append((moved + low - start, moved + high - start))
    return pieces


def soft_cut(text: str, at: int, *, reach: int) -> int | None:
    """Return the sentence start, else the word start, nearest to a character, to cut there.

    If neither is within ``reach`` characters, returns the nearest start of a grapheme cluster. Both
    sides of the cut have text; None if no such cut exists (a blank text, or a single cluster).
    """
    first, last = _stripped(text, (0, len(text)))
    low, high = max(at - reach, first + 1), min(at + reach, last - 1)
    sentences = [start for start, _ in sentence_spans(text) if low <= start <= high]
    words = (m.start() for m in WORD.finditer(text, max(low - 1, 0), high + 1))
    near = sentences or [start for start in words if low <= start <= high]
    if not near:
        near = [m.start() for m in GRAPHEME.finditer(text) if first < m.start() < last]
    return min(near, key=lambda start: (abs(start - at), start), default=None)


def _wider_gap(text: str, sentences: Sequence[Span], first: int, last: int) -> str:
    """Return the longer of the gaps before and behind the sentences [first, last)."""
    gaps = []
    if first:
        gaps.append(text[sentences[first - 1][1] : sentences[first][0]])
    if last < len(sentences):
        gaps.append(text[sentences[last - 1][1] : sentences[last][0]])
    return max(gaps, key=len)


def _joined(pieces: Sequence[str], gaps: Sequence[str]) -> str:
    return "".join(piece + gap for piece, gap in zip(pieces, [*gaps, ""], strict=False))


def _stripped(text: str, span: Span) -> Span:
    piece = text[slice(*span)]
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


# --- Filler for insertions ---------------------------------------------------------------------

LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut "
    "labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris "
    "nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse "
    "cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt culpa qui "
    "officia deserunt mollit anim id est laborum"
).split()


def filler(n_tokens: int, *, key: str, count_tokens: TokenCounter) -> str:
    """Return about ``n_tokens`` tokens of Lorem ipsum (Needles, section 3.1.1).

    The text has sentences of random Lorem ipsum words, seeded by ``key``. A shorter filler is a
    prefix of a longer one with the same key. Words are not cut, so the length (without special
    tokens) differs from ``n_tokens`` by up to half a word.
    """
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest())
    lengths, total, words = dict[str, int](), 0, list[str]()
    for word in _words(random.Random(seed)):
        if word not in lengths:
            lengths[word] = int(count_tokens([word])[0])
        over = total + lengths[word] - n_tokens
        if words and over >= n_tokens - total:
            break
        words.append(word)
        total += lengths[word]
        if over >= 0:
            break
    return " ".join(words)


def _words(rng: random.Random) -> Iterator[str]:
    """Yield the words of sentences, endlessly."""
    while True:
        first, *rest = rng.choices(LOREM, k=rng.randint(5, 12))
        yield from f"{first.capitalize()} {' '.join(rest)}.".split()
