"""Simulate queries with a known true PSI and compare estimators of it.

    python studies/psi_estimator/simulate.py --out DIR [--replications N] [--quick] [--seed S]

Writes DIR/results.csv: one row per cell and candidate, with bias, root mean squared error,
coverage of the nominal 95 % interval, how often it misses on either side, and its mean width.
DIR/summary.md has coverage and bias averaged over groups of cells.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from psibench.metrics.psi import FloatArray, psi_of_columns
from psibench.metrics.psi_inversion import invert_psi
from psibench.metrics.psi_resample import BootstrapNoise, bootstrap_noise
from psibench.metrics.psi_table import IntArray, ScoreTable

# The values of nDCG@10 with one positive document: a miss, then ranks 10 to 1.
LEVELS = np.concatenate([[0.0], 1 / np.log2(1 + np.arange(10, 0, -1))])
# Shares at a mean of about .45; other means come from tilting these exponentially.
SHARES = np.concatenate([[0.45], 0.09 / np.arange(10, 1, -1) / 0.429, [0.34]])
# Bucket sizes in proportion to SQuAD-PosQ (6 buckets), or similarly uneven.
UNEVEN = {3: [5, 3, 2], 6: [21, 16, 13, 11, 10, 20], 20: list(np.linspace(3, 1, 20))}
N_SPLITS = 10
COVERAGE_COLUMNS = [
    "lowest coverage",
    "mean coverage",
    "lowest, percentile bootstrap",
    "mean, percentile bootstrap",
    "mean width",
]
LEVEL = 0.95


@dataclass(frozen=True)
class Cell:
    """One simulated situation; `profile` says how the true means run over the buckets."""

    n_queries: int
    n_buckets: int
    true_psi: float
    profile: str
    sizes: str
    mean_score: float


@dataclass(frozen=True)
class Result:
    """One row of the output; interval columns are None for candidates without an interval."""

    n_queries: int
    n_buckets: int
    true_psi: float
    profile: str
    sizes: str
    mean_score: float
    candidate: str
    replications: int
    bias: float
    rmse: float
    coverage: float | None
    interval_above: float | None
    interval_below: float | None
    width: float | None


def cells(*, quick: bool) -> list[Cell]:
    """All cells: the full grid at one level, and single changes of sizes, level and profile."""
    situations = [(0.0, "flat", "uneven", 0.45)]
    situations += [
        (psi, profile, "uneven", 0.45)
        for psi, profile in product((0.05, 0.1, 0.3, 0.5), ("linear", "one_bad", "one_good"))
    ]
    if quick:
        return [Cell(1000, k, *situation) for k, situation in product((3, 6), situations)]
    changes = [(0.0, "flat", "even", 0.45), (0.0, "flat", "uneven", 0.1)]
    changes += [(0.0, "flat", "uneven", 0.8), (0.1, "linear", "uneven", 0.8)]
    changes += [(psi, "linear", "even", 0.45) for psi in (0.1, 0.3)]
    changes += [(psi, "halves", "uneven", 0.45) for psi in (0.1, 0.3)]
    changes += [(psi, "linear", "uneven", 0.1) for psi in (0.1, 0.3, 0.5)]
    changes += [(0.3, "one_bad", "uneven", 0.1)]
    grid = product((1000, 10_000, 100_000), (3, 6, 20), situations + changes)
    small = product((300,), (3, 6, 20), situations)
    return [Cell(n, k, *situation) for n, k, situation in [*grid, *small]]


def bucket_sizes(cell: Cell) -> IntArray:
    """Queries per bucket, int64 (n_buckets,), summing to n_queries."""
    weights = np.asarray(UNEVEN[cell.n_buckets] if cell.sizes == "uneven" else [1] * cell.n_buckets)
    ends = np.rint(np.cumsum(weights) / weights.sum() * cell.n_queries).astype(np.int64)
    return np.diff(ends, prepend=0)


def true_means(cell: Cell, sizes: IntArray) -> FloatArray:
    """Bucket means with exactly the true PSI and (where .95 allows) the wanted mean score."""
    k = np.arange(cell.n_buckets)
    drop = {
        "flat": np.zeros(len(k)),
        "linear": k / k[-1],
        "one_bad": (k == k[-1]) * 1.0,
        "one_good": (k != 0) * 1.0,
        "halves": (k >= len(k) / 2) * 1.0,
    }[cell.profile]
    relative = 1 - cell.true_psi * drop
    best = min(cell.mean_score / (relative @ sizes / sizes.sum()), 0.95)
    return best * relative


def shares_with_mean(mean: float) -> FloatArray:
    """Tilt SHARES exponentially to the wanted mean: probabilities (n_levels,)."""
    low, high = -60.0, 60.0
    for _ in range(80):
        slope = (low + high) / 2
        shares = SHARES * np.exp(slope * (LEVELS - 0.5))
        shares /= shares.sum()
        low, high = (slope, high) if shares @ LEVELS < mean else (low, slope)
    return shares


def draw_tables(cell: Cell, replications: int, rng: np.random.Generator) -> Iterator[ScoreTable]:
    """Simulated query sets with this cell's true bucket means."""
    sizes = bucket_sizes(cell)
    shares = np.array([shares_with_mean(mean) for mean in true_means(cell, sizes)])
    member = np.eye(cell.n_buckets, dtype=np.bool_)
    for _ in range(replications):
        counts = rng.multinomial(sizes, shares)
        yield ScoreTable(LEVELS, counts, member, counts @ LEVELS)


