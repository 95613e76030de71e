import bm25s
import numpy as np
import pytest
import Stemmer

from psibench.config.models import Bm25Model
from psibench.errors import InputError
from psibench.search.bm25 import search_bm25

METHODS = ["lucene", "robertson", "atire", "bm25l", "bm25+"]
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


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_bm25s_and_ties_go_to_the_smaller_id(method):
    rng = np.random.default_rng(5)
    words = [f"word{i}x" for i in range(30)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(60)]
    texts += texts[:20]  # duplicates: exact ties
    queries = [" ".join(rng.choice(words, 4)) for _ in range(10)]
    best = search_bm25(entry(method=method), texts, queries, k=50)

    stem = {"stemmer": Stemmer.Stemmer("english"), "stopwords": "english", "show_progress": False}
    index = bm25s.BM25(method=method)
    index.index(bm25s.tokenize(texts, **stem), show_progress=False)
    reference = index.retrieve(bm25s.tokenize(queries, **stem), k=80, show_progress=False)
    for row, query in enumerate(queries):
        terms = set(query.split())
        scores = dict(zip(reference.documents[row], reference.scores[row], strict=True))
        sharing = [i for i in range(80) if terms & set(texts[i].split())]
        expected = sorted(sharing, key=lambda i: (-scores[i], i))[:50]
        assert found(best, row) == expected
        np.testing.assert_allclose(
            best.scores[row, : len(expected)], [scores[i] for i in expected], rtol=1e-6
        )


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
    with pytest.raises(InputError, match="no document holds a term"):
        search_bm25(entry(), texts, ["cat"], k=3)
