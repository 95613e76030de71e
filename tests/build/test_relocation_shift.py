import polars as pl
import pytest

from psibench.metrics.statistics import relocation_table
from psibench.tables import conform
from psibench.tables.build_schemas import RELOCATION

SPAN = pl.Array(pl.Int32, 2)


def queries(*rows) -> pl.DataFrame:
    """Rows: whole sentences of the original, found span or None; 100 and 200 characters."""
    return pl.DataFrame(
        [(f"q{i}", *row, 100, 200) for i, row in enumerate(rows)],
        schema={
            "_id": pl.String,
            "located_from_span": SPAN,
            "located_char_span": SPAN,
            "pos_char_length": pl.Int32,
            "pos_translated_char_length": pl.Int32,
        },
        orient="row",
    )


def test_a_shift_is_the_difference_of_relative_positions():
    # middles: 10 of 100 and 20 of 200; 10 of 100 and 30 of 200; 90 of 100 and 40 of 200
    frame = queries(([0, 20], [0, 40]), ([0, 20], [20, 40]), ([80, 100], [0, 80]), ([0, 20], None))
    table = relocation_table({"law": frame}, language="deu-Latn")
    conform(table, RELOCATION, where="test")
    (row,) = table.rows()
    assert row[:5] == ("deu-Latn", "law", 4, 3, 0.75)
    assert row[5:] == pytest.approx((0.05, 2 / 3))  # of 0, 0.05 and 0.7; 0.05 counts as close


def test_nothing_found_is_a_row_and_no_relocation_is_none():
    lost = queries(([0, 20], None))
    plain = lost.drop("located_char_span")
    table = relocation_table({"law": lost, "game": plain}, language="deu-Latn")
    assert table.rows() == [("deu-Latn", "law", 1, 0, 0.0, None, None)]
    empty = relocation_table({"law": lost.clear()}, language="deu-Latn")
    assert empty.rows() == [("deu-Latn", "law", 0, 0, None, None, None)]
