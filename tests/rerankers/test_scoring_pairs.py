import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench import progress
from psibench.errors import InputError
from psibench.rerankers.protocols import Scores
from psibench.rerankers.scoring import score_pairs
from psibench.store.pairs import PairStore


@dataclass(frozen=True)
class Item:
    pair: tuple[str, str]

    @property
    def n_tokens(self) -> int:
        return len(self.pair[0]) + len(self.pair[1])


@dataclass(frozen=True)
class CutItem(Item):
    """An item of a reranker that cuts after ``limit`` tokens."""

    limit: int | None = None

    @property
    def n_tokens(self) -> int:
        return min(self.limit or 10**9, super().n_tokens)


def expected_raw(pair: tuple[str, str]) -> float:
    return (sum(map(ord, pair[0])) * 31 + sum(map(ord, pair[1]))) % 997 / 997


@dataclass
class FakeReranker:
    """Scores by characters; counts calls, and fails at a given batch."""

    fits_tokens: int = 10**9
    fails_at_batch: int | None = None
    spoil: Any = None
    name: str = "fake"
    fingerprint: str = "f" * 64
    max_tokens = None
    batches: list[list[tuple[str, str]]] = field(default_factory=list)

    def tokenize(self, pairs):
        return [Item(pair) for pair in pairs]

    def score(self, items):
        if max(item.n_tokens for item in items) * len(items) > self.fits_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.fails_at_batch == len(self.batches):
            raise RuntimeError("killed")
        self.batches.append([item.pair for item in items])
        raw = np.array([expected_raw(item.pair) for item in items])
        scores = Scores(raw, raw.copy())
        return self.spoil(scores) if self.spoil else scores

    @property
    def seen(self):
        return [pair for batch in self.batches for pair in batch]


def pairs_of(n: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    return [(f"q{i % 7}", "x" * int(rng.integers(1, 60)) + str(i)) for i in range(n)]


@pytest.fixture
def store(tmp_path):
    return PairStore(tmp_path, "f" * 64)


def run(reranker, pairs, store, *, batch=200, shard=1000, stop=None):
    return score_pairs(
        reranker, pairs, store=store, tokens_per_batch=batch, pairs_per_shard=shard, stop=stop
    )


@settings(max_examples=60, deadline=None)
@given(
    picks=st.lists(st.tuples(st.sampled_from("ab "), st.sampled_from(["", "x", "yy", "zzz", " "]))),
    n_before=st.integers(0, 6),
    batch=st.integers(1, 12),
    memory=st.integers(5, 20),
    shard=st.integers(1, 5),
    is_stored=st.booleans(),
)
def test_each_distinct_pair_is_scored_once(
    tmp_path_factory, picks, n_before, batch, memory, shard, is_stored
):
    store = PairStore(tmp_path_factory.mktemp("pairs"), "f" * 64) if is_stored else None
    earlier, reranker = FakeReranker(), FakeReranker(fits_tokens=memory)
    run(earlier, picks[:n_before], store, batch=batch, shard=shard)
    found = run(reranker, picks, store, batch=batch, shard=shard)
    with_text = [pair for pair in picks if pair[0].strip() and pair[1].strip()]
    for pair, raw, score in zip(picks, found.raw, found.score, strict=True):
        if pair in with_text:
            assert raw == score == expected_raw(pair)
        else:  # is not shown, nor stored
            assert np.isnan([raw, score]).all()
    known = set(earlier.seen) if is_stored else set()
    assert Counter(reranker.seen) == Counter(set(with_text) - known)


def test_longest_pairs_come_first_within_the_token_budget(tmp_path):
    batches = []
    for seed in (1, 2):
        pairs, reranker = pairs_of(50), FakeReranker()
        np.random.default_rng(seed).shuffle(pairs)
        run(reranker, [tuple(pair) for pair in pairs], PairStore(tmp_path / str(seed), "f" * 64))
        batches.append(reranker.batches)
    assert batches[0] == batches[1]
    lengths = [[len(q) + len(t) for q, t in batch] for batch in batches[0]]
    flat = [length for batch in lengths for length in batch]
    assert flat == sorted(flat, reverse=True)
    assert all(len(batch) == 1 or max(batch) * len(batch) <= 200 for batch in lengths)
    assert max(len(batch) for batch in lengths) > 4


def nth(place: int, **changes: float):
    def spoil(scores: Scores) -> Scores:
        raw, score = scores.raw.copy(), scores.score.copy()
        for name, value in changes.items():
            {"raw": raw, "score": score}[name][place] = value
        return Scores(raw, score)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        nth(1, raw=float("nan")), nth(1, score=1.0001), nth(1, score=-1e-9),
    ],
)  # fmt: skip
def test_impossible_score_names_reranker_and_pair_and_is_not_stored(store, tmp_path, spoil):
    pairs = [("why", "x" * 200), ("who", "y" * 100)]
    with pytest.raises(InputError, match=r"reranker fake: found raw .* query 'who', text 'yyy"):
        run(FakeReranker(spoil=spoil), pairs, store, batch=10_000)
    again = FakeReranker()
    run(again, pairs, PairStore(tmp_path, "f" * 64))
    assert len(again.seen) == 2


@pytest.mark.parametrize("limit", [None, 100])
def test_remaining_time_follows_the_remaining_tokens(monkeypatch, caplog, limit):
    """A token takes 10 ms; ten pairs of 1,000, cut at ``limit``, come before a thousand of 20."""
    now = {"s": 0.0}
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now["s"]))
    caplog.set_level(logging.INFO, logger="psibench")

    class Slow(FakeReranker):
        max_tokens = limit

        def tokenize(self, pairs):
            return [CutItem(pair, limit) for pair in pairs]

        def score(self, items):
            now["s"] += 0.01 * sum(item.n_tokens for item in items)
            return super().score(items)

    pairs = [("q" * 10, f"{n:0990d}") for n in range(10)]
    pairs += [("q" * 10, f"{n:010d}") for n in range(1000)]
    run(Slow(), pairs, None, batch=1_000, shard=50)
    # 40 of the first 50 pairs are short, which predicts the others' length.
    total = 10 * (limit or 1_000) + 1000 * 20
    line = next(line for line in caplog.messages if line.endswith(" left"))
    n_done, n_total = (
        int(one.replace(",", "")) for one in re.findall(r"([\d,]+) (?:of|tokens )", line)
    )
    assert n_total == total > n_done
    minutes, seconds = map(int, re.findall(r"(\d+) min (\d+) s left", line)[0])
    assert 60 * minutes + seconds == pytest.approx((total - n_done) * 0.01, abs=1)


@dataclass
class StopAt:
    left: int

    def check(self, needed_s=0.0):
        if not self.left:
            raise RuntimeError("stop")
        self.left -= 1


@pytest.mark.parametrize("failing", ["batch", "stop"])
def test_scores_before_a_failure_or_stop_are_kept(store, tmp_path, failing):
    pairs = pairs_of(50)
    first = FakeReranker(fails_at_batch=3 if failing == "batch" else None)
    with pytest.raises(RuntimeError, match=r"killed|stop"):
        run(first, pairs, store, stop=StopAt(3) if failing == "stop" else None)
    assert len(first.batches) == 3
    resumed = FakeReranker()
    found = run(resumed, pairs, PairStore(tmp_path, "f" * 64))
    assert Counter(resumed.seen) + Counter(first.seen) == Counter(pairs)
    assert found.raw.tolist() == [expected_raw(pair) for pair in pairs]