def cross_fitted(table: ScoreTable, rng: np.random.Generator) -> float:
    """Best and worst bucket from one half of each bucket, ratio from the other; N_SPLITS times."""
    sizes = table.bucket_sizes
    halves = np.stack(
        [
            rng.multivariate_hypergeometric(row, row.sum() // 2, size=N_SPLITS)
            for row in table.counts
        ]
    )
    first = (halves @ LEVELS) / (sizes // 2)[:, None]
    second = (table.exact_sums[:, None] - halves @ LEVELS) / (sizes - sizes // 2)[:, None]
    splits = np.arange(N_SPLITS)
    values = []
    for pick, measure in ((first, second), (second, first)):
        worst = measure[pick.argmin(axis=0), splits]
        best = measure[pick.argmax(axis=0), splits]
        values.append(1 - worst / np.where(best > 0, best, np.inf))
    return float(np.mean(values))


def shrunk(means: FloatArray, noise: BootstrapNoise) -> float:
    """Plain PSI of empirical-Bayes means: each pulled to the centre by its standard error."""
    variance = np.maximum(noise.errors.var(axis=1), 1e-12)
    weights = 1 / variance
    centre = weights @ means / weights.sum()
    excess = weights @ (means - centre) ** 2 - (len(means) - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    pulled = centre + (means - centre) * between / (between + variance)
    return float(psi_of_columns(pulled[:, None])[0])


def candidates(
    table: ScoreTable, n_bootstrap: int, rng: np.random.Generator
) -> dict[str, tuple[float, float, float]]:
    """Estimate, low and high of every candidate; NaN ends where it has no interval."""
    means = table.bucket_means(table.exact_sums)
    plain = float(psi_of_columns(means[:, None])[0])
    seed = int(rng.integers(2**31))
    noise = bootstrap_noise(table, n_bootstrap=n_bootstrap, seed=seed)
    once = psi_of_columns(means[:, None] + noise.errors)
    again = noise.errors[:, rng.permutation(n_bootstrap)]
    twice = psi_of_columns(means[:, None] + noise.errors + again).mean()
    low, high = np.quantile(once, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    fit = invert_psi(means, noise, level=LEVEL)
    nan = float("nan")
    return {
        "plain, percentile bootstrap": (plain, low, high),
        "bootstrap-corrected, basic bootstrap": (
            max(0.0, 2 * plain - once.mean()),
            max(0.0, 2 * plain - high),
            max(0.0, 2 * plain - low),
        ),
        "double bootstrap": (max(0.0, 3 * plain - 3 * once.mean() + twice), nan, nan),
        "cross-fitted": (cross_fitted(table, rng), nan, nan),
        "shrunk means": (shrunk(means, noise), nan, nan),
        "test inversion": (fit.corrected, fit.low, fit.high),
    }


def summarise(cell: Cell, candidate: str, rows: FloatArray) -> Result:
    """Bias and coverage over replications of (estimate, low, high), ``(replications, 3)``."""
    tolerance = 1e-4  # more than the resolution of the inversion
    error = rows[:, 0] - cell.true_psi
    above = rows[:, 1] > cell.true_psi + tolerance
    below = rows[:, 2] < cell.true_psi - tolerance
    has_interval = not np.isnan(rows[:, 1]).any()
    return Result(
        **asdict(cell),
        candidate=candidate,
        replications=len(rows),
        bias=round(float(error.mean()), 4),
        rmse=round(float(np.sqrt((error**2).mean())), 4),
        coverage=round(float(1 - (above | below).mean()), 4) if has_interval else None,
        interval_above=round(float(above.mean()), 4) if has_interval else None,
        interval_below=round(float(below.mean()), 4) if has_interval else None,
        width=round(float((rows[:, 2] - rows[:, 1]).mean()), 4) if has_interval else None,
    )


def simulate(cell: Cell, *, replications: int, n_bootstrap: int, seed: int) -> list[Result]:
    """All candidates in one cell; the result depends on the cell and the seed only."""
    key = [cell.n_queries, cell.n_buckets, int(cell.true_psi * 100), int(cell.mean_score * 100)]
    key += list(f"{cell.profile} {cell.sizes}".encode())
    rng = np.random.default_rng([seed, *key])
    rows = [candidates(t, n_bootstrap, rng) for t in draw_tables(cell, replications, rng)]
    return [summarise(cell, name, np.array([row[name] for row in rows])) for name in rows[0]]


def summary(path: Path) -> str:
    """Markdown tables of a results.csv: coverage per n and K, bias per n, K and true PSI."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| n | buckets | cells | " + " | ".join(COVERAGE_COLUMNS) + " |"]
    lines.append("|--:" * (3 + len(COVERAGE_COLUMNS)) + "|")
    for key, group in _grouped(rows, ("n_queries", "n_buckets")):
        by_name = dict(_grouped(group, ("candidate",)))
        chosen = by_name["test inversion",]
        naive = by_name["plain, percentile bootstrap",]
        coverages = [
            f"{f(float(row['coverage']) for row in of):.3f}"
            for of, f in ((chosen, min), (chosen, _mean), (naive, min), (naive, _mean))
        ]
        width = _mean(float(row["width"]) for row in chosen)
        lines.append(f"| {' | '.join([*key, str(len(chosen)), *coverages])} | {width:.3f} |")
    names = list(dict.fromkeys(row["candidate"] for row in rows))
    lines += ["", "| n | buckets | true PSI | " + " | ".join(names) + " |"]
    lines.append("|--:" * (3 + len(names)) + "|")
    for key, group in _grouped(rows, ("n_queries", "n_buckets", "true_psi")):
        biases = [
            f"{_mean(float(row['bias']) for row in group if row['candidate'] == name):+.3f}"
            for name in names
        ]
        lines.append(f"| {' | '.join([*key, *biases])} |")
    return "\n".join(lines) + "\n"


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _grouped(
    rows: list[dict[str, str]], columns: tuple[str, ...]
) -> list[tuple[tuple[str, ...], list[dict[str, str]]]]:
    """Rows by their values in `columns`, numbers in ascending order."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    if columns == ("candidate",):
        return list(groups.items())
    return sorted(groups.items(), key=lambda item: [float(value) for value in item[0]])


def main() -> None:
    """Run all cells, print a line for each, write the CSV as it grows and the summary tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for results.csv")
    parser.add_argument("--replications", type=int, default=600, help="query sets per cell")
    parser.add_argument("--bootstrap", type=int, default=300, help="bootstrap replicates")
    parser.add_argument("--quick", action="store_true", help="n = 1,000 and 3 or 6 buckets only")
    parser.add_argument("--queries", type=int, nargs="*", help="only cells of these sizes")
    parser.add_argument("--seed", type=int, default=20250)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(Result.__dataclass_fields__))
        writer.writeheader()
        for cell in cells(quick=options.quick):
            if options.queries and cell.n_queries not in options.queries:
                continue
            results = simulate(
                cell,
                replications=options.replications,
                n_bootstrap=options.bootstrap,
                seed=options.seed,
            )
            writer.writerows(asdict(result) for result in results)
            file.flush()
            plain, chosen = results[0], results[-1]
            print(
                f"n={cell.n_queries} K={cell.n_buckets} psi={cell.true_psi} {cell.profile} "
                f"{cell.sizes} mean={cell.mean_score}: bias plain {plain.bias:+.3f} "
                f"corrected {chosen.bias:+.3f}; coverage percentile {plain.coverage:.3f} "
                f"inversion {chosen.coverage:.3f} width {chosen.width:.3f}",
                flush=True,
            )
    (options.out / "summary.md").write_text(summary(options.out / "results.csv"))


if __name__ == "__main__":
    main()
