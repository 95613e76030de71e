"""Simulate judges whose labels err by position, and people who grade some queries.

    python studies/inference/labels.py [--replicates N] [--seed S] [--out FILE]

A judge accepts queries whose document does not answer them, more of them at the beginning of
documents, for example; systems answer such queries less often. People grade some queries, drawn at
random. Writes a table with the errors of the uncorrected and corrected means, how often the
intervals contain the truth, and how often the test finds that agreement depends on position.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import norm
from worlds import Queries, World, draw_queries, draw_scores, expected_scores

from psibench.metrics.inference import (
    BoolArray,
    FloatArray,
    document_table,
    equal_means,
    raw_profile,
)
from psibench.metrics.labels import corrected_mean
from psibench.metrics.psi import bucket_columns

IDEAL = 1 + 1 / np.log2(3)  # of nDCG with two relevant documents


@dataclass(frozen=True)
class Judge:
    """Errors of the labels.

    Attributes
    ----------
    first, last : float
        Share of wrong positives in the first and in the last bucket, linear between them.
    found : float
        Expected score of a wrong query, as a share of the score that it would have if right.
    missed : float
        Share of the right queries that another document answers, too.
    correlation : float
        Correlation of the errors of one document's queries, as latent normal numbers.
    """

    first: float
    last: float
    found: float = 0.3
    missed: float = 0.0
    correlation: float = 0.2


WHOLE = "all queries of some documents graded"
CELLS: dict[str, tuple[World, Judge]] = {
    "favours beginnings": (World("free-3", mean=0.7), Judge(0.2, 0.02)),
    "the same, misses relevant documents": (
        World("free-3", mean=0.7),
        Judge(0.2, 0.02, missed=0.2),
    ),
    "the same, wrong ones never found": (World("free-3", mean=0.7), Judge(0.2, 0.02, found=0)),
    "the same, wrong ones found as others": (World("free-3", mean=0.7), Judge(0.2, 0.02, found=1)),
    "the same, PSI .3, mean .3": (World("free-3", mean=0.3, psi=0.3), Judge(0.2, 0.02)),
    "the same, mean .95": (World("free-3", mean=0.95), Judge(0.2, 0.02)),
    "the same, documents of one kind of error": (
        World("free-3", mean=0.7),
        Judge(0.2, 0.02, correlation=0.8),
    ),
    f"the same, {WHOLE}": (World("free-3", mean=0.7), Judge(0.2, 0.02)),
    "the same, 300 queries": (World("free-3", 300, mean=0.7), Judge(0.2, 0.02)),
    "the same, 5,000 queries": (World("fineweb", 5000, mean=0.7), Judge(0.2, 0.02)),
    "the same, six buckets, longer is harder": (
        World("squad", mean=0.7, length_effect=0.3),
        Judge(0.2, 0.02),
    ),
    "wrong everywhere, .10": (World("free-3", mean=0.7), Judge(0.1, 0.1)),
    "wrong everywhere, .10, six buckets": (World("squad", mean=0.7), Judge(0.1, 0.1)),
    "wrong everywhere, .03": (World("free-3", mean=0.7), Judge(0.03, 0.03)),
    "never wrong": (World("free-3", mean=0.7), Judge(0.0, 0.0)),
}
GRADED = (60, 100, 200)
INTRODUCTION = """# Labels that err by position

Written by `python studies/inference/labels.py --seed {seed} --replicates {replicates}` in
{minutes:.0f} minutes of processor time. Each line: a world, a judge, and the number of queries that
people graded. `off` is the error of the mean under the judge's labels (for buckets, the largest),
`bias` the error of the corrected mean, `covers` how often the 95 % interval contains the truth,
`graded only` the width of an interval from only the graded queries, `agreement covers` how often
the interval of the share of right labels contains the truth, `test rejects` how often p_position is
at most .05: power if the judge favours beginnings, else the size; nan with too few documents. The
truth is the value over a million queries, known to about .002.

"""


def draw(
    world: World, judge: Judge, rng: np.random.Generator
) -> tuple[Queries, FloatArray, FloatArray]:
    """Queries, scores under the judge's labels, and under people's: NaN where nothing answers."""
    queries = draw_queries(world, rng)
    expected = expected_scores(world, queries, rng)
    along = queries.buckets / (world.n_buckets - 1)
    rate = judge.first + (judge.last - judge.first) * along
    n_documents = int(queries.documents.max()) + 1
    shared = rng.standard_normal(n_documents)[queries.documents]
    own = rng.standard_normal(len(rate))
    latent = judge.correlation**0.5 * shared + (1 - judge.correlation) ** 0.5 * own
    wrong = latent < norm.ppf(rate)
    machine = draw_scores(np.where(wrong, judge.found * expected, expected), rng)
    human = machine.copy()
    other = rng.random(len(rate)) < judge.missed
    human[other] = (machine[other] + draw_scores(expected[other], rng) / np.log2(3)) / IDEAL
    human[wrong] = np.nan
    return queries, machine, human


def draw_graded(
    queries: Queries, n_graded: int, rng: np.random.Generator, *, whole: bool
) -> BoolArray:
    """Which queries people grade: drawn one by one, or whole documents until there are enough."""
    graded = np.zeros(len(queries.documents), np.bool_)
    if not whole:
        graded[rng.choice(len(graded), n_graded, replace=False)] = True
        return graded
    order = rng.permutation(int(queries.documents.max()) + 1)
    held = np.cumsum(np.bincount(queries.documents)[order])
    chosen = order[: int(np.searchsorted(held, n_graded)) + 1]
    return np.isin(queries.documents, chosen)


@cache
def truth(world: World, judge: Judge) -> tuple[FloatArray, FloatArray]:
    """Means of all queries and of each bucket, (1 + n_buckets,): people's, and off by how much."""
    rng = np.random.default_rng([3, *repr((world, judge)).encode()])
    queries, machine, human = draw(replace(world, n_queries=1_000_000), judge, rng)
    places = [np.ones(len(machine), np.bool_)]
    places += [queries.buckets == k for k in range(world.n_buckets)]
    true = np.array([np.nanmean(human[own]) for own in places])
    return true, np.array([machine[own].mean() for own in places]) - true


