"""What each chosen number of the inference does: the study with it, and without it.

    python studies/inference/constants.py [--replicates N] [--out DIR]

A number is put to a value at which it does nothing, and the cells that it is for are run again on
the same data. Writes DIR/constants.md: the worst cell with and without, and the width of the
intervals without over that with.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from cells import CELLS, Cell
from simulate import run_cell

from psibench.metrics import inference, psi


@dataclass(frozen=True)
class Constant:
    """A number, the value at which it does nothing, and the cells (by name) that it is for."""

    name: str
    without: float
    cells: str


CONSTANTS = (
    Constant("NULL_QUANTILE", 0.0, r"(squad|free-.*|fineweb), PSI 0(.1)?$|best 0.98, PSI 0.03"),
    Constant("SMALL_BUCKET", 0.0, r"queries in the last bucket, PSI"),
    Constant("FEWEST_MISSES", 0.001, r"best (0.99|0.995|1), PSI 0(.03)?,|nearly all found"),
    Constant("PSEUDO_QUERIES", 1e-9, r"queries in the last bucket, PSI|nearly all found"),
    Constant("FEWEST_BUCKET_DOCUMENTS", 0.0, r"characters|in the last bucket|60 documents$"),
    Constant("FEWEST_OF_A_KIND", 0.0, r"characters|mean .96|mean .1$|free-20, PSI 0"),
)  # fmt: skip


@contextmanager
def without(constant: Constant) -> Iterator[None]:
    """Put a constant to the value at which it does nothing."""
    places = [part for part in (inference, psi) if hasattr(part, constant.name)]
    patches = [patch.object(part, constant.name, constant.without) for part in places]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def figures(cell: Cell, replicates: int) -> dict[str, float]:
    """What a cell finds, by name."""
    lines = run_cell(cell, replicates=replicates, seed=20260)
    return {line["what"]: float(line["found"]) for line in lines if line["counted"]}


def compared(constant: Constant, replicates: int) -> str:
    """One line of the table."""
    chosen = [
        cell
        for cell in CELLS
        if cell.check in ("coverage", "within_size") and re.search(constant.cells, cell.name)
    ]
    worst: dict[str, list[tuple[float, str]]] = {"with": [], "without": []}
    widths = []
    for cell in chosen:
        found = {"with": figures(cell, replicates)}
        with without(constant):
            found["without"] = figures(cell, replicates)
        for side, values in found.items():
            for what, value in values.items():
                if what.endswith("covered"):
                    worst[side].append((0.95 - value, f"{cell.name}: {what} {value:.3f}"))
                elif what in ("p_position <= .05", "p_bucket <= .05"):
                    worst[side].append((value - 0.05, f"{cell.name}: {what} {value:.3f}"))
        for what in ("psi width", "psi_same width"):
            if found["with"].get(what) and what in found["without"]:
                widths.append(found["without"][what] / found["with"][what])
    sides = (max(worst["with"])[1], max(worst["without"])[1])
    width = f"{np.median(widths):.2f} ({min(widths):.2f} to {max(widths):.2f})" if widths else ""
    return f"| `{constant.name}` | {len(chosen)} | {sides[0]} | {sides[1]} | {width} |"


def main() -> None:
    """Compare each constant, print its line as it comes, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    lines = [
        "# What each chosen number does",
        "",
        f"Written by `python studies/inference/constants.py --replicates {options.replicates}`. "
        "The worst figure of its cells with the number and without it; the width of the intervals "
        "without it over that with it, median (least to largest). `NULL_QUANTILE` moves no "
        "coverage: it changes the upper end of single sets whose bucket means agree by chance.",
        "",
        "| constant | cells | worst with it | worst without it | width |",
        "|---|--:|---|---|--:|",
    ]
    for constant in CONSTANTS:
        lines.append(compared(constant, options.replicates))
        print(lines[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "constants.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
