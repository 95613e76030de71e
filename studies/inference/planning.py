"""Count how often the verdict *sensitive* appears at the PSI that `check` and `estimate` print.

    python studies/inference/planning.py [--out DIR] [--cells REGEX] [--replicates N] [--seed S]

Draws query sets, a model whose PSI is the one that `smallest_psi` states for them, and a flat
position-blind control, and applies the rules of the verdict (one model: no adjusted p). Model and
control have separate levels of documents and slopes of clusters. Writes DIR/planning.csv and
DIR/planning.md. `PLANNING_CELLS` and `PLANNING_CHECKS` can be added to the cells and checks of
`simulate.py`.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from cells import Cell
from checks import CHECKS, Finding, number, reject, share
from simulate import COLUMNS, run_cell
from worlds import (
    LAYOUTS,
    Queries,
    Sample,
    World,
    draw_queries,
    draw_scores,
    expected_scores,
)

from psibench.metrics.comparison import compare_profiles
from psibench.metrics.constants import CONTROL_SHARE, SLOPE_SD
from psibench.metrics.design import smallest_psi
from psibench.metrics.inference import DocumentTable, FloatArray, within_documents

TARGET = (0.7, 0.9)
REPLICATES = 300


def planned_verdict(
    world: World,
    rng: np.random.Generator,
    replicates: int,
    *,
    slope_sd: float = 0.0,
    assumed_sd: float | None = None,
    shared: float = 0.0,
    for_headline: bool = False,
) -> Iterator[Finding]:
    """How often the verdict *sensitive* appears at the PSI that `smallest_psi` states.

    ``world.mean`` is the model's mean over all queries. ``assumed_sd`` is the standard
    deviation of clusters' slopes that the plan assumes if it differs from ``slope_sd``; then there
    is no target. ``shared`` is the share of the queries on which both systems have the same luck.
    ``for_headline``: the PSI for the headline test, without a target. The queries are drawn once.
    """
    control_mean = CONTROL_SHARE * world.mean
    known = {"mean": world.mean, "correlation": world.correlation}
    known["slope_sd"] = slope_sd if assumed_sd is None else assumed_sd
    q = draw_queries(world, rng)
    clusters = q.documents % world.clusters if world.clusters else None
    table = Sample(q, np.ones(len(q.documents)), world.n_buckets, clusters).table
    alone = smallest_psi(table, **known)
    psi = smallest_psi(table, **known, control_mean=control_mean)
    yield Finding("smallest PSI of the headline test", number(alone), 0.0, 1)
    yield Finding("smallest PSI of the verdict", number(psi), 0.0, 1)
    if psi is None:
        return
    psi = alone if for_headline and alone is not None else psi
    best = world.mean / (1 - psi * _middle(table))
    own = replace(world, psi=psi, mean=best, cluster_slopes=slope_sd * 3**0.5)  # of a uniform
    other = replace(own, psi=0.0, mean=control_mean)
    p = []
    for _ in range(replicates):
        model, control = _both(own, other, q, shared, rng)
        position = within_documents(Sample(q, model, own.n_buckets, clusters).table).p
        index = np.arange(len(model))
        placed = (q.documents, index, q.buckets, q.lengths, q.positions)
        beyond = compare_profiles(model, control, *placed, units=clusters).p
        p.append((number(position), number(beyond)))
    both = np.nan_to_num(np.array(p), nan=1.0)
    yield share("p_position <= .05", reject(both[:, 0]))
    yield share("p_control <= .05", reject(both[:, 1]))
    bounds = (None, None) if for_headline or assumed_sd is not None else TARGET
    if shared:  # planned with errors that are independent, as a caution
        bounds = (TARGET[0], None)
    yield share("sensitive", reject(both.max(axis=1)), *bounds)


def _both(
    own: World, other: World, queries: Queries, shared: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores of the model and the control."""
    expected = [expected_scores(world, queries, rng) for world in (own, other)]
    if not shared:
        model, control = (draw_scores(one, rng) for one in expected)
        return model, control
    model, alike = _same_luck(*expected, rng)
    alone = draw_scores(expected[1], rng)
    return model, np.where(rng.random(len(alone)) < shared, alike, alone)


