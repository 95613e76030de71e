import math
from unicodedata import normalize

import bm25s
import numpy as np
import pytest
from Stemmer import Stemmer

from psibench.config.models import Bm25Model
from psibench.errors import InputError
from psibench.search.bm25 import search_bm25

METHODS = ["lucene", "robertson", "atire"]
DOCUMENTS = [
    "cats chase mice in the house",
    "the dog sleeps",
    "cats and dogs and more cats",
    "cats chase mice in the house",
    "birds fly over the house",
    "",
]


def entry(**fields) -> Bm25Model:
    return Bm25Model(backend="bm25s", **fields)


def found(best, row: int = 0) -> list[int]:
    return [int(place) for place in best.documents[row] if place >= 0]


def formula(texts: list[str], query: str, *, k1: float, b: float) -> list[float]:
    """Robertson and Zaragoza (2009) with Lucene's idf, which is never below 0.

    A term of the query counts as often as it occurs.
    """
    documents = [text.split() for text in texts]
    mean_length = sum(map(len, documents)) / len(documents)
    scores = [0.0] * len(documents)
    for term in query.split():
        n_with = sum(term in words for words in documents)
        idf = math.log(1 + (len(documents) - n_with + 0.5) / (n_with + 0.5))
        for i, words in enumerate(documents):
            n = words.count(term)
            scores[i] += idf * n / (n + k1 * (1 - b + b * len(words) / mean_length))
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (
            ["red fox red", "fox dog", "dog bird bird dog bird", "fox dog", "bird"],
            "red dog dog fox",
        ),
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
def test_scores_follow_the_formula_and_ties_the_smaller_number(texts, query, k1, b):
    scores = formula(texts, query, k1=k1, b=b)
    fields = {} if (k1, b) == (1.5, 0.75) else {"k1": k1, "b": b}  # the default
    best = search_bm25(entry(**fields), texts, [query], k=len(texts))
    # Documents without any of its terms are not retrieved.
    expected = sorted(np.flatnonzero(scores), key=lambda i: (-scores[i], i))
    assert found(best) == expected
    n = len(expected)
    np.testing.assert_allclose(best.scores[0, :n], [scores[i] for i in expected], rtol=1e-5)


def test_every_method_scores_in_its_own_way():
    scores = [
        search_bm25(entry(method=method), DOCUMENTS, ["cats dogs"], k=1).scores[0, 0]
        for method in METHODS
    ]
    assert len(set(scores)) == len(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_smaller_numbers_win_among_many_ties(method):
    rng = np.random.default_rng(5)
    words = [f"word{i}x" for i in range(30)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(60)]
    texts += texts[:20]  # duplicates: exact ties
    queries = [" ".join(rng.choice(words, 4)) for _ in range(10)]
    everything, best = (search_bm25(entry(method=method), texts, queries, k=k) for k in (80, 50))
    for row, query in enumerate(queries):
        scores = dict(zip(everything.documents[row], everything.scores[row], strict=True))
        sharing = [i for i in range(80) if set(query.split()) & set(texts[i].split())]
        assert sorted(found(everything, row)) == sharing
        assert [scores[i] for i in range(20) if i in sharing] == [
            scores[i + 60] for i in range(20) if i in sharing
        ]
        assert found(best, row) == sorted(sharing, key=lambda i: (-scores[i], i))[:50]


@pytest.mark.parametrize("method", METHODS)
def test_term_of_most_documents_still_retrieves_them(method):
    texts = ["cat one", "cat two", "cat three", "dog"]
    best = search_bm25(entry(method=method), texts, ["cat", "cat dog"], k=3)
    assert found(best, 0) == [0, 1, 2]
    assert found(best, 1) == [3, 0, 1]


@pytest.mark.parametrize("query", ["the and of in", "", "unheard words", "的"])
def test_query_without_a_known_term_retrieves_nothing(query):
    best = search_bm25(entry(), DOCUMENTS, [query, "dog"], k=3)
    assert found(best, 0) == []
    assert found(best, 1) == [1, 2]


@pytest.mark.parametrize("texts", [[], [""], ["the", "of and"]])
def test_corpus_without_terms_is_refused(texts):
    with pytest.raises(InputError, match="found no term in any document"):
        search_bm25(entry(), texts, ["cat"], k=3)


def test_decomposed_documents_score_as_composed_ones():
    texts = ["the café reopened", "a résumé was sent to the café", "other things here"]
    retriever = bm25s.BM25(method="lucene")
    options = {"stopwords": "english", "stemmer": Stemmer("english"), "show_progress": False}
    retriever.index(bm25s.tokenize(texts, **options), show_progress=False)
    asked = bm25s.tokenize(["résumé café"], **options)
    documents, scores = retriever.retrieve(asked, k=2, show_progress=False)

    decomposed = [normalize("NFD", text) for text in texts]
    best = search_bm25(entry(), decomposed, ["résumé café"], k=2)
    assert best.documents.tolist() == documents.tolist() == [[1, 0]]
    assert best.scores.tolist() == scores.tolist()
