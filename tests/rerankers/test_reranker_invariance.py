"""For every reranker class, a pair's score does not depend on other pairs."""

import random

import numpy as np
import pytest
from tiny_rerankers import CHECKPOINTS, EMBEDDED

KINDS = [*CHECKPOINTS, *EMBEDDED]
# Those that FlagEmbedding scores, mxbai's too: float16, on a GPU only.
REDUCED = [kind for kind in CHECKPOINTS if "flag" not in kind and kind != "mxbai"]

# Logits reach 10, where float32 has steps of 1e-6; batches differed by 1.1e-5.
LOGIT_BOUND = 1e-4


def words(n: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(60)}" for _ in range(n))


def english(seed: int) -> str:
    rng = random.Random(seed)
    nouns = "river stone engine council garden winter market letter bridge falcon".split()
    return " ".join(rng.choice([*nouns, "the", "of", "old", "quickly"]) for _ in range(3 + seed))


def make_pairs(kind: str) -> list[tuple[str, str]]:
    write = english if kind in EMBEDDED else lambda seed: words(2 + 5 * (seed % 9), seed)
    pairs = [(write(seed % 3), write(seed)) for seed in range(14)]
    return [*pairs, pairs[4], (words(3, 0), words(300, 1)), (words(200, 2), words(300, 3))]


@pytest.fixture(scope="module", params=KINDS)
def scored(request, load, score):
    reranker = load(request.param)
    pairs = make_pairs(request.param)
    return reranker, pairs, score(reranker, pairs)


def test_score_does_not_depend_on_the_batch(scored, score):
    reranker, pairs, together = scored
    alone = [score(reranker, [pair]) for pair in pairs]
    np.testing.assert_allclose(together.raw, [s.raw[0] for s in alone], rtol=0, atol=LOGIT_BOUND)
    np.testing.assert_allclose(together.score, [s.score[0] for s in alone], rtol=0, atol=1e-5)


def test_scores_are_float64_in_the_unit_interval_and_rise_with_raw(scored):
    _, pairs, found = scored
    assert found.raw.shape == found.score.shape == (len(pairs),)
    assert found.raw.dtype == found.score.dtype == np.float64
    assert ((found.score >= 0) & (found.score <= 1)).all()
    order = np.argsort(found.raw)
    assert (np.diff(found.score[order]) >= 0).all()


def test_pair_inputs_have_lengths_within_the_limit(scored):
    reranker, pairs, _ = scored
    lengths = [item.n_tokens for item in reranker.tokenize(pairs)]
    assert lengths[12] > lengths[0] > 0
    if reranker.max_tokens is not None:
        assert max(lengths) == lengths[-1] == reranker.max_tokens


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprint_changes_with_settings_that_decide_scores(kind, load):
    plain = load(kind).fingerprint
    assert load(kind).fingerprint == plain
    assert load(kind, description="x", tokens_per_batch=64).fingerprint == plain
    other = {"calibration": {"midpoint": 0.5, "slope": 10.0}}
    assert load(kind, **(other if kind in EMBEDDED else {"max_tokens": 96})).fingerprint != plain


@pytest.mark.parametrize("kind", REDUCED)
def test_bfloat16_distinguishes_as_many_pairs_as_float32(kind, load, score):
    """A tie would be decided by ids: the last product is float32 from the hidden state on."""
    pairs = [(words(3, seed), words(4 + seed % 20, 100 + seed)) for seed in range(120)]
    exact, reduced = (score(load(kind, dtype=dtype), pairs) for dtype in ("float32", "bfloat16"))
    assert len(np.unique(reduced.raw)) == len(np.unique(exact.raw)) > 115
    assert load(kind).fingerprint != load(kind, dtype="bfloat16").fingerprint
    assert np.median(np.abs(exact.score - reduced.score)) < 0.05
