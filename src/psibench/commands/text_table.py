"""Rows of text in columns, and figures in them."""

from collections.abc import Iterator, Sequence

UNDEFINED = "-"


def aligned(rows: Sequence[Sequence[str]], *, n_text: int) -> Iterator[str]:
    """Yield lines: the first ``n_text`` columns flush left, the others flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if column < n_text else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def figure(value: object, form: str = ".3f") -> str:
    """Write a number, or anything with a format; ``-`` for none."""
    return UNDEFINED if value is None else f"{value:{form}}"


def ends(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Write an interval; ``-`` for none."""
    return UNDEFINED if low is None else f"[{low:{form}}, {high:{form}}]"
