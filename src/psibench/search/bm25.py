"""BM25 with the terms, the index and the scores of bm25s; this module decides how texts are split.

Texts are first normalised to one Unicode form (`psibench.text.words.one_form`). English is then
split exactly as bm25s does by default. In other languages combining marks (e.g. vowel signs of
Hindi) belong to words. Scripts written without spaces are indexed as overlapping pairs of
characters, and other words in such texts as a whole, as by Lucene's CJK analyser. Every document is
scored, so that the order of ties is fixed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import regex

from psibench.config.models import Bm25Model
from psibench.errors import InputError
from psibench.progress import Progress
from psibench.search.ranking import BestDocuments, TopK
from psibench.text.languages import UNSPACED, UNSPACED_SCRIPTS, language_name
from psibench.text.words import one_form

if TYPE_CHECKING:
    from bm25s.tokenization import Tokenizer

OTHER_NAMES = {"norwegian bokmål": "norwegian", "southern sotho": "sesotho"}
"""Language names of CLDR -> names of PyStemmer and bm25s."""


def bm25_tokenizer(language: str) -> "Tokenizer":
    """Return bm25s' tokenizer, which splits texts into stems without stop words.

    Stemmer and stop words are those of the ``language``, e.g. ``eng-Latn``, if PyStemmer and bm25s
    have any.
    """
    import Stemmer
    from bm25s import stopwords
    from bm25s.tokenization import Tokenizer

    code, _, script = language.partition("-")
    name = language_name(language).lower()
    name = OTHER_NAMES.get(name, name)
    split = _english_words if code == "eng" else _words
    listed = getattr(stopwords, f"STOPWORDS_{'EN' if code == 'eng' else name.upper()}", None)
    if script in UNSPACED_SCRIPTS:  # terms are pairs of characters, not words
        split, listed = _pairs, None
    stems = Stemmer.Stemmer(name) if name in Stemmer.algorithms() else None
    return Tokenizer(lower=False, splitter=split, stopwords=listed, stemmer=stems)


def terms_of(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[str]]:
    """Return the terms of each text, in order."""
    terms: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", **_TOKENIZE_OPTIONS
    )
    return terms


def _english_words(text: str) -> list[str]:
    return _ENGLISH_WORD.findall(one_form(text).lower())


def _words(text: str) -> list[str]:
    return _WORD.findall(one_form(text).lower())


def _pairs(text: str) -> list[str]:
    """Return overlapping pairs of characters; single characters and other words as a whole."""
    terms: list[str] = []
    for piece in _PIECE.finditer(one_form(text).lower()):
        run = piece[1] or ""
        terms += [run[i : i + 2] for i in range(len(run) - 1)] or [piece[0]]
    return terms


_ENGLISH_WORD = re.compile(r"\b\w\w+\b")  # bm25s' default
_WORD = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}\p{Mn}\p{Mc}_]+")
"""Two or more characters, as in bm25s; combining marks count as characters."""
_PIECE = regex.compile(
    rf"(?V1)([[\p{{L}}\p{{M}}\p{{N}}_]&&[{UNSPACED}]]+)|[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+"
)
"""A run of characters of scripts without spaces (group 1), or another word."""


DEFAULT_LANGUAGE = "eng-Latn"
_TOKENIZE_OPTIONS = {"allow_empty": False, "show_progress": False}
"""Options of bm25s' tokenizer: a text without words has no term, and psibench shows the
progress."""


@dataclass(frozen=True)
class Bm25Index:
    """Documents indexed by bm25s, and the tokenizer of their queries."""

    index: Any
    tokenizer: "Tokenizer"


def search_bm25(
    entry: Bm25Model,
    documents: Sequence[str],
    queries: Sequence[str],
    *,
    k: int,
    language: str = DEFAULT_LANGUAGE,
) -> TopK:
    """Score every document for every query; return the best ``k`` that share a term with it.

    Documents are given in the order of ties (see `TopK`): among equal scores the first one wins. A
    document without any term of the query is not retrieved, so a row may have fewer than ``k``.

    Parameters
    ----------
    language
        Language of the documents; queries of another language are split in the same way.

    Raises
    ------
    InputError
        If no document has an indexable term.
    """
    return search_index(build_index(entry, documents, language=language), queries, k=k)


def build_index(entry: Bm25Model, documents: Sequence[str], *, language: str) -> Bm25Index:
    """Index documents; see `search_bm25`."""
    import bm25s

    tokenizer = bm25_tokenizer(language)
    tokens = tokenizer.tokenize(
        documents, update_vocab=True, return_as="tuple", **_TOKENIZE_OPTIONS
    )
    if not tokens.vocab:
        raise InputError(
            f"BM25: found no term in any document; is the corpus really in {language}?"
        )
    index = bm25s.BM25(k1=entry.k1, b=entry.b, method=entry.method, csc_backend="scipy")
    index.index(tokens, create_empty_token=False, show_progress=False)
    return Bm25Index(index, tokenizer)


def search_index(built: Bm25Index, queries: Sequence[str], *, k: int) -> TopK:
    """Search indexed documents; see `search_bm25`."""
    index = built.index
    best = BestDocuments(k, len(queries), index.scores["num_docs"])
    tokens = built.tokenizer.tokenize(
        queries, update_vocab=False, return_as="ids", **_TOKENIZE_OPTIONS
    )
    with Progress("searching bm25", total=len(queries), unit="queries") as progress:
        for row, terms in enumerate(tokens):
            progress.advance(1)
            if not terms:
                continue
            scores = index.get_scores_from_ids(terms)
            matching = np.flatnonzero(scores > 0)
            if len(matching) < k:  # robertson scores a term of most documents as 0
                matching = _matching(index, terms)
            best.merge(slice(row, row + 1), scores[None, matching], matching)
    return best.top_k()


def _matching(index: Any, terms: Sequence[int]) -> np.ndarray:
    """Return the documents with at least one of the terms, in ascending order."""
    starts, documents = index.scores["indptr"], index.scores["indices"]
    return np.unique(np.concatenate([documents[starts[i] : starts[i + 1]] for i in set(terms)]))
