"""Draws: balancing, the tiny subset, training sets."""

import random

import polars as pl
import pytest
from filter_tables import decision_rows, examples, some_targets, targets_frame
from hypothesis import given
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.filters.mixtures import balance_positions, draw_order, tiny_subset
from psibench.text.segments import POSITIONS


@examples
@given(wanted=st.lists(some_targets, max_size=30), seed=st.integers(0, 3))
def test_balancing_takes_each_positions_first_ids_by_hash(wanted, seed):
    targets = {f"q{i}": positions for i, positions in enumerate(wanted)}
    sizes = [sum(name in positions for positions in wanted) for name in POSITIONS]
    if targets and not min(sizes):
        with pytest.raises(InputError, match="balancing to the smallest would keep nothing"):
            balance_positions(targets_frame(targets), seed=seed)
        return
    decided = balance_positions(targets_frame(targets), seed=seed)
    places = dict(
        zip(targets, draw_order(pl.Series(list(targets), dtype=pl.String), seed), strict=True)
    )
    kept = set()
    for position in POSITIONS:
        carrying = [name for name, positions in targets.items() if position in positions]
        kept |= set(sorted(carrying, key=places.get)[: min(sizes)])
    for name, (is_kept, reason, score, by) in decision_rows(decided).items():
        assert (is_kept, score, by) == (name in kept, None, None)
        assert reason == ("" if is_kept else "not_sampled" if targets[name] else "no_target")


@examples
@given(order=st.permutations(range(12)), left_out=st.integers(0, 11))
def test_a_draw_depends_only_on_the_ids(order, left_out):
    ids = [f"q{i}" for i in range(12)]
    places = draw_order(pl.Series(ids), 42)
    assert sorted(places) == list(range(12))
    by_place = [ids[i] for i in places.arg_sort()]
    turned = pl.Series([ids[i] for i in order])
    assert turned.gather(draw_order(turned, 42).arg_sort()).to_list() == by_place
    fewer = pl.Series([name for i, name in enumerate(ids) if i != left_out])
    drawn = fewer.gather(draw_order(fewer, 42).arg_sort()).to_list()
    assert drawn == [name for name in by_place if name != ids[left_out]]


def test_the_draw_is_the_same_on_every_machine():
    ids = pl.Series(["q0", "q1", "q2", "q3", "é", "語"])
    assert draw_order(ids, 42).to_list() == [1, 4, 5, 2, 3, 0]
    assert draw_order(ids, 43).to_list() != [1, 4, 5, 2, 3, 0]


def published_tiny(queries, per_position):
    """Draw as the released code of PosQ does, over (text, tags) in reading order."""
    random.seed(42)
    shuffled = list(queries)
    random.shuffle(shuffled)
    drawn = []
    for position in POSITIONS:
        drawn += [row for row in shuffled if position in row[1]][:per_position]
    seen, unique = set(), []
    for text, tags in drawn:
        if text not in seen:
            seen.add(text)
            unique.append((text, tags))
    return unique


@examples
@given(
    drawn=st.lists(st.tuples(st.integers(0, 25), some_targets), max_size=40),
    per_position=st.integers(1, 8),
)
def test_the_tiny_subset_equals_that_of_the_authors_code(drawn, per_position):
    rows = [(f"text {number}", tags) for number, tags in drawn]
    queries = targets_frame({f"q{i}": tags for i, (_, tags) in enumerate(rows)})
    queries = queries.with_columns(pl.Series("text", [text for text, _ in rows], dtype=pl.String))
    decided = tiny_subset(queries, per_position=per_position, seed=42)
    state = random.getstate()
    expected = published_tiny(rows, per_position)
    random.setstate(state)
    kept = queries.filter(decided.get_column("kept")).select("text", "targets").rows()
    assert sorted(kept) == sorted(expected)
    for (text, tags), (_, reason, *_) in zip(rows, decision_rows(decided).values(), strict=True):
        assert (reason == "no_target") == (not tags)
        if reason == "repeated_text":
            assert text in {text for text, _ in expected}
