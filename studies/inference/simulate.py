"""Simulate benchmarks whose position effect is known, and see whether the inference holds.

    python studies/inference/simulate.py [--out DIR] [--cells REGEX] [--quick] [--seed S]

Writes DIR/results.csv, a line per figure, and DIR/summary.md, a table per claim. Each cell has a
separate random stream, so its figures do not depend on the other cells of a run.
"""

from __future__ import annotations

import argparse
import csv
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cells import CELLS, CLAIMS, Cell
from checks import CHECKS, Finding

COLUMNS = (
    "claim", "cell", "what", "target", "found", "se", "counted", "holds", "replicates", "seconds",
)  # fmt: skip
QUICK = 10  # times fewer replicates
LARGE = (421_708, 20)  # queries and buckets of the largest row there is


def run_cell(cell: Cell, *, replicates: int, seed: int) -> list[dict[str, Any]]:
    """Run one cell; the result depends on the cell, the replicates and the seed only."""
    rng = np.random.default_rng([seed, *cell.name.encode()])
    start = time.process_time()
    found = list(CHECKS[cell.check](cell.world, rng, replicates, **dict(cell.options)))
    seconds = time.process_time() - start
    return [
        line(3 if "bias" in finding.what and cell.claim == 2 else cell.claim,
             cell.name, finding, replicates, seconds)
        for finding in found
    ]  # fmt: skip


def line(
    claim: int, cell: str, finding: Finding, replicates: int, seconds: float
) -> dict[str, Any]:
    """One line of results.csv."""
    return {
        "claim": claim,
        "cell": cell,
        "what": finding.what,
        "target": finding.target,
        "found": f"{finding.found:.2e}" if 0 < finding.found < 1e-4 else round(finding.found, 4),
        "se": round(finding.se, 4),
        "counted": finding.counted,
        "holds": finding.holds,
        "replicates": replicates,
        "seconds": round(seconds, 1),
    }


