"""BM25 through bm25s: how texts are cut into terms, and the search.

English is cut exactly as bm25s does by default. Other languages are first brought to Unicode's
NFKC form, and their combining marks (vowel signs of Hindi, say) are parts of words. Scripts
written without spaces are indexed as overlapping pairs of characters, beside whole words of other
scripts, as Lucene's CJK analyser does. Every document is scored, so that ties have one order.
"""

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, get_args

import numpy as np

from psibench.config.models import Bm25Model, StopWordLanguage
from psibench.errors import InputError
from psibench.progress import Progress
from psibench.search.ranking import TopK, top_k_of_row
from psibench.text.languages import UNSPACED, UNSPACED_SCRIPTS


class Tokenizer(Protocol):
    """Cuts texts into terms."""

    def __call__(self, texts: Sequence[str], *, numbered: bool = False) -> Any:
        """Return a list of terms per text.

        ``numbered``: as bm25s' ``Tokenized`` where bm25s does the cutting, which it indexes a
        quarter faster than it does lists.
        """


AUTO = "auto"
ENGLISH = "english"

# ISO 639-3 to the names that PyStemmer and bm25s use.
LANGUAGE_NAMES = {
    "ara": "arabic",
    "arb": "arabic",
    "cat": "catalan",
    "ces": "czech",
    "cmn": "chinese",
    "dan": "danish",
    "deu": "german",
    "ell": "greek",
    "eng": ENGLISH,
    "epo": "esperanto",
    "est": "estonian",
    "eus": "basque",
    "fas": "persian",
    "fin": "finnish",
    "fra": "french",
    "gle": "irish",
    "hin": "hindi",
    "hun": "hungarian",
    "hye": "armenian",
    "ind": "indonesian",
    "ita": "italian",
    "kor": "korean",
    "lit": "lithuanian",
    "nep": "nepali",
    "nld": "dutch",
    "nob": "norwegian",
    "nor": "norwegian",
    "npi": "nepali",
    "pes": "persian",
    "pol": "polish",
    "por": "portuguese",
    "ron": "romanian",
    "rus": "russian",
    "sot": "sesotho",
    "spa": "spanish",
    "srp": "serbian",
    "swe": "swedish",
    "tam": "tamil",
    "tur": "turkish",
    "yid": "yiddish",
    "zho": "chinese",
}
STOP_WORD_LANGUAGES: tuple[str, ...] = get_args(StopWordLanguage)


