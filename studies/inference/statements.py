"""Count how often the printed row of a model contradicts itself.

    python studies/inference/statements.py [--replicates N] [--out DIR]

Draws several models and a position-blind control on the same queries, and looks at each printed
row: the verdict, the line of advice, the adjusted p and the interval. Writes
DIR/statements.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from worlds import LAYOUTS, World, draw_queries, draw_scores, expected_scores

from psibench.metrics.aggregate import holm
from psibench.metrics.constants import SIGNIFICANCE_LEVEL
from psibench.metrics.psi import RowData, estimate_row
from psibench.report.verdict import NO_EFFECT, SENSITIVE, shown_interval, verdicts

CONTROL = "control"


@dataclass(frozen=True)
class Page:
    """Models on the queries of one world: the PSI of each, and the control's mean."""

    name: str
    world: World
    psis: tuple[float, ...]
    control_mean: float = 0.5


PAGES = (
    Page("thirds, ten equal models", World("fineweb", 1200, 0.7), (0.0,) * 10),
    Page("thirds, ten models, PSI 0 to 0.1", World("fineweb", 1200, 0.7),
         (0.0, 0.0, 0.0, 0.05, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1)),
    Page("20 buckets, 240 documents, PSI 0.3", World("free-20", 1440, 0.6), (0.3,)),
    Page("20 buckets of characters", World("characters", 1200, 0.6), (0.0, 0.1, 0.3)),
    Page("one third a document", World("one-third", 1200, 0.7), (0.0, 0.1, 0.3)),
    Page("one third a document, late in long, harder documents",
         World("one-third", 1200, 0.7, length_effect=0.4, late_in_long=0.9), (0.0, 0.0, 0.1)),
    Page("SQuAD-like, longer is harder", World("squad", 1200, 0.6, length_effect=0.4),
         (0.0, 0.1, 0.3)),
    Page("best bucket 0.99", World("fineweb", 1200, 0.99), (0.0, 0.05, 0.1), 0.9),
    Page("9 clusters of unlike slopes",
         World("squad", 1200, 0.6, clusters=9, cluster_slopes=0.8), (0.0, 0.3)),
)  # fmt: skip


def draw_rows(page: Page, rng: np.random.Generator) -> list[dict[str, Any]]:
    """PSI_TABLE rows of all evidence: the models of a page, and the control."""
    queries = draw_queries(page.world, rng)
    index, n_buckets = np.arange(len(queries.documents)), LAYOUTS[page.world.layout][1]
    clusters = queries.documents % page.world.clusters if page.world.clusters else None

    def scores(mean: float, psi: float) -> np.ndarray:
        world = replace(page.world, mean=mean, psi=psi)
        return draw_scores(expected_scores(world, queries, rng), rng)

    control = scores(page.control_mean, 0.0)
    systems = {f"m{number}": scores(page.world.mean, psi) for number, psi in enumerate(page.psis)}
    rows = []
    for model, found in {**systems, CONTROL: control}.items():
        is_control = model == CONTROL
        data = RowData(
            found, queries.documents, queries.lengths, queries.positions,
            control=None if is_control else control, clusters=clusters,
        )  # fmt: skip
        figures, _ = estimate_row(data, index, queries.buckets, n_buckets=n_buckets)
        names = ("best_bucket", "worst_bucket", "best_same", "worst_same")
        figures |= {name: None if figures[name] is None else str(figures[name]) for name in names}
        flags = ", ".join(filter(None, [figures["flags"], "position_blind" * is_control]))
        rows.append(
            figures
            | {"model": model, "evidence": "all", "buckets": "drawn", "n_queries": len(index)}
            | {"mean": float(found.mean()), "control": None if is_control else CONTROL}
            | {"flags": flags}
        )
    for column, adjusted in (("p_position", "p_adjusted"), ("p_control", "p_control_adjusted")):
        p = holm(np.array([row[column] for row in rows], dtype=np.float64))
        for row, value in zip(rows, p.tolist(), strict=True):
            row[adjusted] = None if np.isnan(value) else value
    return rows


def contradictions(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the kind of contradiction of each printed row that contradicts itself."""
    by_model = {row["model"]: row for row in rows}
    found = []
    for one in verdicts(rows):
        row = by_model[one.model]
        name = "psi_same" if row["psi_same"] is not None else "psi"
        low, _ = shown_interval(row, name)
        p = row["p_adjusted"]
        if low is None or p is None:
            continue
        names_control = "against the control on the same documents" in one.advice
        if (low > 0) != (p <= SIGNIFICANCE_LEVEL):
            found.append("interval and p")
        elif low > 0 and one.label == NO_EFFECT:
            found.append("no effect found, with an interval above 0")
        elif low == 0 and one.label == SENSITIVE and not names_control:
            found.append("an effect, with an interval that starts at 0")
    return found


def main() -> None:
    """Draw each page's sets, print its line as it comes, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    lines = [
        "# Does a printed row contradict itself?",
        "",
        f"Written by `python studies/inference/statements.py --replicates {options.replicates}`.",
        "",
        "| page | rows | rows that contradict themselves | sets with one | verdicts |",
        "|---|--:|--:|--:|---|",
    ]
    for page in PAGES:
        rng = np.random.default_rng([20260, *page.name.encode()])
        n_rows, found, n_sets = 0, [], 0
        labels: dict[str, int] = {}
        for _ in range(options.replicates):
            rows = draw_rows(page, rng)
            for one in verdicts(rows):
                labels[one.label] = labels.get(one.label, 0) + (one.model != CONTROL)
            mine = contradictions(rows)
            n_rows, n_sets, found = n_rows + len(rows), n_sets + bool(mine), found + mine
        n_models = sum(labels.values())
        shares = ", ".join(f"{one} {n / n_models:.2f}" for one, n in sorted(labels.items()) if n)
        kinds = f" ({', '.join(sorted(set(found)))})" if found else ""
        lines.append(
            f"| {page.name} | {n_rows} | {len(found) / n_rows:.3f}{kinds} "
            f"| {n_sets / options.replicates:.3f} | {shares} |"
        )
        print(lines[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "statements.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