def pooled_sizes(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Size at .01 of each test, all null cells of claim 1 together."""
    for name in ("position", "shape", "bucket", "trend"):
        chosen = [
            row for row in rows
            if row["claim"] == 1 and row["what"] == f"p_{name} <= .01" and row["counted"]
            and "limit" not in row["cell"]
        ]  # fmt: skip
        if not chosen:
            continue
        counted = sum(row["counted"] for row in chosen)
        found = sum(float(row["found"]) * row["counted"] for row in chosen) / counted
        se = (found * (1 - found) / counted) ** 0.5
        finding = Finding(f"p_{name} <= .01, pooled", found, se, counted, None, 0.015)
        yield line(1, f"all {len(chosen)} null cells", finding, 0, 0.0)


def large_row() -> Iterator[dict[str, Any]]:
    """Processor time and memory of one row of the largest size, in a separate process."""
    out = subprocess.run(
        [sys.executable, __file__, "--large-row"], check=True, capture_output=True, text=True
    )
    before, after, seconds, table_mb = (float(part) for part in out.stdout.split())
    for what, value, most in (
        ("processor seconds a row", seconds, None),
        ("MB above the loaded data", after - before, 512.0),
        ("MB of the process, imports and data and all", after, None),
        ("MB of the two document tables", table_mb, None),
    ):
        yield line(9, f"{LARGE[0]:,} queries, {LARGE[1]} buckets",
                   Finding(what, value, 0.0, 1, None, most), 1, seconds)  # fmt: skip


def measure_large_row() -> None:
    """Print peak memory (MB) before and after, processor seconds, and the table's own size."""
    from worlds import World, draw, draw_scores

    from psibench.metrics.psi import RowData, estimate_row

    world = World(layout="free-20", n_queries=LARGE[0], psi=0.1)
    rng = np.random.default_rng(1)
    for warm in (World(layout="free-20", n_queries=600), world):  # imports and caches first
        sample = draw(warm, rng)
        q = sample.queries
        n = len(sample.scores)
        control = draw_scores(np.full(n, 0.4), rng)
        seen = rng.random(n) < 0.8
        row = RowData(
            sample.scores, q.documents, q.lengths, q.positions, seen=seen, control=control
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.process_time()
        estimate_row(row, np.arange(n), q.buckets, n_buckets=world.n_buckets)
        seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table_mb = 2 * 8 * world.n_buckets * len(np.unique(q.documents)) / 2**20
    print(before, after, seconds, table_mb)


@dataclass
class Claimed:
    """The lines of one claim."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bounded(self) -> list[dict[str, Any]]:
        """Those with a target and an answer."""
        judged = ("yes", "no", "cautious")
        return [row for row in self.rows if row["target"] and row["holds"] in judged]

    @property
    def missed(self) -> list[dict[str, Any]]:
        """The rows that miss their target."""
        return [row for row in self.bounded if row["holds"] == "no"]


def summary(rows: list[dict[str, Any]], *, seed: int) -> str:
    """A table per claim; the figures that miss their target are listed before it."""
    lines = [
        "# Does the inference hold?",
        "",
        f"Written by `python studies/inference/simulate.py --seed {seed}`. A figure holds if it "
        "is within its target; a size below its range or a coverage above it is called "
        "cautious. `se` is the simulation's standard error, `counted` the number of values behind "
        "a figure (replicates that gave an answer, or buckets). Figures without a target are for "
        "comparison. results.csv has all figures.",
        "",
    ]
    seconds = sum({row["cell"]: float(row["seconds"]) for row in rows}.values())
    lines += [f"Processor time: {seconds / 60:.1f} minutes.", ""]
    for number, claim in CLAIMS.items():
        part = Claimed([row for row in rows if int(row["claim"]) == number])
        if not part.rows:
            continue
        cautious = sum(row["holds"] == "cautious" for row in part.bounded)
        lines += [f"## {number}. {claim}", ""]
        lines += [
            f"{len(part.bounded) - len(part.missed)} of {len(part.bounded)} figures hold"
            + (f", {cautious} cautious" if cautious else "")
            + "."
            + ("" if not part.missed else " Missed: " + "; ".join(
                f"{row['cell']}, {row['what']}: {row['found']} (target {row['target']})"
                for row in part.missed
            ) + "."),
            "",
            "| cell | what | target | found | se | counted | holds |",
            "|---|---|---|--:|--:|--:|---|",
        ]  # fmt: skip
        lines += [
            f"| {row['cell']} | {row['what']} | {row['target']} | {_shown(row['found'])} | "
            f"{_shown(row['se'])} | {row['counted']} | {row['holds']} |"
            for row in part.rows
            if row["target"] or row["what"][-6:] != "<= .01"
        ]
        lines.append("")
    return "\n".join(lines)


def _known(path: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Lines of an earlier run of the same code and seed, by cell and replicates."""
    known: dict[tuple[str, int], list[dict[str, Any]]] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                row["claim"], row["counted"] = int(row["claim"]), int(row["counted"])
                known.setdefault((row["cell"], int(row["replicates"])), []).append(row)
    return known


def _shown(value: Any) -> str:
    number = float(value)
    return str(value) if 0 < number < 1e-3 else f"{number:.3f}"


def main() -> None:
    """Run the chosen cells, print a line for each, write the CSV as it grows, then the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--cells", default="", help="regular expression on 'CLAIM NAME'")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} times fewer replicates")
    parser.add_argument("--resume", action="store_true", help="keep cells that are in the CSV")
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--large-row", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large_row:
        measure_large_row()
        return
    options.out.mkdir(parents=True, exist_ok=True)
    known = _known(options.out / "results.csv") if options.resume else {}
    rows: list[dict[str, Any]] = []
    with (options.out / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()

        def write(new: list[dict[str, Any]]) -> None:
            rows.extend(new)
            writer.writerows(new)
            file.flush()

        for cell in CELLS:
            if not re.search(options.cells, f"{cell.claim} {cell.name}"):
                continue
            replicates = max(cell.replicates // (QUICK if options.quick else 1), 2)
            new = known.get((cell.name, replicates)) or run_cell(
                cell, replicates=replicates, seed=options.seed
            )
            write(new)
            shown = ", ".join(
                f"{row['what']} {row['found']}{' MISSED' if row['holds'] == 'no' else ''}"
                for row in new
            )
            print(
                f"{cell.claim} {cell.name} ({new[0]['seconds'] if new else 0} s): {shown}",
                flush=True,
            )
        write(list(pooled_sizes(rows)))
        if re.search(options.cells, "9 large row"):
            write(list(large_row()))
    (options.out / "summary.md").write_text(summary(rows, seed=options.seed))


if __name__ == "__main__":
    main()
