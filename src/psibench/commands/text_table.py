"""Rows of text in columns, and figures in them."""

from collections.abc import Collection, Iterator, Sequence

UNDEFINED = "-"


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


def figure(value: object, form: str = ".3f") -> str:
    """Write a number, or anything with a format; ``-`` for none."""
    return UNDEFINED if value is None else f"{value:{form}}"


def ends(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Write an interval; ``-`` for none."""
    return UNDEFINED if low is None else f"[{low:{form}}, {high:{form}}]"
