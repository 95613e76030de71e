"""Plots on the page are reproducible."""

import polars as pl
import pytest
from matplotlib.figure import Figure
from report_tables import svg_texts

from psibench.report.plots import LEGEND_LINE, Axis, LineStyle, as_image, draw_curves, draw_heat_map

CELLS = {"row": pl.String, "column": pl.String, "value": pl.Float64}


def drawn(*cells) -> list[str]:
    figure = draw_heat_map(pl.DataFrame(list(cells), schema=CELLS, orient="row"))
    return svg_texts(as_image(figure))


def curves(styles: dict[str, LineStyle]) -> Figure:
    points = [(name, bucket, 0.5, 0.4, 0.6) for name in styles for bucket in "xy"]
    lines = pl.DataFrame(points, schema=["line", "bucket", "mean", "low", "high"], orient="row")
    axis = Axis(("x", "y"), ((0.0, 0.5), (0.5, 1.0)), "place")
    return draw_curves(lines, axis, styles, y_text="score")


def test_the_legend_names_each_line():
    styles = {"a": LineStyle("#0072b2", "o"), "b": LineStyle("#d55e00")}
    figure = curves(styles)
    (legend,) = figure.legends
    many = curves({f"line {k}": LineStyle("#0072b2") for k in range(8)})  # four lines, not two
    assert many.get_figheight() == pytest.approx(figure.get_figheight() + 2 * LEGEND_LINE)
    shown = zip(legend.get_texts(), legend.get_lines(), strict=True)
    assert {text.get_text(): line.get_color() for text, line in shown} == {
        name: style.colour for name, style in styles.items()
    }


def test_a_line_has_a_gap_where_a_bucket_is_empty():
    rows = [("a", "first", 0.9, 0.8, 1.0), ("a", "last", 0.5, 0.4, 0.6)]
    lines = pl.DataFrame(rows, ["line", "bucket", "mean", "low", "high"], orient="row")
    axis = Axis(("first", "empty", "last"), ((0, 1), (1, 2), (2, 3)), "position")
    (ax,) = draw_curves(lines, axis, {"a": LineStyle("#0072b2")}, y_text="mean").axes
    (line,) = ax.get_lines()
    assert [value == value for value in line.get_ydata()] == [True, False, True]


def test_many_columns_are_numbered():
    names = [f"domain-{i}" for i in range(31)]
    cells = [
        (a, b, None if i == j else 0.5 + i / 100)
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]
    texts = drawn(*cells)
    assert texts[30:33] == ["31", "1 domain-0", "2 domain-1"]
    assert texts.count(".51") == 30
    width = draw_heat_map(pl.DataFrame(cells, schema=CELLS, orient="row")).get_figwidth()
    assert width * 96 < 1200  # pixels: 31 columns still fit a page
