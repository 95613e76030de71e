"""Positions before and after filters: the figure and its table."""

import pytest
from report_tables import by_title, texts
from verification_tables import shifts

from psibench.report.filters import shift_blocks

EVEN = (400, 400, 400)
SKEWED = (180, 50, 70)


def blocks(*stages):
    """The drawing's texts and the table's rows."""
    found = by_title(shift_blocks(shifts(*stages)))
    drawn = found["Do the filters shift where the evidence is?"]
    return texts(drawn), found["Shares of the positions by stage"].rows


def test_a_stage_has_items_and_shares_before_and_after_the_shift_and_its_p():
    drawn, rows = blocks(("margin", EVEN, SKEWED))
    third = ("33.33 %",) * 3
    # half of |60.00 - 33.33| + |16.67 - 33.33| + |23.33 - 33.33|
    after = ("300", "60.00 %", "16.67 %", "23.33 %", "26.67 %", "<0.001", "100.0")
    assert rows == (("margin", "1,200", *third, *after),)
    assert {"before margin", "after margin", "60 %", "beginning"} <= set(drawn)


def test_p_values_are_adjusted_for_the_number_of_stages():
    # chi-square with 2 degrees of freedom: 6.92, p = 0.031 for one stage, 0.063 of two
    weak = ("first", (100, 100, 100), (42, 55, 60))
    flat = ("second", (42, 55, 60), (21, 28, 30))
    assert blocks(weak)[1][0][-2] == "0.031"
    assert blocks(weak, flat)[1][0][-2] == "0.063"


@pytest.mark.parametrize(
    "stage",
    [
        ("balance", (100, 260, 140), (100, 100, 100)),  # evens the positions on purpose
        ("margin", EVEN, (0, 0, 0)),  # keeps nothing
        ("margin", EVEN, EVEN),  # keeps all
    ],
)
def test_what_is_no_test_has_no_p(stage):
    assert blocks(stage)[1][0][-2] == "–"


@pytest.mark.parametrize(
    ("second", "bars"),
    [
        ((SKEWED, (100, 20, 30)), ["before a", "after a", "after b"]),
        (((90, 50, 70), (50, 20, 30)), ["before a", "after a", "before b", "after b"]),
        (((90, 50, 70), (0, 0, 0)), ["before a", "after a", "before b"]),
    ],
)
def test_what_enters_is_drawn_where_it_is_not_what_was_kept_before(second, bars):
    drawn, _ = blocks(("a", EVEN, SKEWED), ("b", *second))
    assert [text for text in drawn if text.startswith(("before", "after"))] == bars


def test_parts_too_narrow_for_a_label_have_none():
    drawn, _ = blocks(("margin", EVEN, (380, 10, 10)))
    assert "95 %" in drawn
    assert not {"2 %", "3 %"} & set(drawn)


def test_nothing_with_a_position_is_not_shown():
    assert shift_blocks(shifts(("margin", (0, 0, 0), (0, 0, 0)))) == []
    assert shift_blocks(shifts()) == []
