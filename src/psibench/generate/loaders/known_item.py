"""Position-controlled known-item queries, simulated without a language model.

Known-item topics can be simulated by drawing query terms from a model of the known document (L.
Azzopardi, M. de Rijke, K. Balog: Building Simulated Queries for Known-Item Topics, SIGIR 2007).
Here the model covers an evidence span inside one third of the document, and a term's probability is
the paper's mixture of popularity and discrimination, tf x log(N / df). Three additional rules make
scores by position depend on the retriever and not on the queries:

- The terms of a query occur in the known document only inside the evidence span. No other document
  has all of them within as many consecutive words as the known document has.
- A document gives queries for all three thirds, or none.
- Of many draws per third, the three that are most similar in discrimination (sum of the idf), term
  frequency and span length are kept.

Fenced code, badges, pictures and link targets of Markdown give no terms, and no evidence span has
code: nobody asks for the words of a badge's address.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from psibench.config.sources import DocumentSource
from psibench.generate.base import (
    BucketSchemes,
    Build,
    TextCorpus,
    complete_build,
    qrels_of_positives,
)
from psibench.generate.loaders import Loader, NothingLeftError
from psibench.generate.sampling import Passages, cut_into_passages, passages_flow
from psibench.sources.checks import refuse_repeated
from psibench.sources.documents import read_documents
from psibench.tables.build_schemas import CANDIDATES
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.text.lengths import TokenCounter
from psibench.text.markup import code_blocks, pictures_and_addresses
from psibench.text.segments import POSITIONS, inner_thirds
from psibench.text.words import Words, is_content_word, tokenise

_STAGE = "simulate_known_items"

QUERIES_SCHEMA: dict[str, Any] = {**CANDIDATES.empty().schema, "idf_sum": pl.Float64}
MIN_DOCUMENTS, MAX_SHARE = 2, 0.3
"""A term occurs in at least MIN_DOCUMENTS documents, which excludes names found in only one, and in
at most MAX_SHARE of them; one document is always allowed."""
MAX_SPREAD = 2.0
"""Largest spread of three matched draws: 1 is a difference of 1.0 in the sum of the idf, of one
occurrence, or of a quarter in span length (`match_thirds`)."""
MAX_SPAN_WORDS = 60
"""Most words of an evidence span."""
N_DRAWS = 48
"""Draws per third and query; the best matched three are kept."""
SCALES = np.array([1.0, 1.0, 0.25])
"""One unit of spread: in the sum of the terms' idf (natural logarithm), in occurrences of the
terms, and in the natural logarithm of the span's characters."""