def _same_luck(
    first: FloatArray, second: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw scores of two systems from the same random numbers."""
    seed = int(rng.integers(2**63))
    one, other = (draw_scores(mean, np.random.default_rng(seed)) for mean in (first, second))
    return one, other


def _middle(table: DocumentTable) -> float:
    """Mean place of the queries, from 0 in the first bucket to 1 in the last."""
    sizes = table.bucket_sizes
    return float(sizes @ np.arange(len(sizes)) / (len(sizes) - 1) / sizes.sum())


def _cells() -> Iterator[Cell]:
    def cell(name: str, world: World, **options: object) -> Cell:
        name = f"{name}, n {world.n_queries}, mean {world.mean:g}"
        return Cell(4, name, "planned_verdict", world, REPLICATES, tuple(options.items()))

    layouts = ("controlled", "fineweb", "nine", "squad", "free-6", "free-20")
    for layout, n, mean in product(layouts, (300, 1200, 5000), (0.4, 0.6, 0.8)):
        if round(n / LAYOUTS[layout][0]) >= 50:
            yield cell(layout, World(layout, n, mean))
    for layout, clusters, n in product(("controlled", "squad"), (12, 40), (300, 1200, 5000)):
        for mean, sd in product((0.4, 0.6, 0.8), (0.0, 0.15)):
            slopes = "equal slopes" if not sd else f"slopes that differ by {sd:g}"
            world = World(layout, n, mean, clusters=clusters)
            yield cell(f"{layout}, {clusters} clusters of {slopes}", world, slope_sd=sd)
    for layout, mean in product(("controlled", "squad", "free-6"), (0.4, 0.6, 0.8)):
        yield cell(f"{layout}, planned for the headline test", World(layout, mean=mean),
                   for_headline=True)  # fmt: skip
    for layout in ("controlled", "squad"):
        yield cell(f"{layout}, scores correlate as on SQuAD", World(layout, mean=0.6), shared=0.45)
    for clusters in (12, 40):
        world = World("squad", 5000, 0.6, clusters=clusters)
        yield cell(f"squad, {clusters} clusters of slopes that differ by .25", world, slope_sd=0.25)
        yield cell(f"squad, {clusters} clusters of slopes that differ by .25, planned with .05",
                   world, slope_sd=0.25, assumed_sd=SLOPE_SD)  # fmt: skip


PLANNING_CELLS = list(_cells())
PLANNING_CHECKS = {"planned_verdict": planned_verdict}


def page(rows: list[dict[str, object]]) -> Iterator[str]:
    """Yield the lines of the table: one cell a line."""
    yield "# Planning: how often the verdict *sensitive* appears at the stated PSI"
    yield ""
    judged = [row for row in rows if row["target"]]
    none = [row for row in rows if "verdict" in str(row["what"]) and str(row["found"]) == "nan"]
    missed = [f"{row['cell']}: {row['found']}" for row in judged if row["holds"] == "no"]
    yield (
        "`python studies/inference/planning.py`. The control's mean is "
        f"{CONTROL_SHARE:g} of the model's. {len(judged) - len(missed)} of {len(judged)} cells "
        f"with a target are within {TARGET[0]:g} to {TARGET[1]:g}{'; missed: ' if missed else ''}"
        f"{'; '.join(missed)}. In {len(none)} further cells no PSI that this mean allows is found "
        "that often."
    )
    yield ""
    yield "| cell | PSI, headline test | PSI, verdict | p_position | p_control | sensitive |"
    yield "|---|--:|--:|--:|--:|--:|"
    by_cell: dict[object, dict[object, object]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], {})[row["what"]] = row["found"]
    for name, found in by_cell.items():
        shown = (
            found.get("smallest PSI of the headline test"),
            found.get("smallest PSI of the verdict"),
            found.get("p_position <= .05"),
            found.get("p_control <= .05"),
            found.get("sensitive"),
        )
        yield f"| {name} | " + " | ".join(map(_shown, shown)) + " |"


def _shown(value: object) -> str:
    return "–" if value is None or np.isnan(float(str(value))) else f"{float(str(value)):.3f}"


def main() -> None:
    """Run the chosen cells and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--cells", default="", help="regular expression on the cell's name")
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--seed", type=int, default=20260)
    options = parser.parse_args()
    CHECKS.update(PLANNING_CHECKS)
    rows: list[dict[str, object]] = []
    for cell in PLANNING_CELLS:
        if re.search(options.cells, cell.name):
            new = run_cell(cell, replicates=options.replicates, seed=options.seed)
            rows.extend(new)
            print(new[0]["seconds"], cell.name, *(f"{row['what']} {row['found']}" for row in new),
                  sep="; ", flush=True)  # fmt: skip
    with (options.out / "planning.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (options.out / "planning.md").write_text("\n".join(page(rows)) + "\n")


if __name__ == "__main__":
    main()
