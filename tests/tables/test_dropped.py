"""Rows of items left out, and what makes them ledger rows of a domain."""

import polars as pl

from psibench.tables import conform
from psibench.tables.dropped import DROPPED_SCHEMA, Dropped, as_attrition, dropped_frame
from psibench.tables.schemas import ATTRITION

ROW = Dropped("summarise", "documents", "d0", "d0", "blank_summary", char_length=7)


def test_a_dropped_item_is_a_row_of_the_schema():
    assert Dropped._fields == tuple(DROPPED_SCHEMA)
    frame = dropped_frame(row for row in [ROW])
    assert dict(frame.schema) == DROPPED_SCHEMA
    assert frame.rows() == [tuple(ROW)]
    assert dict(dropped_frame().schema) == DROPPED_SCHEMA


def test_rows_of_a_domain_are_a_ledger_table_with_an_open_length_bin():
    frame = as_attrition(dropped_frame([ROW]), language="eng-Latn", domain="law")
    table = conform(frame, ATTRITION, where="w")
    row = pl.DataFrame(pl.from_arrow(table)).row(0, named=True)
    assert (row["length_bin"], row["language"], row["domain"]) == (None, "eng-Latn", "law")
    assert set(ATTRITION.column_names) - set(DROPPED_SCHEMA) == {"length_bin", "language", "domain"}
    empty = as_attrition(dropped_frame(), language="eng-Latn", domain="law")
    assert conform(empty, ATTRITION, where="w").num_rows == 0
