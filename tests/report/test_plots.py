"""Plots as they stand on the page: inline, described, themed, the same again."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from psibench.report.plots import (
    draw_heat_map,
    inline_svg,
    model_styles,
    swatch,
)


def plotted(name: str = "one") -> str:
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1], marker="o", color="#0072b2")
    return inline_svg(figure, name=name, title="A < B", description="d & e")


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def drawn(*args) -> str:
    return inline_svg(draw_heat_map(*args), name="a", title="T", description="D")


def test_a_plot_is_described_and_needs_nothing_of_matplotlib() -> None:
    svg = plotted()
    root = ElementTree.fromstring(svg.replace("xlink:", ""))
    assert root.get("aria-label") == "A < B. d & e"
    assert root.get("role") == "img"
    assert not re.search("<style|metadata|xmlns", svg)
    assert svg == plotted()


def test_plots_share_a_page_without_sharing_ids() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', plotted(name))) for name in ("one", "two")]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert set(re.findall(r"#([mp][0-9a-f]{10})", plotted())) <= ids[0]


def test_no_two_models_look_the_same() -> None:
    controls = {f"m{i}": None for i in range(36)} | {"a": "position-blind", "b": "truncating"}
    drawings = {swatch(style, "one") for style in model_styles(controls).values()}
    assert len(drawings) == 38
    assert all('aria-hidden="true"' in one for one in drawings)


def test_every_value_of_a_heat_map_is_in_its_cell_with_the_ends_of_the_scale() -> None:
    svg = drawn(("x<y", "z"), ("a", "b"), ((1.0, 2.0), (None, 3.0)))
    assert texts(svg) == ["a", "b", "x&lt;y", "z", "1.00", "2.00", "3.00", "1.00", "3.00"]


def test_many_columns_are_numbered_and_the_rows_say_which_is_which() -> None:
    names = tuple(f"domain-{i}" for i in range(31))
    values = tuple(tuple(None if i == j else 0.5 + i / 100 for j in range(31)) for i in range(31))
    svg = drawn(names, names, values)
    assert texts(svg)[30:33] == ["31", "1 domain-0", "2 domain-1"]
    assert texts(svg).count(".51") == 30
    width = float(svg.split('viewBox="0 0 ')[1].split()[0])
    assert width * 4 / 3 < 1200  # points to pixels: 31 columns still fit a page


def test_long_names_are_cut() -> None:
    long = "medicine-health-psychology-traditional-chinese-medicine"
    svg = drawn((long,), ("completeness-and-more",), ((1.0,),))
    assert texts(svg)[:2] == ["completeness-an\u2026", "medicine-health-psychology-tradit\u2026"]


@pytest.mark.parametrize("args", [((), (), ()), (("a",), ("b",), ((None,),)), ((), ("a",), ())])
def test_nothing_to_show_is_an_empty_drawing_without_a_scale(args) -> None:
    svg = drawn(*args)
    assert "<image" not in svg
    assert texts(svg) == [*args[1], *args[0]]


def test_text_stands_out_on_every_colour_of_a_heat_map() -> None:
    def luminance(channels):
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    steps = 64
    figure = draw_heat_map(
        [f"r{i}" for i in range(steps)], ["a"], [[i / (steps - 1)] for i in range(steps)]
    )
    image = figure.axes[0].images[0]
    for step, text in enumerate(figure.axes[0].texts):
        background = image.cmap(image.norm(step / (steps - 1)))[:3]
        low, high = sorted((luminance(to_rgb(text.get_color())), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG 2, level AA
