from collections import Counter

import numpy as np
import pytest
from accelerate.data_loader import BatchSamplerShard
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.train.batches import LengthBinBatches

EXAMPLES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 30)),
    min_size=1,
    max_size=80,
)


def make(examples, *, batch_size=4, seed=0, n_processes=1):
    bins = [row[0] for row in examples]
    # A document has one length, so it is in one bin.
    documents = [f"{row[0]} document {row[2]}" for row in examples]
    queries = [f"query {row[1]}" for row in examples]
    batches = LengthBinBatches(
        bins, queries, documents, batch_size=batch_size, seed=seed, n_processes=n_processes
    )
    return batches, bins, queries, documents


def distinct(n, name="a"):
    return [(name, number, number) for number in range(n)]


@given(EXAMPLES, st.integers(2, 9), st.integers(0, 5))
def test_a_batch_is_of_one_bin_and_holds_no_document_or_query_twice(examples, batch_size, epoch):
    try:
        batches, bins, queries, documents = make(examples, batch_size=batch_size)
    except InputError:
        return
    batches.set_epoch(epoch)
    found = list(batches)
    assert len(found) == len(batches)
    for batch in found:
        assert len({bins[i] for i in batch}) == 1
        assert len({queries[i] for i in batch}) == len(batch)
        assert len({documents[i] for i in batch}) == len(batch)
        assert 2 <= len(batch) <= batch_size + (batch_size == 2)


@given(st.lists(st.integers(2, 60), min_size=1, max_size=5), st.integers(2, 9))
def test_every_example_comes_once_per_epoch_in_batches_of_even_sizes(sizes, batch_size):
    examples = [row for place, size in enumerate(sizes) for row in distinct(size, f"bin {place}")]
    examples = [(name, 100 * place, number) for place, (name, _, number) in enumerate(examples)]
    batches, bins, *_ = make(examples, batch_size=batch_size)
    found = list(batches)
    assert sorted(i for batch in found for i in batch) == list(range(len(examples)))
    for name in set(bins):
        lengths = {len(batch) for batch in found if bins[batch[0]] == name}
        assert max(lengths) - min(lengths) <= 1


def test_the_papers_sizes():
    batches, *_ = make(distinct(8189), batch_size=256)
    assert Counter(map(len, batches)) == {256: 29, 255: 3}  # 29 * 256 + 3 * 255 = 8,189


def test_queries_of_one_document_go_to_different_batches_and_all_come():
    # three documents of three queries each, two examples a batch: five batches would do
    examples = [("a", 3 * d + k, d) for d in range(3) for k in range(3)]
    batches, _, _, documents = make(examples, batch_size=3)
    found = list(batches)
    assert sorted(i for batch in found for i in batch) == list(range(9))
    assert all(len({documents[i] for i in batch}) == 3 for batch in found)


def test_examples_without_a_partner_are_left_out_and_said_so(caplog):
    # four queries of document 0 and one of document 1: one pair, and three that stay alone
    examples = [("a", k, 0) for k in range(4)] + [("a", 4, 1)]
    with caplog.at_level("WARNING", logger="psibench"):
        batches, *_ = make(examples)
    assert [len(batch) for batch in batches] == [2]
    assert len(batches) == 1
    assert "3 of 5 examples are left out of each epoch" in caplog.text


@pytest.mark.parametrize("examples", [distinct(1), [("a", 0, 0), ("a", 1, 0)], [("a", 0, 0)] * 3])
def test_a_pool_without_a_pair_is_refused(examples):
    with pytest.raises(InputError, match="make no batch"):
        make(examples)


def test_epochs_and_seeds_have_their_own_order_and_the_same_twice():
    def order(seed, epoch):
        batches, *_ = make(distinct(20, "a") + distinct(20, "b"), seed=seed)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(0, 1) == order(0, 1)
    assert order(0, 0) != order(0, 1) != order(1, 1)
    # also who meets whom, not the order of batches alone
    assert {frozenset(b) for b in order(0, 0)} != {frozenset(b) for b in order(0, 1)}


def test_batches_of_different_bins_are_mixed():
    batches, bins, *_ = make(distinct(40, "a") + distinct(40, "b"))
    names = [bins[batch[0]] for batch in batches]
    assert names != sorted(names)
    assert names != sorted(names, reverse=True)


@given(st.lists(st.integers(16, 40), min_size=1, max_size=4), st.integers(4, 9), st.integers(2, 4))
def test_processes_get_as_many_batches_each_and_together_every_example(sizes, size, n_processes):
    examples = []
    for place, n in enumerate(sizes):
        examples += [(f"bin {place}", 1000 * place + k, k) for k in range(n)]
    batches, bins, *_ = make(examples, batch_size=size, n_processes=n_processes)
    shards = [
        BatchSamplerShard(batches, n_processes, number, even_batches=False)
        for number in range(n_processes)
    ]
    found = [list(shard) for shard in shards]
    assert {len(own) for own in found} == {len(shard) for shard in shards}
    assert len({len(own) for own in found}) == 1
    every = [batch for own in found for batch in own]
    assert sorted(np.concatenate(every).tolist()) == list(range(len(examples)))
    assert all(len({bins[i] for i in batch}) == 1 and len(batch) > 1 for batch in every)


def test_too_few_examples_for_the_processes_are_refused():
    with pytest.raises(InputError, match="too few for 4 processes"):
        make(distinct(6), n_processes=4)
