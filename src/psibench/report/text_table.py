"""Aligned text tables for a terminal."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

UNDEFINED = "-"
TextForm = str | Callable[[Any], str]
"""A format specification, e.g. ``.3f``, or a function from value to text."""


def aligned(
    rows: Sequence[Sequence[str]], *, n_text: int = 0, numbers: Collection[int] = ()
) -> Iterator[str]:
    """Yield aligned lines; columns in ``numbers``, or from ``n_text`` on, are right-aligned."""
    n_columns = len(rows[0])
    right = numbers or range(n_text, n_columns)
    widths = [max(len(row[column]) for row in rows) for column in range(n_columns)]
    for row in rows:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def frame_lines(
    frame: "pl.DataFrame",
    forms: Mapping[str, TextForm] | None = None,
    *,
    n_text: int,
    heads: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the aligned lines of a frame; the first ``n_text`` columns are aligned to the left.

    Floats have three decimals unless ``forms`` has a form for the column. A list of two numbers is
    an interval, null is ``-``. ``heads`` replace the column names.
    """
    forms = forms or {}

    def cell(value: Any, form: TextForm) -> str:
        if value is None:
            return UNDEFINED
        if callable(form):
            return form(value)
        if isinstance(value, list):
            low, high = (cell(end, form) for end in value)
            return UNDEFINED if UNDEFINED in (low, high) else f"[{low}, {high}]"
        return f"{value:{form}}" if isinstance(value, float) else str(value)

    columns = [
        [cell(v, forms.get(name, ".3f")) for v in frame[name].to_list()] for name in frame.columns
    ]
    return aligned([heads or frame.columns, *zip(*columns, strict=True)], n_text=n_text)
