"""Tables as text for a terminal."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

UNDEFINED = "-"
Form = str | Callable[[Any], str]
"""A format, as ``.3f``, or what writes a value as text."""


def aligned(
    rows: Sequence[Sequence[str]], *, n_text: int = 0, numbers: Collection[int] = ()
) -> Iterator[str]:
    """Yield lines, columns flush left; flush right from ``n_text`` on, or those of ``numbers``."""
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
    forms: Mapping[str, Form] | None = None,
    *,
    n_text: int,
    heads: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a frame as lines, its first ``n_text`` columns flush left.

    Figures have three decimals unless ``forms`` says otherwise, lists of two numbers are intervals,
    nulls are ``-``. ``heads`` stand above in place of the columns' names.
    """
    forms = forms or {}

    def cell(value: Any, form: Form) -> str:
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
