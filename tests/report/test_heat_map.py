from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psibench.report.colour_ramp import RAMP, colour, contrast, text_colour
from psibench.report.heat_map import HeatMap, draw_heat_map


def drawn(data: HeatMap):
    svg = draw_heat_map(data, name="a", title="T < 1", description="D & E")
    return ElementTree.fromstring(svg)


def texts(root) -> list[str]:
    return ["".join(t for t in e.itertext() if e.find("title") is None) for e in root.iter("text")]


def cells(root) -> dict[str, str]:
    """Name of each cell -> its colour."""
    found = {}
    for group in root.iter("g"):
        style = group.find("rect").get("style")
        found[group.find("title").text] = style.removeprefix("fill: ")
    return found


SMALL = HeatMap(("x<y", "z"), ("a", "b"), ((1.0, 2.0), (None, 3.0)), corner="rows")


def test_every_value_has_a_cell_with_its_name_and_the_higher_is_the_darker():
    root = drawn(SMALL)
    found = cells(root)
    assert list(found) == ["x<y, a: 1.00", "x<y, b: 2.00", "z, b: 3.00"]
    assert (found["x<y, a: 1.00"], found["z, b: 3.00"]) == (RAMP[0], RAMP[-1])
    assert [contrast("#ffffff", code) for code in RAMP] == sorted(
        contrast("#ffffff", code) for code in RAMP
    )
    assert texts(root) == ["rows", "x<y", "z", "a", "b", "1.00", "2.00", "3.00", "1.00", "3.00"]


def test_it_is_described_for_screen_readers():
    root = drawn(SMALL)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby").split()
    named = {element.get("id"): element.text for element in root if element.get("id")}
    assert [named[name] for name in ids] == ["T < 1", "D & E"]


def test_many_columns_are_numbered_and_the_rows_say_which_is_which():
    names = tuple(f"domain-{i}" for i in range(31))
    values = tuple(tuple(None if i == j else 0.5 + i / 100 for j in range(31)) for i in range(31))
    root = drawn(HeatMap(names, names, values))
    shown = texts(root)
    assert shown[:2] == ["1 domain-0", "2 domain-1"]
    assert ".51" in shown
    assert len(cells(root)) == 31 * 30
    width = float(root.get("viewBox").split()[2])
    assert f"max-width: {width:g}px" in root.get("style")
    assert width < 1000  # 31 columns still fit a page with a legible font
    sizes = {float(element.get("font-size")) for element in root.iter("text")}
    assert min(sizes) >= 10


def test_long_names_are_cut_and_kept_in_full_where_they_are_pointed_at():
    long = "medicine-health-psychology-traditional-chinese-medicine"
    root = drawn(HeatMap((long,), ("completeness-and-more",), ((1.0,),)))
    tips = [element.find("title").text for element in root.iter("text") if len(element)]
    assert tips == [long, "completeness-and-more"]


@pytest.mark.parametrize(
    "data", [HeatMap((), (), ()), HeatMap(("a",), ("b",), ((None,),)), HeatMap((), ("a",), ())]
)
def test_nothing_to_show_is_an_empty_drawing_without_a_scale(data):
    root = drawn(data)
    assert cells(root) == {}
    assert root.find("defs") is None


def test_equal_values_have_one_colour_in_the_middle():
    root = drawn(HeatMap(("a",), ("b", "c"), ((2.0, 2.0),)))
    assert set(cells(root).values()) == {colour(0.5)}


@given(st.floats(-1, 2))
def test_text_stands_out_on_every_colour(share):
    code = colour(share)
    assert contrast(text_colour(code), code) >= 4.5  # WCAG 2, level AA
