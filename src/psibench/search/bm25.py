"""BM25 with the formulas and the search of bm25s, and how texts are cut into terms.

English is cut exactly as bm25s does by default. Other languages are first brought to Unicode's
NFKC form, and their combining marks (vowel signs of Hindi, say) are parts of words. Scripts
written without spaces are indexed as overlapping pairs of characters, beside whole words of other
scripts, as Lucene's CJK analyser does. Every document is scored, so that ties have one order.

bm25s 0.3.16 cuts and indexes one document after another in Python, with numba too. Its index is
made here of one sparse matrix of counts, and holds the same numbers.
"""

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, get_args

import numpy as np
import regex

from psibench.config.models import Bm25Model, StopWordLanguage
from psibench.errors import InputError
from psibench.progress import Progress
from psibench.search.ranking import BestDocuments, Groups, TopK
from psibench.text.languages import UNSPACED, UNSPACED_SCRIPTS, language_name


@dataclass(frozen=True)
class Tokenizer:
    """Cuts texts into terms: words, or pairs of characters, without stop words, as their stems."""

    split: Callable[[str], list[str]]
    stop_words: frozenset[str]
    stemmer: Any
    """PyStemmer's; None: words are terms."""

    def words(self, text: str) -> list[str]:
        """Return the words of one text that are no stop words."""
        return [word for word in self.split(text) if word not in self.stop_words]

    def stems(self, words: list[str]) -> list[str]:
        """Return the term of each word."""
        return words if self.stemmer is None else list(self.stemmer.stemWords(words))

    def __call__(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text, in order."""
        return [self.stems(self.words(text)) for text in texts]


AUTO = "auto"
ENGLISH = "english"

OTHER_NAMES = {"norwegian bokmål": "norwegian", "southern sotho": "sesotho"}
"""Names that PyStemmer and bm25s have otherwise than CLDR."""
STOP_WORD_LANGUAGES: tuple[str, ...] = get_args(StopWordLanguage)


def bm25_tokenizer(entry: Bm25Model, language: str) -> Tokenizer:
    """Return what cuts texts into terms as an entry wants them.

    Parameters
    ----------
    entry : its stemmer and stop words are names as PyStemmer and bm25s have them; ``auto``: those
        of the language, where there are any; None for none.
    language : language and script of the texts searched, as in ``eng-Latn``.

    Raises
    ------
    InputError
        If there is no stemmer of that name.
    """
    import Stemmer

    code, _, script = language.partition("-")
    name, supported = language_name(language).lower(), Stemmer.algorithms()
    name = OTHER_NAMES.get(name, name)
    stemmer, stopwords = entry.stemmer, entry.stopwords
    if stemmer == AUTO:
        stemmer = name if name in supported else None
    if stemmer is not None and stemmer not in supported:
        raise InputError(
            f"stemmer {stemmer!r} is unknown. Supported: {', '.join(supported)}, auto, or null"
        )
    stems = None if stemmer is None else Stemmer.Stemmer(stemmer)
    if stopwords == AUTO:
        # Stop words are words; a pair of characters is none, so `auto` takes out nothing there.
        is_listed = name in STOP_WORD_LANGUAGES and script not in UNSPACED_SCRIPTS
        stopwords = name if is_listed else None  # type: ignore[assignment]
    words = _english_words if code == "eng" else _words
    return Tokenizer(_pairs if script in UNSPACED_SCRIPTS else words, _stop_words(stopwords), stems)


def _stop_words(name: str | None) -> frozenset[str]:
    from bm25s import stopwords

    if name is None:
        return frozenset()
    return frozenset(getattr(stopwords, f"STOPWORDS_{'EN' if name == ENGLISH else name.upper()}"))


def _english_words(text: str) -> list[str]:
    return _ENGLISH_WORD.findall(text.lower())


def _words(text: str) -> list[str]:
    return _WORD.findall(_folded(text).lower())


def _pairs(text: str) -> list[str]:
    """Overlapping pairs of neighbouring characters; a single one, or another word, as it is."""
    found: list[str] = []
    for piece in _PIECE.finditer(_folded(text).lower()):
        run = piece[1] or ""
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [piece[0]]
    return found


def _folded(text: str) -> str:
    """One form for texts that look the same: composed accents, full-width letters as others."""
    return unicodedata.normalize("NFKC", text)


_ENGLISH_WORD = re.compile(r"\b\w\w+\b")  # bm25s' default
_WORD = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}\p{Mn}\p{Mc}_]+")
"""Two or more characters, as bm25s; combining marks count as characters."""
_PIECE = regex.compile(
    rf"(?V1)([[\p{{L}}\p{{M}}\p{{N}}_]&&[{UNSPACED}]]+)|[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+"
)
"""A run of characters of scripts without spaces (group 1), or another word."""


DEFAULT_LANGUAGE = "eng-Latn"
BLOCK = 1 << 20  # scores computed at once, in float64


@dataclass(frozen=True)
class Bm25Index:
    """Documents indexed by bm25s, and how their queries are cut into terms."""

    index: Any
    tokenize: Tokenizer


def search_bm25(
    entry: Bm25Model,
    documents: Sequence[str],
    queries: Sequence[str],
    *,
    k: int,
    language: str = DEFAULT_LANGUAGE,
) -> TopK:
    """Score every document for every query and keep the best ``k`` that share a term with it.

    Documents come in the order that ties have (see `TopK`): among equal scores the first one wins.
    A document without any term of the query is not retrieved, so a row may have fewer than ``k``.

    Parameters
    ----------
    language : of the documents; queries of another language are cut into terms as they are.

    Raises
    ------
    InputError
        If no document holds an indexable term.
    """
    return search_index(build_index(entry, documents, language=language), queries, k=k)


def build_index(entry: Bm25Model, documents: Sequence[str], *, language: str) -> Bm25Index:
    """Index documents; see `search_bm25`.

    The scores are those that `bm25s.BM25.index` stores, computed in its precision.
    """
    import bm25s
    from bm25s import scoring

    tokenize = bm25_tokenizer(entry, language)
    counts, terms = _count_terms(tokenize, documents)
    if not terms:
        raise InputError("BM25: no document holds a term; is the corpus text in this language?")
    lengths = np.bincount(counts.indices, weights=counts.data, minlength=len(documents))
    average = lengths.mean()
    weigh = partial(
        scoring._select_tfc_scorer(entry.method),
        l_avg=average, k1=entry.k1, b=entry.b, delta=entry.delta,
    )  # fmt: skip
    score_idf = scoring._select_idf_scorer(entry.method)
    holding = np.diff(counts.indptr)
    idf = np.array([score_idf(n, N=len(documents)) for n in holding.tolist()])
    index = bm25s.BM25(method=entry.method)
    absent = np.zeros_like(idf)
    index.nonoccurrence_array = None
    if entry.method in index.methods_requiring_nonoccurrence:
        absent = idf * weigh(0, l_d=average)
        index.nonoccurrence_array = absent.astype(np.float32)
    factors, bases = (np.repeat(each.astype(np.float32), holding) for each in (idf, absent))
    for start in range(0, counts.nnz, BLOCK):
        some = slice(start, start + BLOCK)
        weights = weigh(counts.data[some], l_d=lengths[counts.indices[some]])
        counts.data[some] = weights * factors[some] - bases[some]
    index.vocab_dict = terms
    index.scores = {
        "data": counts.data, "indices": counts.indices, "indptr": counts.indptr,
        "num_docs": len(documents),
    }  # fmt: skip
    return Bm25Index(index, tokenize)


def _count_terms(tokenize: Tokenizer, documents: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Count the terms of documents.

    Returns a scipy CSC array (n_documents, n_terms), float32, and the column of each term.
    """
    from scipy.sparse import csr_array, get_index_dtype

    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    found, ends = array("i"), array("q", [0])
    for text in documents:
        found.extend(map(numbers.__getitem__, tokenize.words(text)))
        ends.append(len(found))
    columns: dict[str, int] = {}
    stems = tokenize.stems(list(numbers))
    column = np.array([columns.setdefault(stem, len(columns)) for stem in stems], dtype=np.int32)
    places = np.asarray(found)
    places[:] = column[places]
    ones = np.ones(len(places), dtype=np.float32)
    shape = (len(documents), len(columns))
    starts = np.asarray(ends, dtype=get_index_dtype(maxval=len(places)))
    counts = csr_array((ones, places, starts), shape=shape).tocsc()
    counts.sum_duplicates()
    return counts, columns


def search_index(built: Bm25Index, queries: Sequence[str], *, k: int) -> TopK:
    """Search indexed documents; see `search_bm25`."""
    index = built.index
    best = BestDocuments(k, Groups.of_sizes([len(queries)], [index.scores["num_docs"]]))
    with Progress("searching bm25", total=len(queries), unit="queries") as progress:
        for row, tokens in enumerate(built.tokenize(queries)):
            progress.advance(1)
            known = [token for token in tokens if token in index.vocab_dict]
            if not known:
                continue
            scores = index.get_scores(known)
            # Documents without a term have the lowest score, and some with one may have it, too:
            # bm25l and bm25+ begin above 0, and with robertson a term of most documents adds 0.
            matching = np.flatnonzero(scores > scores.min())
            if len(matching) < k:
                matching = _matching(index, known)
            best.merge(slice(row, row + 1), scores[None, matching], matching)
    return best.top_k()


def _matching(index: Any, tokens: Sequence[str]) -> np.ndarray:
    """Return the documents that hold any of the tokens, in ascending order."""
    starts, documents = index.scores["indptr"], index.scores["indices"]
    places = {index.vocab_dict[token] for token in tokens}
    return np.unique(np.concatenate([documents[starts[i] : starts[i + 1]] for i in places]))
