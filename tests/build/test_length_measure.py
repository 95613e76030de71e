"""Token lengths measured a bounded piece of text at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.generate.sampling import length_measure
from psibench.text import lengths as measuring
from psibench.text.lengths import count_in_parts, count_whitespace_tokens

LIMIT = 30


@pytest.fixture(autouse=True)
def _small_parts():
    before, measuring.PART_CHARS = measuring.PART_CHARS, LIMIT
    yield
    measuring.PART_CHARS = before


class Noting:
    """Counts words, and notes what it is given at once."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(list(texts))
        return count_whitespace_tokens(texts)


@given(st.lists(st.text(alphabet="ab \n", max_size=80), max_size=12))
def test_lengths_are_those_of_the_whole_texts(texts):
    noting = Noting()
    found = count_in_parts(noting)(texts)
    assert found.dtype == np.int32
    assert found.tolist() == count_whitespace_tokens(texts).tolist()
    for call in noting.calls:
        assert len(call) == 1 or sum(map(len, call)) <= LIMIT
    assert "".join(piece for call in noting.calls for piece in call) == "".join(texts)


def test_neighbours_are_counted_together_up_to_the_limit():
    noting = Noting()
    count_in_parts(noting)(["x" * 10] * 7)
    assert [len(call) for call in noting.calls] == [3, 3, 1]


def test_a_long_text_is_cut_before_white_space():
    noting = Noting()
    text = " ".join(["word"] * 20) + "x" * 50 + " end"
    assert count_in_parts(noting)([text]).tolist() == [21]
    pieces = [piece for (piece,) in noting.calls]
    assert all(piece.startswith(" ") for _, piece in pairwise(pieces))
    assert all(len(piece) <= LIMIT + 4 for piece in pieces[:2])


def test_a_long_text_without_white_space_is_counted_whole():
    noting = Noting()
    assert count_in_parts(noting)(["a", "x" * 99, "b"]).tolist() == [1, 1, 1]
    assert noting.calls == [["a"], ["x" * 99], ["b"]]


def test_a_word_piece_tokenizer_counts_parts_as_it_counts_the_whole():
    text = "Unaffable whales, 3.5 miles off; naïve " * 20
    whole = length_measure("tokens", "embedded:all-MiniLM-L6-v2")([text])
    measuring.PART_CHARS = 10**6
    assert length_measure("tokens", "embedded:all-MiniLM-L6-v2")([text]).tolist() == whole.tolist()
