import polars as pl
import pytest

from psibench.metrics.statistics import position_shifts, relocation_table
from psibench.tables import conform
from psibench.tables.build_schemas import RELOCATION

SPAN = pl.Array(pl.Int32, 2)


def queries(*rows) -> pl.DataFrame:
    """Rows: original span, found span or None, how; originals 100, translations 200 characters."""
    return pl.DataFrame(
        [(f"q{i}", *row, 100, 200) for i, row in enumerate(rows)],
        schema={
            "_id": pl.String,
            "pos_char_span": SPAN,
            "located_char_span": SPAN,
            "located_by": pl.String,
            "pos_char_length": pl.Int32,
            "pos_translated_char_length": pl.Int32,
        },
        orient="row",
    )


def test_a_shift_is_the_difference_of_relative_positions():
    # middles: 10 of 100 and 20 of 200; 10 of 100 and 30 of 200; 90 of 100 and 40 of 200
    frame = queries(
        ([0, 20], [0, 40], "sentences"),
        ([0, 20], [20, 40], "sentences"),
        ([80, 100], [0, 80], "sentences"),
        ([0, 20], None, None),
    )
    assert position_shifts(frame)["shift"].to_list() == pytest.approx([0.0, 0.05, 0.7])
    table = relocation_table({"law": frame}, language="deu-Latn")
    conform(table, RELOCATION, where="test")
    (row,) = table.rows()
    assert row[:6] == ("deu-Latn", "law", "all", 4, 3, 0.75)
    assert row[6:] == pytest.approx((0.05, 2 / 3))  # 0.05 itself counts as close


def test_nothing_found_is_a_row_and_no_relocation_is_none():
    lost = queries(([0, 20], None, None))
    plain = lost.drop("located_char_span", "located_by", "pos_translated_char_length")
    table = relocation_table({"law": lost, "game": plain}, language="deu-Latn")
    assert table.rows() == [("deu-Latn", "law", "all", 1, 0, 0.0, None, None)]
    empty = relocation_table({"law": lost.clear()}, language="deu-Latn")
    assert empty.rows() == [("deu-Latn", "law", "all", 0, 0, None, None, None)]


def test_without_the_sentences_it_came_from_a_span_is_compared_with_the_answer():
    frame = queries(([0, 20], [0, 40], "quote"), ([0, 20], [0, 40], "sentences"))
    mixed = frame.with_columns(located_from_span=pl.Series([None, [0, 40]], dtype=SPAN))
    assert position_shifts(mixed)["shift"].to_list() == pytest.approx([0.0, 0.1])
