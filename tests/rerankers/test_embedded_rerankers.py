"""The embedded rerankers, on the real all-MiniLM-L6-v2."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from psibench.models.protocols import TokenizedText
from psibench.rerankers import embedded
from psibench.rerankers.embedded import SimilarityReranker
from psibench.rerankers.protocols import sigmoid

QUERY = "Who built the bridge over the river?"
ANSWER = "The bridge over the river was built by Roman engineers."
OTHER = "Cats sleep for most of the day and hunt at night."


def test_sigmoid_is_exact_and_does_not_overflow():
    raw = np.array([-1000.0, -1.0, 0.0, 2.0, 1000.0])
    with np.errstate(over="raise"):
        found = sigmoid(raw)
    assert found.tolist() == pytest.approx(
        [0.0, 1 / (1 + math.e), 0.5, 1 / (1 + math.exp(-2)), 1.0]
    )


def test_bm25_is_a_share_of_its_upper_bound(load, score):
    reranker = load("bm25")
    # Terms: (built, bridg, river) and (river, river, boat, cross, lake), the last with stemming.
    found = score(reranker, [("built bridge river", "river, rivers, boats crossing lakes")])
    idf = {term: math.log1p(reranker.ranks[term]) for term in ("built", "bridg", "river")}
    slack = 1.5 * (1 - 0.75 + 0.75 * 5 / 50)
    expected = idf["river"] * 2 / (2 + slack) / sum(idf.values())
    assert found.raw[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("query", "text"), [("the of and", ANSWER), ("的", ANSWER), (QUERY, "the"), (QUERY, OTHER)]
)
def test_pairs_without_a_shared_term_have_a_raw_score_of_zero(query, text, load, score):
    found = score(load("bm25"), [(query, text)])
    assert found.raw[0] == 0.0
    assert found.score[0] == pytest.approx(1 / (1 + math.exp(4)))


def test_cosine_equals_the_encoders(load, score):
    from sentence_transformers import SentenceTransformer

    from psibench.models.checkpoints import resolve_checkpoint

    model = SentenceTransformer(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), device="cpu")
    query, *texts = model.encode([QUERY, ANSWER, OTHER], normalize_embeddings=True)
    found = score(load("cosine"), [(QUERY, ANSWER), (QUERY, OTHER)])
    np.testing.assert_allclose(found.raw, [query @ text for text in texts], atol=1e-5)


def test_maxsim_is_the_mean_over_query_tokens(load, score):
    reranker = load("maxsim")
    found = score(reranker, [(QUERY, ANSWER)])
    (query,), (text,) = (
        reranker.encoder.forward(item.windows, item.content)
        for item in (
            reranker.encoder.tokenize([QUERY], "query")[0],
            reranker.encoder.tokenize([ANSWER], "document")[0],
        )
    )
    assert len(query) == 8  # seven words and the question mark; no special tokens
    assert found.raw[0] == pytest.approx((query @ text.T).max(axis=1).mean(), abs=1e-6)


def test_best_window_of_a_text_counts(load, score):
    encoder = {
        "backend": "sentence-transformers",
        "checkpoint": "embedded:all-MiniLM-L6-v2",
        "max_tokens": 256,
        "windows": {"tokens": 64, "overlap": 16},
    }
    text = "It rains. " * 100 + ANSWER
    windows, whole = (
        score(reranker, [(QUERY, text)]).raw[0]
        for reranker in (load("cosine", encoder=encoder), load("cosine"))
    )
    assert windows > whole + 0.1


@dataclass
class CountingEncoder:
    """Encodes a text, letters for tokens, as how often it has each of a, b and c; notes texts."""

    encoded: list[str] = field(default_factory=list)

    def tokenize(self, texts, role):
        ids = [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) for text in texts]
        return [TokenizedText((i,), (np.ones(len(i), bool),), len(i)) for i in ids]

    def forward(self, windows, content):
        texts = [bytes(window.astype(np.uint8)).decode() for window in windows]
        self.encoded += texts
        counts = np.array([[text.count(c) for c in "abc"] for text in texts], dtype=np.float32)
        counts /= np.linalg.norm(counts, axis=1, keepdims=True)
        return [row[None, :] for row in counts]  # views of the batch, as an encoder's are


LETTERS = [("aa", "ab"), ("aa", "bc"), ("cb", "ab"), ("aa", "ab"), ("ab", "ab")]


def counting(entry) -> SimilarityReranker:
    return SimilarityReranker("fake", entry("cosine"), CountingEncoder())


def test_text_of_several_pairs_is_encoded_once(entry, score):
    alone, together = counting(entry), counting(entry)
    raw = [score(alone, [pair]).raw[0] for pair in LETTERS]
    # "ab" as a query reads as "ab" as a document does: the tokens are the same.
    assert alone.encoder.encoded == ["aa", "ab", "bc", "cb"]
    assert score(together, LETTERS).raw.tolist() == raw
    assert raw == pytest.approx([0.5**0.5, 0, 0.5, 0.5**0.5, 1.0])
    assert together.encoder.encoded == ["aa", "cb", "ab", "bc"]  # the queries, then the texts


def test_cached_vectors_are_dropped_at_the_memory_limit(entry, score, monkeypatch):
    monkeypatch.setattr(embedded, "CACHE_BYTES", 0)
    reranker, whole = counting(entry), counting(entry)
    raw = [score(reranker, [pair]).raw[0] for pair in LETTERS]
    assert raw == score(whole, LETTERS).raw.tolist()
    assert len(reranker.encoder.encoded) > len(whole.encoder.encoded)
    assert {vectors.base for vectors in whole.cached.values()} == {None}, "no batch is kept"
