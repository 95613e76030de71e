"""What a heat map shows, and where on it: cells, names and scale, in pixels."""

from dataclasses import dataclass

CELL_HEIGHT, WIDEST_CELL, NARROWEST_CELL = 24, 96, 27
FONT = 12
CHAR_WIDTH = 0.58  # of the font size, a cautious mean for names of Latin letters
LONGEST_NAME = 34
MANY_COLUMNS = 10
LEGEND_WIDTH, LEGEND_HEIGHT = 160, 10


@dataclass(frozen=True)
class HeatMap:
    """Numbers by row and column.

    Attributes
    ----------
    rows, columns
        Names.
    values
        A number per row and column; None leaves the cell empty.
    decimals
        Digits after the point in a cell.
    corner
        What stands over the names of the rows.
    low, high
        Ends of the colour scale; None takes the smallest and largest value.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    decimals: int = 2
    corner: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the colour scale, (0, 1) without values."""
        known = [value for row in self.values for value in row if value is not None]
        low = min(known, default=0.0) if self.low is None else self.low
        high = max(known, default=1.0) if self.high is None else self.high
        return low, high

    def text(self, value: float | None) -> str:
        """Return a value as it stands in its cell; shares between 0 and 1 without the 0."""
        if value is None:
            return ""
        text = f"{value:.{self.decimals}f}"
        narrow = len(self.columns) > MANY_COLUMNS
        return text.replace("0.", ".", 1) if narrow and abs(value) < 1 and text != "0" else text


@dataclass(frozen=True)
class Layout:
    """Where things stand, pixels."""

    left: float
    top: float
    cell: float
    is_numbered: bool
    n_rows: int
    n_columns: int

    @classmethod
    def of(cls, data: HeatMap) -> "Layout":
        """Lay a heat map out: columns as wide as their names, or narrow and numbered."""
        is_numbered = len(data.columns) > MANY_COLUMNS
        names = row_names(data, is_numbered)
        left = max([text_width(text) for text in names] + [text_width(data.corner)]) + 8
        widest = max((text_width(text) for text in data.columns), default=0.0)
        cell = min(WIDEST_CELL, max(NARROWEST_CELL + 17, widest + 8))
        if is_numbered:
            cell = NARROWEST_CELL + 3 * max(0, data.decimals - 2)
        return cls(left, 22.0, cell, is_numbered, len(data.rows), len(data.columns))

    @property
    def width(self) -> float:
        """Width of the drawing."""
        return max(self.left + self.cell * self.n_columns, self.left + LEGEND_WIDTH + 90) + 2

    @property
    def foot(self) -> float:
        """Where the cells end."""
        return self.top + CELL_HEIGHT * self.n_rows

    @property
    def height(self) -> float:
        """Height of the drawing."""
        return self.foot + LEGEND_HEIGHT + 26


def text_width(text: str) -> float:
    """Return about how wide a name is."""
    return CHAR_WIDTH * FONT * len(text)


def short_name(text: str) -> str:
    """Return a name, cut where it is too long to stand beside a row."""
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def row_names(data: HeatMap, is_numbered: bool) -> list[str]:
    """Return the names of the rows as shown, with the number of the column they also name."""
    if not is_numbered:
        return [short_name(name) for name in data.rows]
    places = {name: place for place, name in enumerate(data.columns, start=1)}
    return [
        f"{places[name]} {short_name(name)}" if name in places else short_name(name)
        for name in data.rows
    ]


def fitting(text: str, width: float) -> str:
    """Return a name, cut where it is wider than a column."""
    most = int((width - 4) / (CHAR_WIDTH * FONT))
    return text if len(text) <= most else f"{text[: most - 1]}…"
