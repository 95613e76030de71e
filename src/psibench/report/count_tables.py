"""Counts of verification: stages beside the published ones, and scorings saved."""

from collections.abc import Mapping

import polars as pl

from psibench.report.filter_tables import CAVEAT, HERE, count_with_share
from psibench.report.plain import Table
from psibench.report.published import FINEWEB_COUNTS, read_published
from psibench.report.wording import MISSING, count, percent
from psibench.text.segments import POSITIONS

ALL_SCORERS = "all"
STAGE_NOTE = (
    "Items left after each stage, and below the share of each position where it is known. Pairs: "
    "a question and a document not its own, found relevant by most rerankers, then confirmed by "
    "the judges."
)
SAVINGS_NOTE = (
    "What is decided is not scored further: cheapest scorer first, and the same items are kept. "
    "Rerankers score texts, language models grade them."
)

MIXTURE_NOTE = (
    "Training sets of equal size and equal lengths that differ in where the evidence lies; the "
    "smallest cell of length and position is the most that any of them takes from a bin."
)

Counts = Mapping[tuple[str, str], int]
"""(stage, unit) -> items left after the stage."""
Positions = Mapping[str, tuple[int, int, int]]
"""Stage -> items left by position."""


def stage_block(counts: Counts, positions: Positions) -> Table:
    """Return the stages of FineWeb-PosQ beside the published counts (PosQ, appendix A.2).

    A published stage that the run does not have has dashes.
    """
    published = read_published(FINEWEB_COUNTS)
    rows = []
    for row in published.rows.iter_rows(named=True):
        stage, unit = row["stage"], row["unit"]
        n = counts.get((stage, unit))
        mine = positions.get(stage) if n is not None and unit != "documents" else None
        known = tuple(row[f"n_{name}"] for name in POSITIONS)
        theirs = known if None not in known else None
        rows.append(
            (stage, unit, _number(n), *_by_position(mine), _number(row["n"]), *_by_position(theirs))
        )
    names = ("left", *POSITIONS)
    return Table(
        "Stages beside the published ones",
        ("stage", "items", *names, *names),
        tuple(rows),
        groups=(("", 2), (HERE, 4), (f"published: {published.source}", 4)),
        note=f"{STAGE_NOTE} {CAVEAT}",
    )


def savings_block(savings: pl.DataFrame) -> Table:
    """Return scorings made and saved per step and scorer; ``savings`` are SCORING_SAVINGS rows."""
    rows = tuple(
        (
            row["rule"],
            "all of the step" if row["scorer"] == ALL_SCORERS else row["scorer"],
            count(row["n_complete"]),
            count(row["n_scored"]),
            count(row["n_saved"]),
            percent(row["share_saved"]),
        )
        for row in savings.iter_rows(named=True)
    )
    header = ("step", "scorer", "if everything is scored", "made", "saved", "saved, share")
    return Table("Scorings saved", header, rows, note=SAVINGS_NOTE)


def mixture_block(cells: pl.DataFrame) -> Table:
    """Return what each training configuration draws; ``cells`` are MIXTURE_CELLS rows."""
    rows = []
    for (name,), mine in cells.group_by("configuration", maintain_order=True):
        drawn = dict(mine.group_by("target_position").agg(pl.col("n_drawn").sum()).iter_rows())
        per_bin = sorted(set(mine.group_by("length_bin").agg(pl.col("n_drawn").sum())["n_drawn"]))
        parts = [int(drawn.get(position, 0)) for position in POSITIONS]
        spread = " to ".join(count(n) for n in dict.fromkeys((per_bin[0], per_bin[-1])))
        rows.append((str(name), *map(count, parts), count(sum(parts)), spread))
    header = ("configuration", *POSITIONS, "queries", "per length bin")
    return Table("Training mixtures", header, tuple(rows), n_names=1, note=MIXTURE_NOTE)


def _number(n: int | None) -> str:
    return MISSING if n is None else count(n)


def _by_position(parts: tuple[int, int, int] | None) -> tuple[str, ...]:
    if parts is None:
        return (MISSING,) * len(POSITIONS)
    total = sum(parts)
    return tuple(count_with_share(n, n / total if total else None) for n in parts)
