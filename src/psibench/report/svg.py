"""A matplotlib figure as inline SVG: small, deterministic, themed, with ids of its own."""

import io
import re
import warnings
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour-blind-safe (after Okabe and Ito, yellow left out: too faint on white). The page's style
# sheet gives every colour a second value for dark mode, so they are written as variables.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, FAINT, GRID, ACCENT, CONTROL = "#1b1f24", "#b8bec6", "#e3e6ea", "#0072b3", "#6b737d"
VARIABLES = {colour: f"--series-{i}" for i, colour in enumerate(SERIES)} | {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
    ACCENT: "--accent",
    CONTROL: "--control",
}
RC = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "path.simplify": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"\s*font-family: [^;]*;?")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def inline_svg(figure: "Figure", *, name: str, title: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element to stand inside an HTML page.

    Ids start with ``name``, so several figures share a page; unused ids, comments and metadata
    are left out; numbers have two decimals; colours of this module become CSS variables with the
    light colour as fallback. ``title`` and ``description`` are for screen readers.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({**RC, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    root = ElementTree.fromstring(buffer.getvalue())  # our own output, not foreign XML
    _strip_names(root)
    _drop_extras(root)
    _rename_ids(root, name)
    for element in root.iter():
        _tidy(element)
    _describe(root, name, title, description)
    return ElementTree.tostring(root, encoding="unicode")


def _strip_names(root: ElementTree.Element) -> None:
    """Take namespaces off: an HTML parser supplies them."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key in [k for k in element.attrib if "}" in k]:
            element.set(key.rpartition("}")[2], element.attrib.pop(key))


def _drop_extras(root: ElementTree.Element) -> None:
    """Drop the metadata and the style rule that would apply to the whole page."""
    for parent in root.iter():
        for child in [c for c in parent if c.tag in ("metadata", "style")]:
            parent.remove(child)
    for parent in root.iter():
        for child in [c for c in parent if c.tag == "defs" and len(c) == 0]:
            parent.remove(child)


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    used = {e.get("href", "")[1:] for e in root.iter() if e.get("href", "").startswith("#")}
    for element in root.iter():
        for value in element.attrib.values():
            used.update(_REFERENCE.findall(value))
    renamed = {old: f"{name}-{i}" for i, old in enumerate(sorted(used))}
    for element in root.iter():
        identity = element.attrib.pop("id", None)
        if identity in renamed:
            element.set("id", renamed[identity])
        for key, value in element.attrib.items():
            if key == "href":
                element.set(key, f"#{renamed[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(lambda m: f"url(#{renamed[m[1]]})", value))


def _tidy(element: ElementTree.Element) -> None:
    element.tail = None
    if element.text is not None and not element.text.strip():
        element.text = None
    for key, value in element.attrib.items():
        if key == "id" or key == "href":
            continue
        value = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
        if key == "d":
            value = " ".join(value.split())
        if key == "style":
            value = _COLOUR.sub(_as_variable, _FONT.sub("", value))
            if element.tag == "text" and "fill:" not in value:
                value += "; fill: var(--ink)"
        element.set(key, value)
    if _NO_TURN.fullmatch(element.get("transform", "")):
        del element.attrib["transform"]


def _as_variable(match: re.Match[str]) -> str:
    variable = VARIABLES.get(match[0])
    return f"var({variable}, {match[0]})" if variable else match[0]


def _describe(root: ElementTree.Element, name: str, title: str, description: str) -> None:
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for tag, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(0, element)
