"""A plain table of the page, as text."""

from dataclasses import dataclass

FOLDED_ROWS = 40


@dataclass(frozen=True)
class Table:
    """A plain table of the page: what it is about, header, and rows of text.

    The first ``n_names`` columns name a row. ``groups`` are headings above the header, each with
    the number of columns it spans; ``note`` stands below the table. A line break within a cell is
    shown as one.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_names: int = 2
    groups: tuple[tuple[str, int], ...] = ()
    note: str = ""

    @property
    def is_long(self) -> bool:
        """Whether the table is folded until it is asked for."""
        return len(self.rows) > FOLDED_ROWS

    @property
    def edges(self) -> frozenset[int]:
        """Columns, from 0, at which a group other than the first begins."""
        widths = [width for _, width in self.groups]
        return frozenset(sum(widths[:place]) for place in range(1, len(widths)))
