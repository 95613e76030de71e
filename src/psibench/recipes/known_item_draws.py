"""Drawing one known-item query from an evidence span of a document's third."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from psibench.errors import InputError
from psibench.text.words import Words, is_content_word, tokenise


@dataclass(frozen=True)
class DrawRules:
    """What a query is drawn from; the fields are explained at `simulate_known_items`."""

    n_terms: int
    max_span_words: int
    n_draws: int
    min_document_frequency: int
    max_document_share: float

    def check(self) -> None:
        """Raise InputError where a field is out of its range."""
        if not 1 <= self.n_terms <= self.max_span_words or self.n_draws < 1:
            raise InputError(
                f"n_terms={self.n_terms}, max_span_words={self.max_span_words}, "
                f"n_draws={self.n_draws}; allowed: 1 <= n_terms <= max_span_words, n_draws >= 1"
            )
        if self.min_document_frequency < 1 or not 0 < self.max_document_share <= 1:
            raise InputError(
                f"min_document_frequency={self.min_document_frequency}, "
                f"max_document_share={self.max_document_share}; allowed: at least 1, and (0, 1]"
            )


@dataclass(frozen=True)
class Draw:
    """One query: its text (terms in the order of the document), its span, what matching needs."""

    text: str
    start: int
    end: int
    idf_sum: float
    frequency: int


@dataclass(frozen=True)
class LexicalIndex:
    """The words of all documents, and the documents of every stem."""

    texts: list[str]
    words: list[Words]
    documents_of: dict[str, set[int]]

    @classmethod
    def build(cls, texts: list[str], *, language: str) -> "LexicalIndex":
        """Tokenise and stem ``texts``; document numbers are their indices."""
        words = [tokenise(text, language=language) for text in texts]
        documents_of: dict[str, set[int]] = defaultdict(set)
        for number, found in enumerate(words):
            for stem in found.stems:
                documents_of[stem].add(number)
        return cls(texts, words, dict(documents_of))

    def idf(self, stem: str) -> float:
        """Give log(N / df) of a stem of the collection: 0 where every document has it."""
        return float(np.log(len(self.texts) / len(self.documents_of[stem])))

    def is_answered_by_one(self, stems: list[str]) -> bool:
        """Say whether exactly one document holds all the stems."""
        sets = sorted((self.documents_of[stem] for stem in stems), key=len)
        return len(set.intersection(*sets)) == 1


@dataclass(frozen=True)
class _Terms:
    """Terms that may be drawn in one third, by first occurrence; word numbers, last inclusive."""

    stems: list[str]
    first: np.ndarray
    last: np.ndarray
    frequency: np.ndarray
    idf: np.ndarray


def draw_queries(
    index: LexicalIndex,
    number: int,
    char_range: tuple[int, int],
    rules: DrawRules,
    n_queries: int,
    rng: np.random.Generator,
) -> list[Draw] | str:
    """Draw ``rules.n_draws * n_queries`` queries from spans of one range of a document.

    A span's window is placed uniformly among those that hold enough terms; of its terms,
    ``n_terms`` are drawn without replacement with probability proportional to tf x idf.

    Returns
    -------
    list of Draw, or str
        The distinct draws that no other document answers; or the reason code why there is none.
    """
    words = index.words[number]
    inside = _words_inside(words, char_range)
    if len(inside) < rules.n_terms:
        return "text_too_short"
    terms = _eligible_terms(index, number, inside, rules)
    windows = _windows(terms, inside, rules)
    if not len(windows):
        return "no_unambiguous_span"
    allowed = windows[rng.integers(len(windows), size=rules.n_draws * n_queries)]
    draws: dict[str, Draw] = {}
    for chosen in _draw_terms(terms.frequency * terms.idf, allowed, rules.n_terms, rng):
        if index.is_answered_by_one([terms.stems[i] for i in chosen]):
            draw = _draw(index.texts[number], words, terms, chosen)
            draws[draw.text] = draw
    return list(draws.values()) or "answerable_elsewhere"


def _draw_terms(
    weights: np.ndarray, allowed: np.ndarray, n_terms: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw ``n_terms`` of the allowed terms per row, without replacement, by weight.

    The largest keys ``log(weight) + Gumbel noise`` are a draw without replacement with
    probability proportional to the weights.

    Parameters
    ----------
    weights
        Positive weights, shape (n_terms_in_all,), float64.
    allowed
        Which terms a draw may use, shape (n_draws, n_terms_in_all), bool; enough in each row.

    Returns
    -------
    numpy.ndarray
        Term numbers, ascending in each row, shape (n_draws, n_terms), int64.
    """
    keys = np.where(allowed, np.log(weights) + rng.gumbel(size=allowed.shape), -np.inf)
    return np.sort(np.argsort(-keys, axis=1, kind="stable")[:, :n_terms], axis=1)


def _words_inside(words: Words, char_range: tuple[int, int]) -> range:
    """Give the numbers of the words that lie wholly in a range of characters."""
    low = int(np.searchsorted(words.starts, char_range[0], side="left"))
    high = int(np.searchsorted(words.ends, char_range[1], side="right"))
    return range(low, max(low, high))


def _eligible_terms(index: LexicalIndex, number: int, inside: range, rules: DrawRules) -> _Terms:
    """Find the content words of a range that occur nowhere else in the document."""
    words, text = index.words[number], index.texts[number]
    occurrences: dict[str, list[int]] = defaultdict(list)
    for i, stem in enumerate(words.stems):
        occurrences[stem].append(i)
    most = max(1, int(rules.max_document_share * len(index.texts)))
    rows = []
    for stem in dict.fromkeys(words.stems[i] for i in inside):
        first, last = occurrences[stem][0], occurrences[stem][-1]
        if not (inside.start <= first and last < inside.stop):
            continue
        frequency = len(index.documents_of[stem])
        if not rules.min_document_frequency <= frequency <= most or index.idf(stem) <= 0:
            continue
        if is_content_word(text[words.starts[first] : words.ends[first]]):
            rows.append((stem, first, last, len(occurrences[stem]), index.idf(stem)))
    numbers = np.array([row[1:4] for row in rows], dtype=np.int64).reshape(-1, 3)
    return _Terms(
        stems=[row[0] for row in rows],
        first=numbers[:, 0],
        last=numbers[:, 1],
        frequency=numbers[:, 2],
        idf=np.array([row[4] for row in rows], dtype=np.float64),
    )


def _windows(terms: _Terms, inside: range, rules: DrawRules) -> np.ndarray:
    """Give, per window of words with enough terms, which terms lie wholly in it.

    Returns
    -------
    numpy.ndarray
        Shape (n_windows, n_terms_in_all), bool.
    """
    width = min(rules.max_span_words, len(inside))
    starts = np.arange(inside.start, inside.stop - width + 1)[:, None]
    held = (terms.first >= starts) & (terms.last < starts + width)
    return held[held.sum(axis=1) >= rules.n_terms]


def _draw(text: str, words: Words, terms: _Terms, chosen: np.ndarray) -> Draw:
    """Make the query of the chosen terms; its span runs from first to last occurrence of any."""
    surface = [text[words.starts[i] : words.ends[i]] for i in terms.first[chosen]]
    return Draw(
        text=" ".join(surface),
        start=words.starts[int(terms.first[chosen].min())],
        end=words.ends[int(terms.last[chosen].max())],
        idf_sum=float(terms.idf[chosen].sum()),
        frequency=int(terms.frequency[chosen].sum()),
    )
