"""Texts varied at known places: what the probes compare.

Every function takes a text and returns variants of it, each with its place and the altered part,
or raises `UnfitError` with a reason: nothing is left out silently. Offsets are 0-based indices into
the Python ``str``, ends exclusive. Sentences are those of `text.sentences.sentence_spans`: they end
at a mark or a line's end, in any script.

A cut that no sentence end is near is made between words, and where a script has no blanks between
characters as a reader counts them (grapheme clusters): an emoji or a letter with its accents stays
whole. Only `segments` counts characters alone, as its papers do.
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
"""What stands between inserted text and the document."""
GRAPHEME = regex.compile(r"\X")
WORD = regex.compile(r"(?<=\s)\S")


class UnfitError(ValueError):
    """A text that a variant cannot be made of; the message is the reason, a few words."""


@dataclass(frozen=True)
class Variant:
    """A text with an alteration at a known place, from 1; 0 is the text as it was.

    ``part`` is the altered part: characters of ``text`` where something was put in or moved
    (``is_part_inside``), of the reference where something was cut out of it.
    """

    text: str
    place: int
    part: Span
    is_part_inside: bool


def segments(text: str, cut: int | Sequence[float]) -> list[Variant]:
    """Cut a text into segments, by characters (PosQ; Controlled, section 6.3).

    ``cut`` is a number of equal segments, or where to cut: shares of the characters, rounded down,
    as the (.333, .666) of PosQ's script.

    Raises
    ------
    UnfitError
        If a segment has nothing but white space: the text is too short.
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
    """Put a filler at the beginning, in the middle and at the end (Needles, section 3.1.1).

    The middle is the sentence boundary nearest the middle character. The filler is a paragraph of
    its own; nothing of the text changes but white space where it is put in.

    Raises
    ------
    UnfitError
        If the text or the filler is blank, or the text is one character.
    """
    if not text.strip() or not filler.strip():
        raise UnfitError("no text")
    cut = soft_cut(text, len(text) // 2, reach=len(text))
    if cut is None:
        raise UnfitError("no place inside the text")
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
    """Take sentences away from the beginning, the middle and the end (Needles, section 3.1.2).

    A share of the sentences, rounded up. In the middle they are those around the middle sentence;
    where they cannot be centred, one more is left behind them than before.

    Raises
    ------
    UnfitError
        If fewer than two sentences would be left, so that there is no middle to take from.
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
    """Cut the evidence out and put it in again at evenly spaced places (Controlled, section 6.2).

    The span is widened to whole sentences. The other sentences stay as they are and in order. Place
    1 is before them all, the last behind them, the others at the sentence boundaries nearest to
    evenly spaced characters of what is left; a text of few sentences has places that share one.

    Returns
    -------
    list
        Place 0, the text as it is, and places 1 to ``n_places``; ``part`` is where the evidence is.

    Raises
    ------
    UnfitError
        If the span holds no sentence, or the evidence is the whole text.
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
    """A text whose pieces are in another order; ``moved[k]`` is where piece ``k`` went."""

    text: str
    moved: tuple[Span, ...]


def permuted(text: str, pieces: Sequence[Span], order: Sequence[int]) -> Permuted:
    """Put the pieces of a text in another order: the numbers of those that come first, second, ...

    ``pieces`` are [start, end) in order, without overlap. What is between them stays: the gap
    behind the first piece is behind the piece that comes first now.
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

    Cuts are made at equal numbers of characters; unless ``is_exact``, each is moved by at most a
    quarter of a segment to the nearest sentence boundary, else between words, else between grapheme
    clusters.

    Returns
    -------
    segments, reversed
        The segments of ``text``, and the text with the last one first. Unless ``is_exact``, white
        space at their ends is in no segment and stays where it is.

    Raises
    ------
    UnfitError
        If a segment would be blank: the text is too short.
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
    """Return where a span's characters are in a permuted text, piece by piece in their old order.

    A span across a cut comes apart; white space at a cut is in no piece.
    """
    pieces = []
    for (start, end), (moved, _) in zip(segments, order.moved, strict=True):
        low, high = max(start, span[0]), min(end, span[1])
        if low < high:
            pieces.append((moved + low - start, moved + high - start))
    return pieces


def soft_cut(text: str, at: int, *, reach: int) -> int | None:
    """Return the best place to cut near a character: where a sentence, else a word begins.

    Without either within ``reach`` characters, where the nearest grapheme cluster does. There is
    text on both sides of the cut; None where there is no such place: a blank text, or one cluster.
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


# --- What insertions put in --------------------------------------------------------------------

LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut "
    "labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris "
    "nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse "
    "cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt culpa qui "
    "officia deserunt mollit anim id est laborum"
).split()


def filler(n_tokens: int, *, key: str, count_tokens: TokenCounter) -> str:
    """Write a text of about so many tokens, about nothing: Lorem ipsum (Needles, section 3.1.1).

    Sentences of its words in random order. ``key`` decides the text, and nothing of the document;
    the text of fewer tokens is the beginning of that of more. It comes near to
    ``n_tokens`` (special ones left out) to half a word, as words are not cut.
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
