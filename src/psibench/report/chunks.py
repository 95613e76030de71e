"""The picture of `psibench chunks`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.metrics.chunking import BEST, NOT_APART
from psibench.text.segments import POSITIONS

GREY, LIGHT, DARK = "#b8b8b8", "#e8e8e8", "#444444"
COSTS = (("index_mb", "index size, MB of vectors"), ("seconds", "seconds to encode the index"))


@dataclass(frozen=True)
class _Looks:
    """Colour by size, marker by overlap, and line style by splitter and context."""

    colours: dict[Any, Any]
    markers: dict[Any, str]
    styles: dict[str, str]


def draw_grid(table: pl.DataFrame, curves: pl.DataFrame, path: Path, *, budget: int) -> None:
    """Draw recall against tokens handed on by position, and recall against the index and time.

    ``table`` and ``curves`` are the results of `grid_table`.
    """
    from matplotlib.figure import Figure

    kind = pl.concat_str("splitter", "context", separator=", ").str.replace(", none", "")
    table = table.with_columns(kind=kind)
    looks = _looks(table)
    figure = Figure(figsize=(13, 8.4), layout="constrained")
    axes = figure.subplots(2, 3)
    found = curves["recall"].drop_nulls().to_numpy()
    for axis, position in zip(axes[0], POSITIONS, strict=True):
        _draw_recall(axis, table, curves.filter(position=position), looks, budget=budget)
        axis.set_ylim(max(0.0, float(found.min()) - 0.03), min(1.0, float(found.max()) + 0.03))
    axes[0][0].set_ylabel("share of the evidence found")
    for axis, (column, title) in zip(axes[1], COSTS, strict=False):
        _draw_costs(axis, table, column, looks)
        axis.set_xlabel(title)
    axes[1][0].set_ylabel(f"evidence found in {budget:,} tokens,\nall positions, 95 % interval")
    axes[1][2].axis("off")
    handles = list(_legend(table, looks))
    axes[1][2].legend(handles=handles, loc="center left", frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _looks(table: pl.DataFrame) -> _Looks:
    from matplotlib import colormaps

    sizes, overlaps = (table[name].unique().sort().to_list() for name in ("size", "overlap"))
    shades = colormaps["viridis"]
    colours = {one: shades(0.85 * n / max(1, len(sizes) - 1)) for n, one in enumerate(sizes)}
    kinds = table["kind"].unique(maintain_order=True)
    styles = dict(zip(kinds, ("-", "--", ":", "-."), strict=False))
    return _Looks(colours, dict(zip(overlaps, "os^DvPX*", strict=False)), styles)


def _draw_recall(
    axis: Any, table: pl.DataFrame, curves: pl.DataFrame, looks: _Looks, *, budget: int
) -> None:
    """Draw a line per setting; ``curves`` are of one position of the evidence."""
    for row in table.iter_rows(named=True):
        own = curves.filter(setting=row["setting"]).sort("tokens")
        axis.plot(
            own["tokens"],
            own["recall"],
            looks.styles.get(row["kind"], "-"),
            color=looks.colours[row["size"]],
            marker=looks.markers.get(row["overlap"], "."),
            markersize=4,
            linewidth=2.4 if row["mark"] == BEST else 1,
            alpha=1 if row["mark"] else 0.55,
        )
    position, n = curves.filter(setting=table["setting"][0])["position", "n_queries"].row(0)
    axis.set_title(f"evidence in the document's {position} ({n} queries)", fontsize=10)
    axis.set_xscale("log")
    ticks = curves["tokens"].unique().sort().to_list()
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("tokens handed on")
    axis.axvline(budget, color=GREY, linewidth=0.8, zorder=0)
    axis.grid(visible=True, color=LIGHT, linewidth=0.6)


def _draw_costs(axis: Any, table: pl.DataFrame, column: str, looks: _Looks) -> None:
    """Draw each setting's recall with its interval against a column of the table."""
    for row in table.iter_rows(named=True):
        mean, low, high = row["mean"], row["low"], row["high"]
        axis.errorbar(
            row[column],
            mean,
            yerr=None if low is None else [[mean - low], [high - mean]],
            fmt=looks.markers.get(row["overlap"], "."),
            color=looks.colours[row["size"]],
            markersize=8 if row["mark"] == BEST else 5,
            markerfacecolor=looks.colours[row["size"]] if row["mark"] else "white",
            elinewidth=0.7,
        )
    axis.grid(visible=True, color=LIGHT, linewidth=0.6)
    axis.set_xlim(left=0)


def _legend(table: pl.DataFrame, looks: _Looks) -> Iterator[Any]:
    from matplotlib.lines import Line2D

    for size, colour in looks.colours.items():
        yield Line2D([], [], color=colour, label=f"size {size}")
    for overlap in table["overlap"].unique().sort():
        marker = looks.markers.get(overlap, ".")
        yield Line2D([], [], color=DARK, linestyle="", marker=marker, label=f"overlap {overlap}")
    for kind, style in looks.styles.items():
        yield Line2D([], [], color=DARK, linestyle=style, label=kind)
    best = table.filter(mark=BEST)["setting"][0]
    n_close = table.filter(mark=NOT_APART).height
    point: dict[str, Any] = {"linestyle": "", "marker": "o", "color": DARK}
    yield Line2D([], [], **point, markersize=8, label=f"best: {best}")
    yield Line2D([], [], **point, label=f"filled: cannot be distinguished from it ({n_close})")
    hollow = "hollow: worse than it, or not tested"
    yield Line2D([], [], **point, markerfacecolor="white", label=hollow)
