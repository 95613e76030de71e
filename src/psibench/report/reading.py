"""The picture of `psibench audit`: what is read by length, cosines with the thirds, queries."""

from typing import TYPE_CHECKING, Any

import polars as pl

from psibench.probes.reading import METRIC, PLACES
from psibench.report.plots import CONTROL, FAINT, INK, MARKERS, RC, SERIES, short_name
from psibench.tables.spec import POOLED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SERIES = 4
"""Lengths whose cosines are drawn; those with most documents compared."""


def draw_reading(table: pl.DataFrame, buckets: pl.DataFrame | None, *, title: str) -> "Figure":
    """Draw READING_TABLE rows, and BUCKET_SCORES of known-item queries where there are any.

    Panels: by length the share of tokens embedded and not; cosines with head, middle and tail, of
    all documents and by length; the score by third beside the control's.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    has_cosines = bool(table["n_compared"][0])
    widths = [4.6, *([3.2] if has_cosines else []), *([3.2] if buckets is not None else [])]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(sum(widths), 3.4), layout="constrained")
        axes = list(figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
        figure.suptitle(title, fontsize=11, parse_math=False)
        _draw_lengths(axes.pop(0), table)
        if has_cosines:
            _draw_cosines(axes.pop(0), table)
        if buckets is not None:
            _draw_queries(axes.pop(0), buckets)
        for ax in figure.axes:
            ax.tick_params(length=0, pad=6)
    return figure


def _draw_lengths(ax: Any, table: pl.DataFrame) -> None:
    """Draw by length the share of tokens that are embedded, and say how many documents are cut."""
    rows = table.to_dicts()
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    for place, row in enumerate(rows):
        read = 1 - row["never_embedded"]
        ax.barh(place, read, color=SERIES[0], height=0.7)
        ax.barh(place, row["never_embedded"], left=read, color=SERIES[1], height=0.7)
        text = f"{row['n_documents']:,} docs, {100 * row['cut']:.0f} % cut"
        ax.text(1.02, place, text, va="center", fontsize=8, color=INK)
    names = ["all" if row["tokens"] == POOLED else row["tokens"] for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.set_ylabel("tokens of the document")
    ax.set_xlabel("tokens embedded (blue) and never embedded (orange)", fontsize=9)


def _draw_cosines(ax: Any, table: pl.DataFrame) -> None:
    """Draw the cosines of all documents, and of the lengths of which most were compared."""
    by_length = table[1:].filter(pl.col("n_compared") > 0)
    most = by_length.top_k(MOST_SERIES, by="n_compared")["tokens"].to_list()
    for number, row in enumerate(table[:1].to_dicts() + by_length.to_dicts()):
        if number and (row["tokens"] not in most or by_length.height == 1):
            continue
        ax.plot(
            range(len(PLACES)),
            [row[f"cosine_{place}"] for place in PLACES],
            color=SERIES[(number - 1) % len(SERIES)] if number else INK,
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.0 if number else 2.0,
            label=row["tokens"],
        )
    ax.set_xticks(range(len(PLACES)), PLACES)
    ax.set_xlim(-0.3, len(PLACES) - 0.7)
    ax.set_ylabel("cosine with the whole")
    ax.legend(frameon=False, fontsize=7, title="tokens", title_fontsize=7)


def _draw_queries(ax: Any, buckets: pl.DataFrame) -> None:
    """Draw the score by third with its interval, the control's dashed."""
    rows = buckets.filter(evidence="all", metric=METRIC, domain=POOLED, length_bucket=POOLED)
    for number, ((model,), own) in enumerate(rows.group_by("model", maintain_order=True)):
        own = own.sort("bucket_low")
        colour = CONTROL if number else SERIES[0]
        look = {"color": colour, "linestyle": "--" if number else "-", "marker": MARKERS[number]}
        ax.plot(own["bucket"], own["mean"], markersize=4, label=short_name(str(model)), **look)
        ax.fill_between(own["bucket"], own["low"], own["high"], color=colour, alpha=0.15, lw=0)
    ax.set_ylim(0, 1)
    ax.set_ylabel(f"{METRIC}, known-item queries")
    ax.legend(frameon=False, fontsize=7)
    ax.axhline(0, color=FAINT, linewidth=0.8)
