import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def expected_raw(pair: tuple[str, str]) -> float:
    return (sum(map(ord, pair[0])) * 31 + sum(map(ord, pair[1]))) % 997 / 997


@dataclass
class FakeReranker:
    """Scores by the characters; counts what it is asked, and fails as it is told."""

    fits_tokens: int = 10**9
    fails_at_batch: int | None = None
    spoil: Any = None
    name: str = "fake"
    fingerprint: str = "f" * 64
    max_tokens: int | None = None
    batches: list[list[tuple[str, str]]] = field(default_factory=list)
    out_of_memory: int = 0

    def tokenize(self, pairs):
        return [Item(pair) for pair in pairs]

    def score(self, items):
        import torch

        longest = max(item.n_tokens for item in items)
        if longest * len(items) > self.fits_tokens:
            self.out_of_memory += 1
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


def pairs_of(n: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    return [(f"q{i % 7}", "x" * int(rng.integers(1, 60)) + str(i)) for i in range(n)]


@pytest.fixture
def store(tmp_path):
    return PairStore(tmp_path, "f" * 64)


def run(reranker, pairs, store, *, batch=200, shard=1000):
    return score_pairs(reranker, pairs, store=store, tokens_per_batch=batch, pairs_per_shard=shard)


@pytest.mark.parametrize("batch", [1, 64, 500, 100_000])
@pytest.mark.parametrize("shard", [1, 7, 1000])
def test_every_pair_gets_its_score_in_the_order_given(store, batch, shard):
    pairs = pairs_of(40)
    found = run(FakeReranker(), pairs, store, batch=batch, shard=shard)
    assert found.scores.raw.tolist() == [expected_raw(pair) for pair in pairs]
    assert found.scores.score.tolist() == found.scores.raw.tolist()
    assert (found.n_scored, found.n_stored, found.n_empty) == (40, 0, 0)


def test_without_a_store_the_scores_are_the_same(store):
    pairs = pairs_of(30)
    stored, free = (run(FakeReranker(), pairs, place) for place in (store, None))
    np.testing.assert_array_equal(stored.scores.raw, free.scores.raw)
    assert not store.folder.joinpath("none").exists()


def test_a_pair_is_scored_once_whichever_stage_asks(tmp_path, store):
    reranker = FakeReranker()
    first = run(reranker, [("a", "x"), ("b", "x"), ("a", "x")], store)
    later = run(reranker, [("b", "x"), ("a", "y"), ("a", "x")], PairStore(tmp_path, "f" * 64))
    assert (first.n_scored, first.n_stored) == (2, 0)
    assert (later.n_scored, later.n_stored) == (1, 2)
    assert Counter(reranker.seen) == {("a", "x"): 1, ("b", "x"): 1, ("a", "y"): 1}
    assert later.scores.raw.tolist() == [
        expected_raw(p) for p in [("b", "x"), ("a", "y"), ("a", "x")]
    ]


def test_query_and_text_are_not_interchangeable(store):
    found = run(FakeReranker(), [("a", "b"), ("b", "a"), ("ab", "c"), ("a", "bc")], store)
    assert found.n_scored == 4


def test_another_fingerprint_scores_again(tmp_path, store):
    run(FakeReranker(), pairs_of(5), store)
    other = run(FakeReranker(fingerprint="e" * 64), pairs_of(5), PairStore(tmp_path, "e" * 64))
    assert other.n_scored == 5


def test_longest_pairs_come_first_and_batches_keep_the_budget(store):
    reranker = FakeReranker()
    run(reranker, pairs_of(50), store, batch=200)
    lengths = [[len(q) + len(t) for q, t in batch] for batch in reranker.batches]
    flat = [length for batch in lengths for length in batch]
    assert flat == sorted(flat, reverse=True)
    assert all(len(batch) == 1 or max(batch) * len(batch) <= 200 for batch in lengths)
    assert max(len(batch) for batch in lengths) > 4


def test_batches_are_the_same_whatever_the_order_of_the_pairs(tmp_path):
    batches = []
    for number, seed in enumerate((1, 2)):
        pairs = pairs_of(40)
        np.random.default_rng(seed).shuffle(pairs)
        reranker = FakeReranker()
        run(reranker, [tuple(p) for p in pairs], PairStore(tmp_path / str(number), "f" * 64))
        batches.append(reranker.batches)
    assert batches[0] == batches[1]


@pytest.mark.parametrize("empty", ["", " ", "\n\t", "\u00a0"])
def test_empty_pairs_are_not_shown_nor_stored_and_score_zero(store, empty):
    reranker = FakeReranker()
    pairs = [("q", empty), ("q", "text"), (empty, "text"), (empty, empty)]
    found = run(reranker, pairs, store)
    assert reranker.seen == [("q", "text")]
    assert np.isnan(found.scores.raw).tolist() == [True, False, True, True]
    assert found.scores.score[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert (found.n_scored, found.n_empty) == (1, 3)
    again = run(reranker, pairs, store)
    assert (again.n_scored, again.n_stored, again.n_empty) == (0, 1, 3)
    np.testing.assert_array_equal(again.scores.score, found.scores.score)


def test_segments_of_a_document_of_two_characters_are_scored_as_far_as_they_exist(store):
    from psibench.text.segments import split_equal

    found = run(FakeReranker(), [("q", segment) for segment in split_equal("ab")], store)
    assert (found.n_empty, found.n_scored) == (2, 1)
    assert found.scores.score.tolist() == [0.0, 0.0, expected_raw(("q", "ab"))]


def test_no_pairs_give_no_scores_and_write_nothing(store):
    found = run(FakeReranker(), [], store)
    assert (len(found.scores), found.n_scored) == (0, 0)
    assert not store.folder.exists()


def test_budget_is_halved_until_the_memory_is_enough(store):
    reranker = FakeReranker(fits_tokens=130)
    pairs = pairs_of(60)
    found = run(reranker, pairs, store, batch=1000)
    assert found.scores.raw.tolist() == [expected_raw(pair) for pair in pairs]
    assert Counter(reranker.seen) == Counter(pairs)  # nothing twice
    assert 1 <= reranker.out_of_memory <= 5  # and then never again


def test_smaller_budget_lasts_over_the_shards(store):
    reranker = FakeReranker(fits_tokens=130)
    run(reranker, pairs_of(60), store, batch=1000, shard=10)
    assert reranker.out_of_memory <= 5


def test_pair_that_does_not_fit_alone_is_an_explained_error(store):
    with pytest.raises(InputError, match=r"reranker fake: one pair of 52 tokens does not fit"):
        run(FakeReranker(fits_tokens=40), [("q", "x" * 51), ("q", "y")], store)


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
        nth(1, raw=float("nan")), nth(1, score=float("nan")), nth(1, raw=float("inf")),
        nth(1, raw=float("-inf")), nth(1, score=1.0001), nth(1, score=-1e-9),
    ],
)  # fmt: skip
def test_impossible_score_names_reranker_and_pair_and_is_not_stored(store, tmp_path, spoil):
    pairs = [("why", "x" * 200), ("who", "y" * 100)]
    with pytest.raises(InputError, match=r"reranker fake: found raw .* query 'who', text 'yyy"):
        run(FakeReranker(spoil=spoil), pairs, store, batch=10_000)
    assert run(FakeReranker(), pairs, PairStore(tmp_path, "f" * 64)).n_scored == 2


