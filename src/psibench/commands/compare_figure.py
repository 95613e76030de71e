"""The figure of `psibench compare`: both profiles over positions, and their difference below."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from psibench.report.plots import CONTROL, INK, RC, SERIES
from psibench.report.wording import SCHEME_TEXTS
from psibench.tables import atomic_path

if TYPE_CHECKING:
    from psibench.commands.compare import Profiles

STYLES = (("-", "o"), ("--", "s"))
"""Line and marker of each system: told apart without colour too."""
MAX_NAMED_TICKS = 8


def draw_profiles(profiles: "Profiles", path: Path) -> None:
    """Write the figure of one scheme and metric as ``path`` with .png and with .svg."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    quiet: dict[str, Any] = {**RC, "figure.facecolor": "white", "svg.hashsalt": "compare"}
    with mpl.rc_context(quiet):
        figure = Figure(figsize=(6.0, 5.2), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        x = np.arange(len(profiles.scheme.labels))
        column = "same_" if profiles.differences.is_same else ""
        for frame, name, colour, (line, marker) in zip(
            profiles.means, profiles.names, SERIES, STYLES, strict=False
        ):
            mean, low, high = (
                frame.get_column(column + end).cast(float).to_numpy()
                for end in ("mean", "low", "high")
            )
            _band(upper, x, mean, low, high, colour=colour, line=line, marker=marker, label=name)
        kind = "at equal documents" if column else "plain bucket means"
        upper.set_ylabel(f"{profiles.metric}, {kind}")
        upper.legend(frameon=False, loc="best")
        bands = f"bands: {100 * profiles.level:g} % intervals, documents as units"
        upper.set_title(bands, fontsize=9, loc="right", color=CONTROL)
        found = profiles.differences
        _band(lower, x, found.value, found.low, found.high, colour=INK, line="-", marker="o")
        lower.axhline(0, color=INK, linewidth=0.8)
        lower.axhline(
            profiles.difference,
            label="difference of the means",
            color=CONTROL,
            linewidth=1.4,
            linestyle=":",
        )
        lower.legend(frameon=False, loc="best", fontsize=9)
        lower.set_ylabel(f"{_short(profiles.names[0])} minus\n{_short(profiles.names[1])}")
        every = -(-len(x) // MAX_NAMED_TICKS)
        lower.set_xticks(x[::every], profiles.scheme.labels[::every], fontsize=9)
        lower.set_xlabel(SCHEME_TEXTS.get(profiles.scheme.name, profiles.scheme.name))
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            with atomic_path(path.with_suffix(suffix)) as temporary:
                figure.savefig(temporary, format=suffix[1:], dpi=150, metadata=metadata)


def _band(
    axes: Any,
    x: npt.NDArray[Any],
    mean: npt.NDArray[Any],
    low: npt.NDArray[Any],
    high: npt.NDArray[Any],
    *,
    colour: str,
    line: str,
    marker: str,
    label: str | None = None,
) -> None:
    held = ~np.isnan(mean)
    style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
    axes.plot(x[held], mean[held], label=label, **style)
    axes.fill_between(x[held], low[held], high[held], color=colour, alpha=0.15, linewidth=0)


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"
