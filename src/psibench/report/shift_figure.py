"""Does a filter itself shift where the evidence lies? Positions before and after every stage."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from psibench.build.rules.sampling_cells import RULE_BALANCE
from psibench.metrics.aggregate import holm
from psibench.report.bars import Stack, draw_stacks
from psibench.report.panels import FigureView, Panel
from psibench.report.styles import MARKERS, LineStyle
from psibench.report.svg import SERIES, inline_svg
from psibench.report.wording import ALPHA, MISSING, count, listed, p_text, p_value, percent
from psibench.text.segments import POSITIONS

TITLE = "Do the filters shift where the evidence is?"
POSITION_STYLES = tuple(LineStyle(colour, *MARKERS[1]) for colour in SERIES[:3])
ROUGH = 5  # smallest expected count for which the chi-square approximation is usually trusted
TEST_TEXT = (
    "p: how often a stage that drops items without regard to position would shift the shares as "
    "much (chi-square test)."
)
HEADER = ("", *POSITIONS, "items", "moved", "p")


def shift_figure(shift: pl.DataFrame, anchor: str) -> FigureView | None:
    """Draw the share of each position before and after every stage, with what it means in words.

    Parameters
    ----------
    shift
        POSITION_SHIFT rows of one domain.
    anchor
        Id of the figure on the page.

    Returns
    -------
    The figure; None where no stage has items with a position.
    """
    stages = [stage for stage in _stages(shift) if stage["before"] is not None]
    if not stages:
        return None
    bars = list(_bars(stages))
    caption = " ".join(shift_sentences(shift))
    drawn = draw_stacks(
        [Stack(label, shares, note) for label, shares, note, _ in bars],
        POSITION_STYLES,
        x_text=f"share of the {stages[0]['unit']} by target position",
    )
    svg = inline_svg(drawn, name=anchor, title=TITLE, description=caption)
    return FigureView(
        anchor=anchor,
        title=TITLE,
        caption=caption,
        panels=(Panel(svg),),
        legend=tuple(zip(POSITIONS, POSITION_STYLES, strict=True)),
        header=HEADER,
        rows=tuple(
            (label, *(percent(share, 2) for share in shares), *more)
            for label, shares, _, more in bars
        ),
    )


def shift_sentences(shift: pl.DataFrame) -> list[str]:
    """Say which stages shift the positions beyond chance, by how much, and which do not.

    p-values are adjusted for the number of stages (Holm). Balancing is left out of the test: it
    evens the positions on purpose.
    """
    stages = _stages(shift)
    tested = [s for s in stages if s["p_value"] is not None and s["stage"] != RULE_BALANCE]
    adjusted = holm(np.array([stage["p_value"] for stage in tested]))
    pairs = list(zip(tested, adjusted, strict=True))
    beyond = [_moved_text(stage) for stage, p in pairs if p <= ALPHA and stage["after"]]
    within = [f"{s['stage']} ({p_text(s['p_value'])})" for s, p in pairs if p > ALPHA]
    rough = [s["stage"] for s in tested if s["min_expected"] < ROUGH]
    evened = any(stage["stage"] == RULE_BALANCE for stage in stages)
    sentences = [f"Beyond chance: {'; '.join(beyond)}."] if beyond else []
    if tested and not beyond:
        sentences.append("No stage shifts the positions beyond chance.")
    sentences += [f"Not distinguishable from chance: {listed(within)}."] if within else []
    sentences += ["Balancing evens the positions on purpose."] if evened else []
    sentences += [f"Few items, so p is rough: {listed(rough)}."] if rough else []
    more = " Beyond chance is p ≤ 0.05 after adjusting for the number of stages."
    return [*sentences, TEST_TEXT + (more if len(tested) > 1 else "")] if tested else sentences


def _stages(shift: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one mapping per stage: its row ``all`` with the shares ``before`` and ``after``."""
    found = []
    ordered = shift.sort("step", maintain_order=True)
    for (_, _), rows in ordered.group_by("stage", "unit", maintain_order=True):
        whole = rows.filter(target_position="all").row(0, named=True)
        parts = {row["target_position"]: row for row in rows.iter_rows(named=True)}
        sides = {
            side: tuple(parts[name][f"share_of_{column}"] for name in POSITIONS)
            for side, column in (("before", "entered"), ("after", "kept"))
        }
        found.append(whole | {k: None if None in v else v for k, v in sides.items()})
    return found


def _bars(
    stages: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, tuple[float, ...], str, tuple[str, ...]]]:
    """Yield name, shares, what stands beside, and further numbers of every bar.

    What enters a stage is drawn where it is not what the stage before it kept.
    """
    last = None
    for stage in stages:
        if stage["before"] != last:
            more = (count(stage["n_entered"]), MISSING, MISSING)
            yield f"before {stage['stage']}", stage["before"], "", more
        last = stage["after"]
        if last is not None:
            more = (count(stage["n_kept"]), percent(stage["shift"], 2), p_value(stage["p_value"]))
            yield f"after {stage['stage']}", last, _beside(stage), more


def _beside(stage: Mapping[str, Any]) -> str:
    if stage["n_kept"] == stage["n_entered"]:
        return "drops none"
    if stage["stage"] == RULE_BALANCE:
        return "on purpose"
    return p_text(stage["p_value"]) if stage["p_value"] is not None else ""


def _moved_text(stage: Mapping[str, Any]) -> str:
    """Say how far the two positions moved that gain and lose most, and p."""
    moves = [after - before for before, after in zip(stage["before"], stage["after"], strict=True)]
    ends = dict.fromkeys((moves.index(max(moves)), moves.index(min(moves))))
    parts = [
        f"{POSITIONS[i]} from {percent(stage['before'][i])} to {percent(stage['after'][i])}"
        for i in ends
    ]
    return f"{stage['stage']} moves {listed(parts)} ({p_text(stage['p_value'])})"
