"""Rows of a study as a declared table, none of them too."""

from collections.abc import Iterable, Mapping

import polars as pl

from psibench.tables.spec import TableSpec


def table_of(spec: TableSpec, rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Make a frame of a declared table from rows by name; without rows it is empty.

    Every row has all columns of the table. NaN becomes null.
    """
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    named = [{name: row[name] for name in spec.column_names} for row in rows]
    return pl.DataFrame(named, schema=empty.schema).with_columns(
        pl.selectors.float().fill_nan(None)
    )