@pytest.mark.parametrize("cut", [0, 1, -1])
def test_wrong_number_of_scores_names_reranker_and_pair(store, cut):
    def spoil(scores):
        more = np.append(scores.raw, 0.5)
        return Scores(more[: 2 + cut], more[: 2 + cut]) if cut else Scores(scores.raw, more)

    with pytest.raises(InputError, match=r"reranker fake: gave .* 2 pairs, .* query 'q'"):
        run(FakeReranker(spoil=spoil), [("q", "a"), ("q", "b")], store)


def test_what_was_scored_before_a_failure_is_not_scored_again(store, tmp_path):
    pairs = pairs_of(50)
    failing = FakeReranker(fails_at_batch=3)
    with pytest.raises(RuntimeError, match="killed"):
        run(failing, pairs, store)
    resumed = FakeReranker()
    found = run(resumed, pairs, PairStore(tmp_path, "f" * 64))
    assert found.n_stored == len(failing.seen) > 0
    assert set(resumed.seen).isdisjoint(failing.seen)
    assert found.scores.raw.tolist() == [expected_raw(pair) for pair in pairs]


def test_pairs_that_reach_the_limit_are_counted_in_the_log(store, caplog):
    run(FakeReranker(max_tokens=30), [("q", "x" * 40), ("q", "y")], store)
    assert "1 of 2 pairs reach its 30 tokens; what comes after is not seen" in caplog.text


