import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.text.segments import POSITIONS, equal_segments, inner_thirds, tag_myopic, tag_posq


@pytest.mark.parametrize(
    ("n_chars", "n_segments", "expected"),
    [
        (9, 3, [(0, 3), (3, 6), (6, 9)]),
        (11, 3, [(0, 3), (3, 6), (6, 11)]),  # 11 // 3 = 3, the last one takes the 2 left
        (2, 3, [(0, 0), (0, 0), (0, 2)]),
        (10, 5, [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]),
    ],
)
def test_segments_are_equal_except_for_the_remainder(n_chars, n_segments, expected):
    assert equal_segments(n_chars, n_segments) == expected


# A text of 30 characters: thirds at 10 and 20.
@pytest.mark.parametrize(
    ("start", "end", "posq", "myopic"),
    [
        (0, 9, "beginning", ("beginning",)),
        (0, 10, "middle", ("beginning", "middle")),  # the end has to be below the border
        (10, 19, "middle", ("middle",)),
        (10, 20, "middle", ("middle", "end")),
        (20, 30, "middle", ("end",)),  # the start has to be above the border
        (21, 30, "end", ("end",)),
        (0, 30, "middle", ("middle", "end")),
    ],
)
def test_spans_are_tagged_by_each_rule(start, end, posq, myopic):
    assert tag_posq(start, end, 30) == posq
    assert tag_myopic(start, end, 30) == myopic


@given(st.data())
def test_spans_in_inner_thirds_have_one_tag(data):
    n_chars = data.draw(st.integers(0, 500))
    for position in POSITIONS:
        low, high = inner_thirds(n_chars)[position]
        if high > low:
            start = data.draw(st.integers(low, high - 1))
            end = data.draw(st.integers(start + 1, high))
            assert tag_posq(start, end, n_chars) == position
            assert tag_myopic(start, end, n_chars) == (position,)
