"""Sentences of a text, aligned with those of its translation by their lengths alone.

The method of Gale and Church (A program for aligning sentences in bilingual corpora, Computational
Linguistics 19, 1993): long sentences become long ones. Out of all sequences of beads (one sentence
for one, two for one, one for none, ...) the cheapest is found by dynamic programming; a bead costs
the negative log of its prior and of the probability of so unequal lengths.

One thing differs: a sentence without a counterpart costs its prior alone, however long it is. In
the paper it costs what so unequal lengths do, so that a sentence left out is rather taken together
with its neighbour; studies/cleaning has figures.

A sentence ends at a line's end, at a mark of Chinese or Japanese wherever it stands, and at a mark
of other scripts (Latin, Cyrillic, Arabic, Urdu, Devanagari, Korean) before white space. A full stop
ends none after an initial or a common abbreviation, nor before a lower-case letter. No list of
abbreviations is whole: what aligns sentences allows for two taken as one.
"""

import re
from dataclasses import dataclass
from math import log

import numpy as np

PRIORS = {
    (1, 1): 0.89,
    (1, 0): 0.0099 / 2,
    (0, 1): 0.0099 / 2,
    (2, 1): 0.089 / 2,
    (1, 2): 0.089 / 2,
    (2, 2): 0.011,
    (3, 1): 0.004,
    (1, 3): 0.004,
}
"""(sentences of the text, of the translation) -> probability of a bead; the first six are Gale and
Church's, those of three are added for languages that run sentences together."""

VARIANCE = 6.8
"""Variance of a sentence's length in translation per character of it, where a translation has as
many characters as the text (the paper's)."""

MOST_CELLS = 4_000_000
"""Largest table, sentences times sentences: about 350 MB."""


@dataclass(frozen=True)
class Bead:
    """Sentences that were aligned: ``source`` and ``target`` are ranges [start, end) of them.

    ``cost`` is the negative log of the probability of their lengths, without the prior.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    cost: float


def align_lengths(source: np.ndarray, target: np.ndarray, *, ratio: float) -> list[Bead]:
    """Align two sequences of sentences by their lengths: beads in order, every sentence in one.

    ``source`` and ``target`` are (n_source,) and (n_target,) lengths of the sentences, characters,
    each above 0; ``ratio`` is how many characters a translation has per character of the text. Of
    equal costs the bead that stands first in ``PRIORS``. Empty if both are empty.
    """
    n, m = len(source), len(target)
    costs = {shape: _bead_costs(source, target, shape, ratio) for shape in PRIORS}
    chosen = _cheapest(n, m, costs)
    beads: list[Bead] = []
    shapes = list(PRIORS)
    i, j = n, m
    while i or j:
        a, b = shapes[chosen[i, j]]
        cost = float(costs[a, b][i - a, j - b]) + log(PRIORS[a, b])
        beads.append(Bead((i - a, i), (j - b, j), cost))
        i, j = i - a, j - b
    return beads[::-1]


def _bead_costs(
    source: np.ndarray, target: np.ndarray, shape: tuple[int, int], ratio: float
) -> np.ndarray:
    """Cost of a bead of this shape that begins at (i, j): (n - a + 1, m - b + 1)."""
    from scipy.special import log_ndtr

    a, b = shape
    before_s, before_t = _sums(source), _sums(target)
    n, m = len(source), len(target)
    if n < a or m < b:
        return np.empty((max(n - a + 1, 0), max(m - b + 1, 0)))
    if not a or not b:  # nothing to compare
        return np.full((n - a + 1, m - b + 1), -log(PRIORS[shape]))
    from_source = (before_s[a:] - before_s[: n - a + 1])[:, None]
    from_target = (before_t[b:] - before_t[: m - b + 1])[None, :]
    mean = (from_source + from_target / ratio) / 2
    delta = np.abs(from_target - from_source * ratio) / (ratio * np.sqrt(mean * VARIANCE))
    # -log P(a normal variable is as far out as delta, on either side)
    tail: np.ndarray = log_ndtr(-delta) + log(2)
    return -tail - log(PRIORS[shape])


def _cheapest(n: int, m: int, costs: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Return by which bead the first i and the first j sentences end best: (n + 1, m + 1).

    The table of costs is filled row by row.

    Within a row only beads (0, 1) depend on each other; their cost does not depend on the row, so
    a running minimum of what is left when their sum is taken off does it.
    """
    best = np.full((n + 1, m + 1), np.inf)
    chosen = np.zeros((n + 1, m + 1), dtype=np.int8)
    insertion = list(PRIORS).index((0, 1))
    inserted = np.concatenate([[0.0], np.cumsum(costs[0, 1][0])])
    for i in range(n + 1):
        row = best[i]
        if i == 0:
            row[0] = 0.0
        for place, (a, b) in enumerate(PRIORS):
            if a == 0 or a > i or b > m:
                continue
            cost = best[i - a, : m + 1 - b] + costs[a, b][i - a]
            is_cheaper = cost < row[b:]
            row[b:][is_cheaper] = cost[is_cheaper]
            chosen[i, b:][is_cheaper] = place
        reached = np.minimum.accumulate(row - inserted) + inserted
        is_cheaper = reached < row - 1e-9
        row[is_cheaper] = reached[is_cheaper]
        chosen[i][is_cheaper] = insertion
    return chosen


def _sums(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(lengths, dtype=np.float64)])


# --- sentences in any of the scripts that benchmarks are translated to

_CLOSERS = "\"'”’»›)\\]」』）】"
_END = re.compile(
    rf"(?P<cjk>[。！？｡]+[{_CLOSERS}]*)|(?P<mark>[.!?…؟۔।॥]+[{_CLOSERS}]*)(?=\s)|(?P<line>\n)"
)
_INITIAL = re.compile(r"(?:^|[\s.(])[^\W\d_]\.$")
_WORD = re.compile(r"(\S+)\.$")
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs etc no vol pp fig e.g i.e u.s u.n approx dept inc ltd co gen col
    sra sres núm pág ee.uu p.ej d.c a.c m mme mlle p.ex av env c.-à-d z.b bzw usw ca d.h nr bd evtl
    sig sig.ra dott ecc es pag n.chr v.chr т.е т.д т.п т.к г гг в вв им ул руб тыс млн млрд др пр см
    """.split()
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Find the sentences of a text: (start, end) in characters, in order.

    They are without white space at their ends, and only white space is between them. A blank text
    has none.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for found in _END.finditer(text):
        if found.lastgroup == "mark" and not _ends(text, start, found):
            continue
        _add(spans, text, start, found.end())
        start = found.end()
    _add(spans, text, start, len(text))
    return spans


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """Say whether a mark before white space ends a sentence."""
    if found.group() != ".":
        return True
    before = text[start : found.end()]
    word = _WORD.search(before)
    if _INITIAL.search(before) or (word and word[1].lower().lstrip("(") in _ABBREVIATIONS):
        return False
    following = text[found.end() : found.end() + 20].lstrip()
    return not following[:1].islower()


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    bare = piece.strip()
    if bare:
        at = start + len(piece) - len(piece.lstrip())
        spans.append((at, at + len(bare)))