def simulate(
    name: str, world: World, judge: Judge, n_graded: int, *, replicates: int, seed: int
) -> dict[str, float]:
    """One line of the table: of so many graded queries in one world."""
    rng = np.random.default_rng([seed, n_graded, *name.encode()])
    true, off = truth(world, judge)
    rates = judge.first + (judge.last - judge.first) * np.linspace(0, 1, world.n_buckets)
    found: dict[str, list[float]] = {}

    def note(what: str, value: float | bool) -> None:
        found.setdefault(what, []).append(float(value))

    for _ in range(replicates):
        queries, machine, human = draw(world, judge, rng)
        graded = draw_graded(queries, n_graded, rng, whole=WHOLE in name)
        agrees = ~np.isnan(human)
        human = np.where(graded, human, np.nan)
        for place in range(-1, world.n_buckets):
            own = queries.buckets == place if place >= 0 else np.ones(len(machine), np.bool_)
            kind = "mean" if place < 0 else "bucket"
            own_true = true[place + 1]
            low, high = _ends(queries, machine, own)
            note(f"{kind} uncorrected covers", low <= own_true <= high)
            one = corrected_mean(machine[own], human[own], graded[own], queries.documents[own])
            if one is not None:
                value, low, high = one
                note(f"{kind} bias", value - own_true)
                note(f"{kind} covers", low <= own_true <= high)
                note(f"{kind} width", high - low)
                low, high = _ends(queries, np.nan_to_num(human), own & graded & agrees)
                note(f"{kind} width of graded only", high - low)
            if place >= 0 and (own & graded).any():
                low, high = _ends(queries, agrees.astype(np.float64), own & graded)
                if not np.isnan(low):
                    note("agreement covers", low <= 1 - rates[place] <= high)
        own = np.flatnonzero(graded)
        table = document_table(
            agrees.astype(np.float64),
            queries.documents,
            own,
            queries.buckets[own],
            n_buckets=world.n_buckets,
        )
        p = equal_means(table).p_trend
        note("rejects", np.nan if p is None else p <= 0.05)
    known = {what: [v for v in values if not np.isnan(v)] for what, values in found.items()}
    means = {what: float(np.mean(values)) for what, values in known.items() if values}
    return means | {"off": off[0], "off most": off[1:][np.abs(off[1:]).argmax()]}


def _ends(queries: Queries, scores: FloatArray, which: BoolArray) -> tuple[float, float]:
    """The interval that psibench gives the mean of some queries."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return np.nan, np.nan
    table = document_table(
        scores, queries.documents, rows, np.zeros(len(rows), np.int64), n_buckets=1
    )
    columns = bucket_columns(table, raw_profile(table), None, 1, 0.95)
    return float(columns["low"][0]), float(columns["high"][0])


COLUMNS = (
    ("mean: off", "off", "+.3f"),
    ("bias", "mean bias", "+.3f"),
    ("covers", "mean covers", ".3f"),
    ("uncorrected covers", "mean uncorrected covers", ".3f"),
    ("width", "mean width", ".3f"),
    ("graded only", "mean width of graded only", ".3f"),
    ("buckets: off most", "off most", "+.3f"),
    ("bias", "bucket bias", "+.3f"),
    ("covers", "bucket covers", ".3f"),
    ("uncorrected covers", "bucket uncorrected covers", ".3f"),
    ("agreement covers", "agreement covers", ".3f"),
    ("test rejects", "rejects", ".3f"),
)


def main() -> None:
    """Run all cells and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "labels.md")
    options = parser.parse_args()
    start = time.process_time()
    heads = ["labels", "graded", *(head for head, _, _ in COLUMNS)]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "--:|" * (len(heads) - 1)]
    for name, (world, judge) in CELLS.items():
        for n_graded in GRADED:
            found = simulate(
                name, world, judge, n_graded, replicates=options.replicates, seed=options.seed
            )
            cells = [f"{found.get(what, np.nan):{form}}" for _, what, form in COLUMNS]
            lines.append(f"| {name} | {n_graded} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    minutes = (time.process_time() - start) / 60
    text = INTRODUCTION.format(replicates=options.replicates, seed=options.seed, minutes=minutes)
    options.out.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
