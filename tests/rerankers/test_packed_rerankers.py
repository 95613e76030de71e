"""Rerankers on packed pairs have the logits of padded and of single pairs."""

import numpy as np
import pytest
from test_reranker_invariance import LOGIT_BOUND, make_pairs
from tiny_rerankers import CHECKPOINTS

from psibench.rerankers import classifiers
from psibench.rerankers.scoring import score_pairs

PADDED = ("jina-bert",)
"""JinaBERT's positions are a bias on its attention, so it cannot be packed."""


@pytest.fixture
def load_packed(load, monkeypatch):
    monkeypatch.setenv("PSIBENCH_PACKING", "always")
    return load


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_packed_scores_equal_padded_ones(kind, load, load_packed, score, monkeypatch):
    packed, pairs = load_packed(kind), make_pairs(kind)
    assert packed.packs == (kind not in PADDED)
    found = score(packed, pairs)
    monkeypatch.setenv("PSIBENCH_PACKING", "never")
    padded = load(kind)
    assert padded.fingerprint == packed.fingerprint
    for expected in (score(padded, pairs).raw, [score(padded, [pair]).raw[0] for pair in pairs]):
        np.testing.assert_allclose(found.raw, expected, rtol=0, atol=LOGIT_BOUND)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_packed_batches_of_any_size_give_the_same_scores(kind, load_packed, score):
    reranker, pairs = load_packed(kind), make_pairs(kind)
    expected = score(reranker, pairs).raw
    for tokens in (64, 300):
        found = score_pairs(
            reranker, pairs, store=None, tokens_per_batch=tokens, device="cpu", pairs_per_shard=6
        )
        np.testing.assert_allclose(found.raw, expected, rtol=0, atol=LOGIT_BOUND)


def test_changing_a_pair_changes_no_other_score(load_packed, score):
    reranker, pairs = load_packed("bert"), make_pairs("bert")
    before = score(reranker, pairs).raw
    after = score(reranker, [pairs[0], ("w1 w2", "w3 w4 w5 w6"), *pairs[2:]]).raw
    assert abs(before[1] - after[1]) > 1e-3
    kept = np.arange(len(pairs)) != 1
    np.testing.assert_allclose(after[kept], before[kept], rtol=0, atol=LOGIT_BOUND)


def test_head_with_other_logits_runs_padded(load_packed, monkeypatch):
    """A head that reads the wrong row would get another pair's text."""
    replacing = classifiers.Packed.replacing
    monkeypatch.setattr(
        classifiers.Packed,
        "replacing",
        lambda self, windows, types=None: replacing(self, windows[::-1], types and types[::-1]),
    )
    assert not load_packed("bert").packs
