"""How far the position of evidence survives translation."""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from psibench.build.quality import POOLED
from psibench.tables.quality_schemas import RELOCATION

SPAN, BY, LENGTH = "located_char_span", "located_by", "pos_translated_char_length"
RELOCATED_COLUMNS = (SPAN, BY, LENGTH)
CLOSE = 0.05
"""The width of one of PosIR's twenty bins."""
ROUNDING = 1e-12


def relocation_table(queries: Mapping[str, pl.DataFrame], *, language: str) -> pl.DataFrame:
    """Compare where evidence is in the originals and in their translations: RELOCATION rows.

    The relative position of a span is min(middle, length) / length, as in the evaluation; the
    original's comes from ``pos_char_span`` and ``pos_char_length``, the translation's from
    ``located_char_span`` and ``pos_translated_char_length``. A query whose evidence was not found
    counts in ``n_queries`` only.

    Parameters
    ----------
    queries
        Domain -> QUERIES rows of a translated language; a domain without the columns of relocation
        has no row.

    Returns
    -------
    A row ``all`` per domain, then one per method where there are several.
    """
    rows = [
        {"language": language, "domain": domain, **row}
        for domain, asked in queries.items()
        if set(RELOCATED_COLUMNS) <= set(asked.columns)
        for row in _rows(asked)
    ]
    schema = pl.DataFrame(RELOCATION.schema.empty_table()).schema
    return pl.DataFrame(rows, schema=schema, orient="row")


def position_shifts(queries: pl.DataFrame) -> pl.DataFrame:
    """Return (n_located, 3) ``_id``, ``located_by`` and ``shift``: absolute, in [0, 1]."""
    located = queries.filter(pl.col(SPAN).is_not_null())
    original = _relative("pos_char_span", "pos_char_length")
    shift = (original - _relative(SPAN, LENGTH)).abs()
    return located.select("_id", BY, shift=shift)


def _relative(span: str, length: str) -> pl.Expr:
    ends = pl.col(span).cast(pl.List(pl.Int64))
    middle = (ends.list.get(0) + ends.list.get(1)) / 2
    size = pl.col(length).cast(pl.Float64)
    return pl.min_horizontal(middle, size) / size


def _rows(queries: pl.DataFrame) -> Iterator[dict[str, str | int | float | None]]:
    shifts = position_shifts(queries)
    yield _row(POOLED, queries.height, shifts)
    methods = shifts.get_column(BY).drop_nulls().unique().sort().to_list()
    for method in methods if len(methods) > 1 else []:
        yield _row(method, queries.height, shifts.filter(pl.col(BY) == method))


def _row(method: str, n_queries: int, shifts: pl.DataFrame) -> dict[str, str | int | float | None]:
    values = shifts.get_column("shift")
    shift = values.to_numpy()
    is_empty = not len(shift)
    return {
        "method": method,
        "n_queries": n_queries,
        "n_located": len(values),
        "share_located": len(values) / n_queries if n_queries else None,
        "median_shift": None if is_empty else float(np.median(shift)),
        "share_within_0.05": None if is_empty else float((shift <= CLOSE + ROUNDING).mean()),
    }