JOB = """
    import sys, time
    sys.path.insert(0, {tests!r})
    from test_scoring_pairs import FakeReranker, pairs_of
    from psibench.rerankers.scoring import score_pairs
    from psibench.store.pairs import PairStore

    class Logging(FakeReranker):
        def score(self, items):
            found = super().score(items)
            with open({log!r}, "a") as file:
                file.write("".join(item.pair[1] + "\\n" for item in items))
            if len(open({log!r}).readlines()) >= int(sys.argv[1]):
                time.sleep(600)  # until it is killed
            return found

    store = PairStore({root!r}, "f" * 64)
    score_pairs(Logging(), pairs_of(300), store=store, tokens_per_batch=200, pairs_per_shard=100)
    print("done")
"""


def test_kill_9_costs_at_most_one_batch(tmp_path):
    """Killed thrice in the middle, then run to the end: per kill one batch may be scored twice."""
    log = tmp_path / "asked.txt"
    code = textwrap.dedent(JOB).format(
        tests=os.path.dirname(__file__), log=str(log), root=str(tmp_path / "store")
    )
    command = [sys.executable, "-c", code]
    kills = 0
    for wanted in (30, 90, 180):
        process = subprocess.Popen([*command, str(wanted)], stdout=subprocess.DEVNULL)
        while process.poll() is None:
            if log.exists() and len(log.read_text().split()) >= wanted:
                process.send_signal(signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
                break
            time.sleep(0.005)
    assert kills == 3
    done = subprocess.run([*command, "100000"], capture_output=True, check=True)
    assert done.stdout == b"done\n"
    asked = Counter(log.read_text().split())
    assert set(asked) == {text for _, text in pairs_of(300)}
    largest_batch = 200 // 2
    assert sum(times - 1 for times in asked.values()) <= 3 * largest_batch
    twice = [text for text, times in asked.items() if times > 1]
    # A batch of the budget holds 200 tokens; what was scored twice is three batches at most.
    assert sum(len(text) + 2 for text in twice) <= 3 * 200


@settings(max_examples=40, deadline=None)
@given(
    picks=st.lists(st.tuples(st.sampled_from("ab "), st.sampled_from(["", "x", "yy", "zzz", " "]))),
    batch=st.integers(1, 12),
    shard=st.integers(1, 5),
)
def test_result_is_that_of_scoring_each_pair_alone(tmp_path_factory, picks, batch, shard):
    store = PairStore(tmp_path_factory.mktemp("pairs"), "f" * 64)
    half = len(picks) // 2
    run(FakeReranker(), picks[:half], store, batch=batch, shard=shard)
    found = run(FakeReranker(), picks, store, batch=batch, shard=shard)
    for (query, text), raw, score in zip(picks, found.scores.raw, found.scores.score, strict=True):
        if query.strip() and text.strip():
            assert raw == score == expected_raw((query, text))
        else:
            assert np.isnan(raw)
            assert score == 0.0


@pytest.mark.parametrize("kind", ["xlm-roberta", "qwen3", "bm25", "maxsim"])
def test_real_rerankers_score_the_same_from_the_store_and_in_any_batches(
    kind, load, score, tmp_path
):
    reranker = load(kind)
    pairs = [(f"w1 w{i % 3}", "river w2 " * (1 + i)) for i in range(12)]
    direct = score(reranker, pairs)
    store = PairStore(tmp_path, reranker.fingerprint)
    for tokens in (10_000, 64):
        found = run(reranker, pairs, store, batch=tokens, shard=5)
        np.testing.assert_allclose(found.scores.raw, direct.raw, rtol=0, atol=1e-5)
        np.testing.assert_allclose(found.scores.score, direct.score, rtol=0, atol=1e-5)
    assert found.n_stored == 12
