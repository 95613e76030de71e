"""BM25 with the terms, the index and the scores of bm25s; here is what its texts are split into.

All texts are first brought to one Unicode form (`psibench.text.words.one_form`). English is then
split exactly as bm25s does by default. In other languages combining marks (vowel signs of Hindi,
say) are parts of words. Scripts written without spaces are indexed as overlapping pairs of
characters, beside whole words of other scripts, as Lucene's CJK analyser does. Every document is
scored, so that ties have one order.
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
"""Names that PyStemmer and bm25s have otherwise than CLDR."""


def bm25_tokenizer(language: str) -> "Tokenizer":
    """Return bm25s' tokenizer, which makes stems without stop words of what texts are split into.

    Stemmer and stop words are those of the ``language``, as in ``eng-Latn``, where PyStemmer and
    bm25s have any.
    """
    import Stemmer
    from bm25s import stopwords
    from bm25s.tokenization import Tokenizer

    code, _, script = language.partition("-")
    name = language_name(language).lower()
    name = OTHER_NAMES.get(name, name)
    split = _english_words if code == "eng" else _words
    listed = getattr(stopwords, f"STOPWORDS_{'EN' if code == 'eng' else name.upper()}", None)
    if script in UNSPACED_SCRIPTS:  # stop words are words; a pair of characters is none
        split, listed = _pairs, None
    stems = Stemmer.Stemmer(name) if name in Stemmer.algorithms() else None
    return Tokenizer(lower=False, splitter=split, stopwords=listed, stemmer=stems)


def terms_of(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[str]]:
    """Return the terms of each text, in order."""
    found: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", **PLAIN
    )
    return found


def _english_words(text: str) -> list[str]:
    return _ENGLISH_WORD.findall(one_form(text).lower())


def _words(text: str) -> list[str]:
    return _WORD.findall(one_form(text).lower())


def _pairs(text: str) -> list[str]:
    """Overlapping pairs of neighbouring characters; a single one, or another word, as it is."""
    found: list[str] = []
    for piece in _PIECE.finditer(one_form(text).lower()):
        run = piece[1] or ""
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [piece[0]]
    return found


_ENGLISH_WORD = re.compile(r"\b\w\w+\b")  # bm25s' default
_WORD = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}\p{Mn}\p{Mc}_]+")
"""Two or more characters, as bm25s; combining marks count as characters."""
_PIECE = regex.compile(
    rf"(?V1)([[\p{{L}}\p{{M}}\p{{N}}_]&&[{UNSPACED}]]+)|[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+"
)
"""A run of characters of scripts without spaces (group 1), or another word."""


DEFAULT_LANGUAGE = "eng-Latn"
PLAIN = {"allow_empty": False, "show_progress": False}
"""Options of bm25s' tokenizer: a text without words has no term, and the progress is ours."""


@dataclass(frozen=True)
class Bm25Index:
    """Documents indexed by bm25s, and what makes terms of their queries."""

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

    tokenizer = bm25_tokenizer(language)
    tokens = tokenizer.tokenize(documents, update_vocab=True, return_as="tuple", **PLAIN)
    if not tokens.vocab:
        raise InputError("BM25: no document holds a term; is the corpus text in this language?")
    index = bm25s.BM25(k1=entry.k1, b=entry.b, method=entry.method, csc_backend="scipy")
    index.index(tokens, create_empty_token=False, show_progress=False)
    return Bm25Index(index, tokenizer)


def search_index(built: Bm25Index, queries: Sequence[str], *, k: int) -> TopK:
    """Search indexed documents; see `search_bm25`."""
    index = built.index
    best = BestDocuments(k, len(queries), index.scores["num_docs"])
    asked = built.tokenizer.tokenize(queries, update_vocab=False, return_as="ids", **PLAIN)
    with Progress("searching bm25", total=len(queries), unit="queries") as progress:
        for row, terms in enumerate(asked):
            progress.advance(1)
            if not terms:
                continue
            scores = index.get_scores_from_ids(terms)
            matching = np.flatnonzero(scores > 0)
            if len(matching) < k:  # with robertson a term of most documents adds 0
                matching = _matching(index, terms)
            best.merge(slice(row, row + 1), scores[None, matching], matching)
    return best.top_k()


def _matching(index: Any, terms: Sequence[int]) -> np.ndarray:
    """Return the documents that hold any of the terms, in ascending order."""
    starts, documents = index.scores["indptr"], index.scores["indices"]
    return np.unique(np.concatenate([documents[starts[i] : starts[i + 1]] for i in set(terms)]))