def bm25_tokenizer(entry: Bm25Model, language: str) -> Tokenizer:
    """Return texts -> lists of terms, as an entry wants them.

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
    own, supported = LANGUAGE_NAMES.get(code), Stemmer.algorithms()
    stemmer, stopwords = entry.stemmer, entry.stopwords
    if stemmer == AUTO:
        stemmer = own if own in supported else None
    if stemmer is not None and stemmer not in supported:
        raise InputError(
            f"stemmer {stemmer!r} is unknown. Supported: {', '.join(supported)}, auto, or null"
        )
    stems = None if stemmer is None else Stemmer.Stemmer(stemmer)
    if stopwords == AUTO:
        # Stop words are words; a pair of characters is none, so `auto` takes out nothing there.
        is_listed = own in STOP_WORD_LANGUAGES and script not in UNSPACED_SCRIPTS
        stopwords = own if is_listed else None  # type: ignore[assignment]
    if script in UNSPACED_SCRIPTS:
        return _unspaced_tokenizer(stems, _stop_words(stopwords))
    return _word_tokenizer(stems, stopwords, is_english=code == "eng")


def _stop_words(name: str | None) -> frozenset[str]:
    from bm25s import stopwords

    if name is None:
        return frozenset()
    return frozenset(getattr(stopwords, f"STOPWORDS_{'EN' if name == ENGLISH else name.upper()}"))


def _word_tokenizer(stems: Any, stopwords: str | None, *, is_english: bool) -> Tokenizer:
    import bm25s

    options = {} if is_english else {"token_pattern": _word_pattern()}

    def tokenize(texts: Sequence[str], *, numbered: bool = False) -> Any:
        return bm25s.tokenize(
            list(texts) if is_english else [_folded(text) for text in texts],
            stopwords=stopwords,
            stemmer=stems,
            return_ids=numbered,
            show_progress=False,
            **options,
        )

    return tokenize


def _unspaced_tokenizer(stems: Any, stop_words: frozenset[str]) -> Tokenizer:
    import regex

    word = r"[\p{L}\p{M}\p{N}_]"
    pieces = regex.compile(rf"(?V1)([{word}&&[{UNSPACED}]]+)|[{word}--[{UNSPACED}]]+")

    def terms(text: str) -> list[str]:
        found: list[str] = []
        for piece in pieces.finditer(_folded(text).lower()):
            run = piece[1] or ""
            # Overlapping pairs of neighbouring characters; a single one stands for itself.
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [piece[0]]
        kept = [term for term in found if term not in stop_words]
        return kept if stems is None else list(stems.stemWords(kept))

    def tokenize(texts: Sequence[str], *, numbered: bool = False) -> list[list[str]]:  # noqa: ARG001
        return [terms(text) for text in texts]

    return tokenize


def _folded(text: str) -> str:
    """One form for texts that look the same: composed accents, full-width letters as others."""
    return unicodedata.normalize("NFKC", text)


@cache
def _word_pattern() -> str:
    """Two or more characters, as bm25s; combining marks count as characters."""
    every = map(chr, range(sys.maxunicode + 1))
    marks = "".join(c for c in every if unicodedata.category(c) in ("Mn", "Mc"))
    return rf"\w[\w{marks}]+"


DEFAULT_LANGUAGE = "eng-Latn"


@dataclass(frozen=True)
class Bm25Index:
    """Documents indexed by bm25s, and how their queries are cut into terms."""

    index: Any
    tokenize: Tokenizer
    n_documents: int


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
    """Index documents; see `search_bm25`."""
    import bm25s

    tokenize = bm25_tokenizer(entry, language)
    corpus_tokens = tokenize(documents, numbered=True)
    if not any(getattr(corpus_tokens, "ids", corpus_tokens)):
        raise InputError("BM25: no document holds a term; is the corpus text in this language?")
    index = bm25s.BM25(method=entry.method, k1=entry.k1, b=entry.b, delta=entry.delta)
    index.index(corpus_tokens, show_progress=False)
    return Bm25Index(index, tokenize, len(documents))


def search_index(built: Bm25Index, queries: Sequence[str], *, k: int) -> TopK:
    """Search indexed documents; see `search_bm25`."""
    index = built.index
    best = TopK.empty(len(queries), min(k, built.n_documents))
    is_matching = np.zeros(built.n_documents, dtype=bool)
    with Progress("searching bm25", total=len(queries), unit="queries") as progress:
        for row, tokens in enumerate(built.tokenize(queries)):
            progress.advance(1)
            known = [token for token in tokens if token in index.vocab_dict]
            if not known:
                continue
            matching = _matching(index, known, is_matching)
            scores = index.get_scores(known)[matching]
            top = top_k_of_row(scores, k)
            found, scores = matching[top], scores[top]
            best.scores[row, : len(found)] = scores
            best.documents[row, : len(found)] = found
    return best


def _matching(index: Any, tokens: Sequence[str], marks: np.ndarray) -> np.ndarray:
    """Return the documents that hold any of the tokens, in ascending order.

    A score cannot tell: bm25l and bm25+ give documents without a term more than 0, and robertson
    gives 0 for terms that most documents hold. ``marks`` is all False, before and after.
    """
    starts, documents = index.scores["indptr"], index.scores["indices"]
    for token in set(tokens):
        place = index.vocab_dict[token]
        marks[documents[starts[place] : starts[place + 1]]] = True
    found = np.flatnonzero(marks)
    marks[found] = False
    return found
