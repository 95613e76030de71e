"""Positions before and after filters: the figure and what it says in words."""

import pytest
from verification_tables import shifts

from psibench.report.filters import shift_blocks, shift_sentences
from psibench.report.tables import FigureView, Table

EVEN = (400, 400, 400)
SKEWED = (180, 50, 70)


def blocks(*stages) -> tuple[FigureView, Table]:
    figure, table = shift_blocks(shifts(*stages), "shift")
    assert isinstance(figure, FigureView)
    assert isinstance(table, Table)
    return figure, table


def test_a_shift_beyond_chance_is_named_with_what_it_moves() -> None:
    text = " ".join(shift_sentences(shifts(("margin", EVEN, SKEWED))))
    assert text.startswith(
        "Beyond chance: margin moves beginning from 33.3 % to 60.0 % and middle from 33.3 % to "
        "16.7 % (p < 0.001)."
    )
    assert "adjusting" not in text  # one test needs no adjustment


def test_no_shift_says_that_none_is_beyond_chance() -> None:
    text = " ".join(shift_sentences(shifts(("margin", EVEN, (101, 100, 99)))))
    assert text.startswith(
        "No stage shifts the positions beyond chance. Not distinguishable from chance: margin (p ="
    )


def test_p_values_are_adjusted_for_the_number_of_stages() -> None:
    # chi-square with 2 degrees of freedom: 6.92, p = 0.031 for one stage, 0.063 of two
    weak = ("first", (100, 100, 100), (42, 55, 60))
    flat = ("second", (42, 55, 60), (21, 28, 30))
    assert shift_sentences(shifts(weak))[0].startswith("Beyond chance: first")
    assert shift_sentences(shifts(weak, flat))[0].startswith("No stage")


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (
            ("balance", (100, 260, 140), (100, 100, 100)),
            ["Balancing evens the positions on purpose."],
        ),
        (("margin", EVEN, (0, 0, 0)), []),  # keeps nothing
        (("margin", EVEN, EVEN), []),  # keeps all
    ],
)
def test_what_is_no_test_has_no_p(stage, said) -> None:
    assert shift_sentences(shifts(stage)) == said


def test_few_items_make_p_rough() -> None:
    found = shift_sentences(shifts(("small", (5, 5, 5), (4, 5, 4))))
    assert "Few items, so p is rough: small." in found


@pytest.mark.parametrize(
    ("second", "bars"),
    [
        ((SKEWED, (100, 20, 30)), ["before a", "after a", "after b"]),
        (((90, 50, 70), (50, 20, 30)), ["before a", "after a", "before b", "after b"]),
    ],
)
def test_what_enters_is_drawn_where_it_is_not_what_was_kept_before(second, bars) -> None:
    _, table = blocks(("a", EVEN, SKEWED), ("b", *second))
    assert [row[0] for row in table.rows] == bars


def test_the_table_has_shares_items_and_size_of_the_shift() -> None:
    _, found = blocks(("margin", EVEN, SKEWED))
    # half of |60.00 - 33.33| + |16.67 - 33.33| + |23.33 - 33.33|
    assert found.rows[1][:4] == ("after margin", "60.00 %", "16.67 %", "23.33 %")
    assert found.rows[1][4:] == ("300", "26.67 %", "<0.001")
    assert found.rows[0][4:] == ("1,200", "–", "–")


def test_drawing_names_bars_shares_and_what_the_test_says() -> None:
    svg = blocks(("margin", EVEN, SKEWED), ("balance", SKEWED, (50, 50, 50)))[0].panels[0].svg
    for text in ("before margin", "after margin", "60 %", "p &lt; 0.001", "on purpose"):
        assert f">{text}<" in svg
    assert 'role="img"' in svg


def test_parts_too_narrow_for_a_label_have_none() -> None:
    svg = blocks(("margin", EVEN, (380, 10, 10)))[0].panels[0].svg
    assert ">95 %<" in svg
    assert ">2 %<" not in svg
    assert ">3 %<" not in svg


def test_stage_that_keeps_nothing_has_one_bar() -> None:
    _, table = blocks(("margin", EVEN, (0, 0, 0)))
    assert [row[0] for row in table.rows] == ["before margin"]


def test_nothing_with_a_position_is_not_shown() -> None:
    assert shift_blocks(shifts(("margin", (0, 0, 0), (0, 0, 0))), "shift") == []
    assert shift_blocks(shifts(), "shift") == []