class KnownItem(Loader):
    """Known-item queries simulated from each third of each passage, without an LLM."""

    queries_by: ClassVar[str] = "simulation"
    recipe: Literal["known_item"]
    source: DocumentSource | None = None
    corpora: list[TextCorpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; use instead of `source`."""
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""
    n_terms: int = Field(default=5, ge=1, le=20)
    """Words per query."""
    queries_per_third: int = Field(default=1, ge=1, le=20)
    """Queries drawn from each third of each passage."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline. Queries are matched only over
    thirds: finer schemes mix position with length (the position-blind control shows it)."""

    def build(self, count_tokens: TokenCounter) -> Build:
        """Read the source, cut it into passages and simulate queries."""
        assert self.source is not None
        source = read_documents(self.source)
        documents, left_out = source.documents, source.dropped
        flow = list(source.flow)
        refuse_repeated(documents, where=f"{self.domain}, {self.language}")
        if self.passages is not None:
            documents, too_short = cut_into_passages(documents, self.passages)
            left_out = pl.concat([left_out, too_short])
            flow.append(passages_flow(documents, too_short))
        queries, dropped = simulate_known_items(
            documents,
            seed=self.seed,
            n_terms=self.n_terms,
            queries_per_third=self.queries_per_third,
        )
        built = complete_build(
            documents,
            queries,
            qrels_of_positives(queries),
            pl.concat([left_out, dropped]),
            count_tokens=count_tokens,
            flow=[
                *flow,
                (_STAGE, Flow("queries", queries.height + dropped.height, queries.height)),
            ],
        )
        if queries.is_empty():
            raise NothingLeftError(
                f"{why_no_query(documents, dropped)} Change passages, n_terms or "
                "queries_per_third.",
                built,
            )
        return built


# Draws from an evidence span of one third


@dataclass(frozen=True)
class Draw:
    """One query: its text (terms in document order), its span, and the values for matching."""

    text: str
    start: int
    end: int
    idf_sum: float
    frequency: int


class LexicalIndex:
    """The words of all documents, the documents of every stem, and the stems that may be drawn.

    ``idf`` has log(N / df) of each stem that may be drawn: it occurs in at least `MIN_DOCUMENTS`
    documents, in at most `MAX_SHARE` of them, and not in all.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.words = [tokenise(text) for text in texts]
        self.code = [_is_in(words, code_blocks(text)) for words, text in self._words_and_texts()]
        self.markup = [
            of_code | _is_in(words, pictures_and_addresses(text))
            for of_code, (words, text) in zip(self.code, self._words_and_texts(), strict=True)
        ]
        self.documents_of: defaultdict[str, set[int]] = defaultdict(set)
        self._occurrences: dict[int, dict[str, np.ndarray]] = {}
        for number, words in enumerate(self.words):
            for stem in words.stems:
                self.documents_of[stem].add(number)
        n_documents = len(texts)
        most = min(max(1, int(MAX_SHARE * n_documents)), n_documents - 1)
        self.idf = {
            stem: float(np.log(n_documents / len(documents)))
            for stem, documents in self.documents_of.items()
            if MIN_DOCUMENTS <= len(documents) <= most
        }

    def _words_and_texts(self) -> Iterator[tuple[Words, str]]:
        return zip(self.words, self.texts, strict=True)

    def other_answer(self, number: int, stems: Sequence[str]) -> int | None:
        """Return another document with the stems as close together; None if no document has them.

        It has all of the stems within as many consecutive words as document ``number`` has.
        """
        holders = set.intersection(*(self.documents_of[stem] for stem in stems)) - {number}
        width = len(self.words[number])
        return next((one for one in sorted(holders) if self._are_within(one, stems, width)), None)

    def _are_within(self, number: int, stems: Sequence[str], width: int) -> bool:
        """Return whether some ``width`` consecutive words of a document contain all the stems."""
        if len(self.words[number]) <= width:
            return True
        if number not in self._occurrences:
            of_stems = occurrences_of_stems(self.words[number])
            self._occurrences[number] = {stem: np.array(at) for stem, at in of_stems.items()}
        occurrences = [self._occurrences[number][stem] for stem in stems]
        numbers = np.repeat(np.arange(len(occurrences)), [len(one) for one in occurrences])
        at = np.concatenate(occurrences)
        order = np.argsort(at)
        at, is_of = at[order], numbers[order] == np.arange(len(occurrences))[:, None]
        # Per occurrence, the latest occurrence of each stem so far; -width if it has not occurred.
        latest = np.maximum.accumulate(np.where(is_of, at, -width), axis=1).min(axis=0)
        return bool((at - latest < width).any())


def _is_in(words: Words, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return whether each word starts inside a span, shape (n_words,), bool."""
    found = np.zeros(len(words), dtype=bool)
    for start, end in spans:
        first, last = (bisect_left(words.starts, one) for one in (start, end))
        found[first:last] = True
    return found


def occurrences_of_stems(words: Words) -> dict[str, list[int]]:
    """Return the word numbers at which each stem occurs, ascending."""
    occurrences: defaultdict[str, list[int]] = defaultdict(list)
    for number, stem in enumerate(words.stems):
        occurrences[stem].append(number)
    return occurrences


@dataclass(frozen=True)
class _Terms:
    """Terms that may be drawn in one third, by first occurrence; ``last`` is inclusive."""

    stems: list[str]
    first: np.ndarray
    last: np.ndarray
    frequency: np.ndarray
    idf: np.ndarray


def _draw_queries(
    index: LexicalIndex,
    number: int,
    char_range: tuple[int, int],
    n_terms: int,
    n_queries: int,
    rng: np.random.Generator,
) -> list[Draw] | tuple[str, int | None]:
    """Draw ``N_DRAWS * n_queries`` queries from spans of one range of a document.

    Each draw takes a window uniformly from the windows with enough terms, then ``n_terms`` of its
    terms without replacement, with probability proportional to tf x idf. Returns the distinct draws
    that no other document answers; if there are none, a reason code and a document that answers
    them.
    """
    words = index.words[number]
    low = int(np.searchsorted(words.starts, char_range[0], side="left"))
    high = int(np.searchsorted(words.ends, char_range[1], side="right"))
    inside = range(low, max(low, high))
    if len(inside) < n_terms:
        return "text_too_short", None
    terms = _eligible_terms(index, number, inside)
    width = min(MAX_SPAN_WORDS, len(inside))
    windows = _windows_with(terms, n_terms, inside, width)
    if not len(windows):
        return "no_unambiguous_span", None
    starts = windows[rng.integers(len(windows), size=N_DRAWS * n_queries)][:, None]
    allowed = (terms.first >= starts) & (terms.last < starts + width)
    draws: dict[str, Draw] = {}
    other = None
    for chosen in _draw_terms(terms.frequency * terms.idf, allowed, n_terms, rng):
        if index.code[number][terms.first[chosen].min() : terms.last[chosen].max()].any():
            continue  # code between the terms
        answer = index.other_answer(number, [terms.stems[i] for i in chosen])
        if answer is None:
            draw = _as_draw(index.texts[number], words, terms, chosen)
            draws[draw.text] = draw
        else:
            other = answer
    if draws:
        return list(draws.values())
    return ("no_unambiguous_span" if other is None else "answerable_elsewhere"), other


def _windows_with(terms: _Terms, n_terms: int, inside: range, width: int) -> np.ndarray:
    """Return the first words of the windows that contain all occurrences of enough terms."""
    n_windows = len(inside) - width + 1
    first = np.maximum(terms.last - width + 1 - inside.start, 0)  # window that holds a term
    last = np.minimum(terms.first - inside.start, n_windows - 1)
    fits = first <= last
    begins = np.bincount(first[fits], minlength=n_windows + 1)
    ends = np.bincount(last[fits] + 1, minlength=n_windows + 1)
    return np.flatnonzero(np.cumsum(begins - ends)[:n_windows] >= n_terms) + inside.start


def _eligible_terms(index: LexicalIndex, number: int, inside: range) -> _Terms:
    """Find the content words of a range that occur nowhere else in the document, nor in markup."""
    words, text, is_markup = index.words[number], index.texts[number], index.markup[number]
    occurrences = occurrences_of_stems(words)
    rows = []
    for stem in dict.fromkeys(words.stems[i] for i in inside):
        first, last = occurrences[stem][0], occurrences[stem][-1]
        is_inside = inside.start <= first and last < inside.stop
        word = text[words.starts[first] : words.ends[first]]
        is_prose = not is_markup[occurrences[stem]].any()
        if is_inside and is_prose and stem in index.idf and is_content_word(word):
            rows.append((stem, first, last, len(occurrences[stem]), index.idf[stem]))
    numbers = np.array([row[1:4] for row in rows], dtype=np.int64).reshape(-1, 3)
    idf = np.array([row[4] for row in rows], dtype=np.float64)
    stems = [row[0] for row in rows]
    return _Terms(stems, numbers[:, 0], numbers[:, 1], numbers[:, 2], idf)


def _draw_terms(
    weights: np.ndarray, allowed: np.ndarray, n_terms: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw ``n_terms`` of the allowed terms per row, without replacement, by weight.

    Taking the largest keys ``log(weight) + Gumbel noise`` draws without replacement with
    probability proportional to the (n_terms_in_all,) weights. ``allowed``, (n_draws,
    n_terms_in_all), marks the terms that each draw may use, at least ``n_terms`` in each row.
    Returns term numbers, ascending in each row.
    """
    keys = np.where(allowed, np.log(weights) + rng.gumbel(size=allowed.shape), -np.inf)
    return np.sort(np.argsort(-keys, axis=1, kind="stable")[:, :n_terms], axis=1)


def _as_draw(text: str, words: Words, terms: _Terms, chosen: np.ndarray) -> Draw:
    """Return the query of the chosen terms; its span covers all their occurrences."""
    surface = [text[words.starts[i] : words.ends[i]] for i in terms.first[chosen]]
    return Draw(
        text=" ".join(surface),
        start=words.starts[int(terms.first[chosen].min())],
        end=words.ends[int(terms.last[chosen].max())],
        idf_sum=float(terms.idf[chosen].sum()),
        frequency=int(terms.frequency[chosen].sum()),
    )


# Draws of equal difficulty, one per third


def match_thirds(
    thirds: Sequence[Sequence[Draw]], n_matches: int
) -> list[tuple[tuple[Draw, ...], float]]:
    """Choose at most ``n_matches`` triples of similar draws, one draw per third.

    Returns (triple, spread). The spread is the largest difference between two draws of the triple
    in any matched value, in units of `SCALES`. The candidates are, for every draw, the triple that
    it makes with the nearest draw of each other third. Triples are chosen greedily, and each draw
    is used once. If a third has no draws, the list is empty.
    """
    matches: list[tuple[tuple[Draw, ...], float]] = []
    features = [_features(draws) for draws in thirds]
    between = {
        (one, two): _distances(features[one], features[two])
        for one, two in combinations(range(3), 2)
    }
    while len(matches) < min(n_matches, *map(len, thirds)):
        triple, spread = _closest_triple(features, between)
        draws = tuple(of_third[triple[third]] for third, of_third in enumerate(thirds))
        matches.append((draws, spread))
        for (one, two), distances in between.items():  # used draws match no other draw
            distances[triple[one]] = distances[:, triple[two]] = np.inf
    return matches


def _features(draws: Sequence[Draw]) -> np.ndarray:
    """Return the matched values in units of `SCALES`, shape (n_draws, 3), float64."""
    rows = [(draw.idf_sum, draw.frequency, np.log(draw.end - draw.start)) for draw in draws]
    return np.array(rows, dtype=np.float64).reshape(-1, 3) / SCALES


def _closest_triple(
    features: Sequence[np.ndarray], between: Mapping[tuple[int, int], np.ndarray]
) -> tuple[dict[int, int], float]:
    """Return the closest triple of nearest neighbours (third -> draw), and its spread.

    ``between`` has the distances between the draws of two thirds, infinite for used draws. The
    spread is the largest of the three pairwise distances. In a tie the earlier third is the anchor,
    then the earlier draw wins.
    """
    best: dict[int, int] = {}
    best_spread = np.inf
    for anchor in range(3):
        one, two = (third for third in range(3) if third != anchor)
        to_one, to_two = (
            between[anchor, other] if anchor < other else between[other, anchor].T
            for other in (one, two)
        )
        near_one, near_two = to_one.argmin(axis=1), to_two.argmin(axis=1)
        apart = np.abs(features[one][near_one] - features[two][near_two]).max(axis=1)
        spread = np.maximum(np.maximum(to_one.min(axis=1), to_two.min(axis=1)), apart)
        number = int(spread.argmin())
        if spread[number] < best_spread:
            best = {anchor: number, one: int(near_one[number]), two: int(near_two[number])}
            best_spread = float(spread[number])
    return best, best_spread


def _distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return all distances in the maximum norm, shape (n_left, n_right), float64."""
    distances = np.zeros((len(left), len(right)))
    for one, other in zip(left.T, right.T, strict=True):
        np.maximum(distances, np.abs(one[:, None] - other), out=distances)
    return distances


# Queries of all documents


def simulate_known_items(
    documents: pl.DataFrame,
    *,
    seed: int,
    n_terms: int = 5,
    queries_per_third: int = 1,
    every: int = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Simulate known-item queries whose evidence lies in a chosen third of a document.

    Parameters
    ----------
    documents
        DOCUMENTS table (`_id`, `text`); ids are unique.
    seed
        Seed of all draws, at least 0; every document has a separate stream of random numbers.
    n_terms, queries_per_third
        Terms of a query, and queries for each third of each document, at least 1.
    every
        Simulate queries of every n-th document only, to count them; all documents may answer them.

    Returns
    -------
    Queries, and dropped rows of planned queries that could not be made, both in order of the
    documents, then of the thirds: together ``3 * queries_per_third`` per simulated document.
    Queries have ``QUERIES_SCHEMA``: ``answer`` is the span's text, ``idf_sum`` the discrimination
    of the terms.
    The reasons of dropped rows, in the order of the checks:

    - ``text_too_short``: the third has fewer words than a query.
    - ``no_unambiguous_span``: no span of the third has enough terms that occur nowhere else in the
      text, without code between them.
    - ``answerable_elsewhere``: every query drawn is matched in full by another document, within as
      many consecutive words as this one has (detail: the id of one such document).
    - ``unmatched``: too few triples of draws are similar enough (score: the largest spread of the
      triples found).
    - ``unbalanced``: the document failed at another third.
    """
    texts = documents["text"].to_list()
    index = LexicalIndex(texts)
    queries: list[tuple[object, ...]] = []
    dropped: list[Dropped] = []
    rows = list(enumerate(documents.select("_id", "text").iter_rows()))
    for number, (doc_id, text) in rows[::every]:
        rng = np.random.default_rng([seed, *doc_id.encode()])
        drawn = {
            position: _draw_queries(index, number, char_range, n_terms, queries_per_third, rng)
            for position, char_range in inner_thirds(len(text)).items()
        }
        reasons = {position: found for position, found in drawn.items() if isinstance(found, tuple)}
        worst, matched = None, []
        if not reasons:
            thirds = [found for found in drawn.values() if not isinstance(found, tuple)]
            matched = match_thirds(thirds, queries_per_third)
            worst = max(spread for _, spread in matched)
            if len(matched) < queries_per_third or worst > MAX_SPREAD:
                reasons = dict.fromkeys(POSITIONS, ("unmatched", None))
        for (third, position), k in product(enumerate(POSITIONS), range(queries_per_third)):
            item_id = f"{doc_id}-{position}-{k + 1}"
            if reasons:
                reason, other = reasons.get(position, ("unbalanced", None))
                detail = None if other is None else documents["_id"][other]
                lost = (item_id, doc_id, reason, detail, worst, position, len(text))
                dropped.append(Dropped(_STAGE, "queries", *lost))
            else:
                draw = matched[k][0][third]
                span, answer = [draw.start, draw.end], text[draw.start : draw.end]
                queries.append((item_id, draw.text, doc_id, span, position, answer, draw.idf_sum))
    return pl.DataFrame(queries, QUERIES_SCHEMA, orient="row"), dropped_frame(dropped)


NO_QUERY = "no known-item query"


def why_no_query(documents: pl.DataFrame, dropped: pl.DataFrame) -> str:
    """Return a message that documents gave no query, with the reasons."""
    if documents.is_empty():
        return f"{NO_QUERY}: no passage has min_words to max_words words."
    counts = dropped["reason"].value_counts(sort=True).sort("count", "reason", descending=True)
    listed = ", ".join(f"{reason} {count}" for reason, count in counts.iter_rows())
    return (
        f"{NO_QUERY} from {documents.height} documents; planned queries dropped: {listed} "
        "(see docs/own-corpus.md for remedies)."
    )
