"""The picture of `psibench chunks`."""

from pathlib import Path

import polars as pl

from psibench.metrics.chunking import BEST, NOT_APART
from psibench.text.segments import POSITIONS

GREY = "#b8b8b8"


def draw_grid(table: pl.DataFrame, curves: pl.DataFrame, path: Path, *, budget: int) -> None:
    """Draw recall against tokens handed on by position, and recall against the index and time.

    ``table`` and ``curves`` are the results of `grid_table`.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    sizes = table["size"].unique().sort().to_list()
    shades = colormaps["viridis"]
    colours = {
        size: shades(0.85 * number / max(1, len(sizes) - 1)) for number, size in enumerate(sizes)
    }
    names = table["setting"].to_list()
    kinds = table.select(pl.concat_str("splitter", "context", separator=", ")).to_series()
    kinds = kinds.str.replace(", none", "")
    styles = dict(zip(kinds.unique(maintain_order=True), ("-", "--", ":", "-."), strict=False))
    overlaps = table["overlap"].unique().sort().to_list()
    markers = dict(zip(overlaps, "os^DvPX*", strict=False))
    figure = Figure(figsize=(13, 8.4), layout="constrained")
    axes = figure.subplots(2, 3)
    for axis, position in zip(axes[0], POSITIONS, strict=True):
        for row, kind in zip(table.iter_rows(named=True), kinds, strict=True):
            own = curves.filter(setting=row["setting"], position=position).sort("tokens")
            axis.plot(
                own["tokens"],
                own["recall"],
                styles.get(kind, "-"),
                color=colours[row["size"]],
                marker=markers.get(row["overlap"], "."),
                markersize=4,
                linewidth=2.4 if row["mark"] == BEST else 1,
                alpha=1 if row["mark"] else 0.55,
            )
        n = curves.filter(setting=names[0], position=position)["n_queries"][0]
        axis.set_title(f"evidence in the document's {position} ({n} queries)", fontsize=10)
        axis.set_xscale("log")
        ticks = curves["tokens"].unique().sort().to_list()
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel("tokens handed on")
        axis.axvline(budget, color=GREY, linewidth=0.8, zorder=0)
    found = curves["recall"].drop_nulls().to_numpy()
    low, high = max(0.0, float(found.min()) - 0.03), min(1.0, float(found.max()) + 0.03)
    for axis in axes[0]:
        axis.set_ylim(low, high)
        axis.grid(visible=True, color="#e8e8e8", linewidth=0.6)
    axes[0][0].set_ylabel("share of the evidence found")
    shown = (("index_mb", "index size, MB of vectors"), ("seconds", "seconds to encode the index"))
    for axis, (column, title) in zip(axes[1], shown, strict=False):
        for row in table.iter_rows(named=True):
            axis.errorbar(
                row[column],
                row["mean"],
                yerr=None
                if row["low"] is None
                else [[row["mean"] - row["low"]], [row["high"] - row["mean"]]],
                fmt=markers.get(row["overlap"], "."),
                color=colours[row["size"]],
                markersize=8 if row["mark"] == BEST else 5,
                markerfacecolor=colours[row["size"]] if row["mark"] else "white",
                elinewidth=0.7,
            )
        axis.set_xlabel(title)
        axis.grid(visible=True, color="#e8e8e8", linewidth=0.6)
        axis.set_xlim(left=0)
    axes[1][0].set_ylabel(f"evidence found in {budget:,} tokens,\nall positions, 95 % interval")
    legend = [Line2D([], [], color=colours[size], label=f"size {size}") for size in sizes]
    legend += [
        Line2D(
            [],
            [],
            color="#444444",
            linestyle="",
            marker=markers.get(one, "."),
            label=f"overlap {one}",
        )
        for one in overlaps
    ]
    legend += [
        Line2D([], [], color="#444444", linestyle=style, label=kind)
        for kind, style in styles.items()
    ]
    best = table.filter(mark=BEST)["setting"][0]
    n_close = table.filter(mark=NOT_APART).height
    legend += [
        Line2D(
            [], [], linestyle="", marker="o", markersize=8, color="#444444", label=f"best: {best}"
        ),
        Line2D(
            [], [], linestyle="", marker="o", color="#444444",
            label=f"filled: cannot be distinguished from it ({n_close})",
        ),
        Line2D(
            [], [], linestyle="", marker="o", markerfacecolor="white", color="#444444",
            label="hollow: worse than it, or not tested",
        ),
    ]  # fmt: skip
    axes[1][2].axis("off")
    axes[1][2].legend(handles=legend, loc="center left", frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
