"""BM25 on corpora that other implementations stumble over; README.md names the reports."""

import math

import numpy as np
import pytest

from psibench.config.models import Bm25Model
from psibench.errors import InputError
from psibench.search.bm25 import search_bm25

ENTRY = Bm25Model(backend="bm25s")


def bm25(docs: list[list[str]], query: list[str]) -> list[float]:
    """Lucene's BM25 of documents that are split into terms already."""
    mean, scores = sum(map(len, docs)) / len(docs), []
    for doc in docs:
        norm = ENTRY.k1 * (1 - ENTRY.b + ENTRY.b * len(doc) / mean)
        score = 0.0
        for term in query:
            df, tf = sum(term in other for other in docs), doc.count(term)
            score += math.log(1 + (len(docs) - df + 0.5) / (df + 0.5)) * tf / (tf + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    ("docs", "query"),
    [
        (["foo", "dog", "baz", "quick god", "quick fox"], "quick"),
        (["foo", "", "quick", "", "quick fox"], "quick"),  # empty documents shift no term
        (["text key", "term key", "page term", "none"], "key"),  # in half of the documents
        (["hello world", "foo bar", "hello foo"], "hello"),
        (["word al", "bo word", "word"], "word"),  # in every document: still above zero
        (["aa bb", "aa", "bb cc"], "aa aa bb"),
        (["aa bb", "cc dd"], "zz aa"),  # a term that no document has
        (["aa bb"], "zz"),
        (["aa bb"], ""),
    ],
)
def test_scores_are_those_of_the_formula(docs, query):
    found = search_bm25(ENTRY, docs, [query], k=len(docs))
    scores = np.zeros(len(docs))
    places = found.documents[0] >= 0
    scores[found.documents[0][places]] = found.scores[0][places]
    expected = bm25([doc.split() for doc in docs], query.split())
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert places.sum() == np.count_nonzero(expected)  # nothing else is retrieved


def test_a_corpus_without_terms_is_refused():
    with pytest.raises(InputError, match="found no term in any document"):
        search_bm25(ENTRY, ["", "  "], ["word"], k=2)
