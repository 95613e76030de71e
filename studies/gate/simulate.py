"""Error rates and power of the gates of `psibench compare`, on drawn benchmarks.

    python studies/gate/simulate.py [--n DATA_SETS] [--out FILE]

Each document has queries in thirds. Scores are nDCG@10 with one positive: 1, .63, .5, ..., 0, a
level per document. The two systems agree on most queries; in some documents the level of each
system is drawn anew, so differences are correlated over thirds, skewed, and often exactly 0.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from psibench.metrics.constants import HALVING_FLIPS
from psibench.metrics.gate import (
    FAILS,
    PASSES,
    UNCLEAR,
    Kind,
    halvings,
    judge,
    measure_losses,
    worst,
)


@dataclass(frozen=True)
class World:
    """How two systems' scores are drawn.

    ``per``: queries of each document: 1 in a random bucket, 3 in all thirds, or 9.
    ``lost``: loss of the tested system in the last third, as a mean. ``kind`` of the loss:
    ``misses`` (some queries score 0) or ``all`` (every score is multiplied). ``rare_gains``: the
    tested system loses a little in nine of ten documents and gains as much in the tenth.
    """

    n_documents: int
    per: int = 3
    n_buckets: int = 3
    lost: float = 0.0
    kind: str = "misses"
    rare_gains: bool = False


def ndcg(level: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Score of a query whose evidence has a rank by ``chance``, first with probability level."""
    rank = 1 + np.floor(np.log(chance) / np.log1p(-np.minimum(level, 0.999)))
    return np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0)


def draw(world: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the sums of both systems and the weights, each (n_documents, 1 + n_buckets)."""
    n, per = world.n_documents, world.per
    documents = np.repeat(np.arange(n), per)
    if per == 1:
        buckets = rng.integers(0, world.n_buckets, n)
    else:
        buckets = np.tile(np.arange(per) % 3, n) * world.n_buckets // 3
        buckets += rng.integers(0, max(1, world.n_buckets // 3), n * per)
    level = np.stack([rng.beta(2, 1.5, n)] * 2)
    new = rng.random(n) < 0.3
    level[:, new] = rng.beta(2, 1.5, (2, int(new.sum())))
    chance = np.stack([rng.random(n * per)] * 2)
    new = rng.random(n * per) < 0.3
    chance[:, new] = rng.random((2, int(new.sum())))
    tested, other = ndcg(level[:, documents], chance)
    if world.rare_gains:
        gains = rng.random(n) < 0.1
        tested = other + np.where(gains, 0.36, -0.04)[documents]
    share = np.where(buckets == world.n_buckets - 1, world.lost / MEAN, 0.0)
    tested = tested * (1 - share if world.kind == "all" else rng.random(n * per) >= share)
    columns = [np.ones(n * per), *(buckets == k for k in range(world.n_buckets))]
    tested, other, weights = (
        np.stack([np.bincount(documents, weights=y * c, minlength=n) for c in columns], axis=1)
        for y in (tested, other, np.ones(n * per))
    )
    held = weights.any(axis=0)
    return tested[:, held], other[:, held], weights[:, held]


def true_losses(world: World, weights: np.ndarray) -> np.ndarray:
    """Return the expected loss in each cell of drawn weights whose buckets all have queries."""
    last = weights[:, -1].sum() / weights[:, 0].sum()
    return np.array([world.lost * last, *[0.0] * (weights.shape[1] - 2), world.lost])


MEAN = float(
    ndcg(
        np.random.default_rng(0).beta(2, 1.5, 10**6), np.random.default_rng(1).random(10**6)
    ).mean()
)


@dataclass(frozen=True)
class Found:
    """Shares of data sets."""

    fails: float
    unclear: float
    passes: float
    uncovered: float
    needed: float


def simulate(world: World, kind: Kind, limit: float, *, n: int, rng: np.random.Generator) -> Found:
    """Apply a gate to n data sets; ``needed``: the median of the units that would suffice."""
    results, uncovered, needed = Counter[str](), 0, []
    for _ in range(n):
        tested, other, weights = draw(world, rng)
        losses = measure_losses(other - tested, weights, limit, n_flips=HALVING_FLIPS)
        results[worst(judge(losses, kind, limit, len(weights)))] += 1
        if weights.shape[1] == 1 + world.n_buckets:
            uncovered += bool((losses.high < true_losses(world, weights) - 1e-9).any())
        of_kind = losses.needed_to_show if kind == "fail-if-worse" else losses.needed_to_exclude
        needed.append(np.nanmax(of_kind) if np.isfinite(of_kind).any() else np.nan)
    shares = [results[one] / n for one in (FAILS, UNCLEAR, PASSES)]
    return Found(*shares, uncovered / n, float(np.nanmedian(needed)))


def a_a(world: World, limit: float, *, n: int, rng: np.random.Generator) -> float:
    """Mean share of failing halvings over n data sets."""
    shares = []
    for _ in range(n):
        _, other, weights = draw(world, rng)
        found = halvings(other, weights, "fail-if-worse", limit, n_halvings=5)
        shares.append(found[FAILS] / found.total())
    return float(np.mean(shares))


def size(n: int) -> Iterator[str]:
    """Yield how often a gate fails if nothing changed."""
    yield "## Nothing changed\n"
    yield "Targets: `--fail-if-worse` fails at most .05, and so do halves of one run (A/A)."
    yield "With the limit .001, nearly every significant loss fails.\n"
    yield "| documents | queries each | buckets | limit | fails | cannot tell | A/A fails |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    cells = product((8, 15, 25, 60, 300), ((1, 3), (3, 3), (9, 3), (3, 21)), (0.001, 0.02))
    for seed, (documents, (per, buckets), limit) in enumerate(cells):
        rng, world = np.random.default_rng([1, seed]), World(documents, per, buckets)
        one = simulate(world, "fail-if-worse", limit, n=n, rng=rng)
        flips = a_a(world, limit, n=max(1, n // 5), rng=rng)
        yield (
            f"| {documents} | {per} | {buckets} | {limit} | {one.fails:.3f} | {one.unclear:.3f} "
            f"| {flips:.3f} |"
        )


def skew(n: int) -> Iterator[str]:
    """Yield how often a gate fails if most documents lose and few gain as much."""
    yield "\n## The mean is equal: nine of ten documents lose .04, the tenth gains .36\n"
    yield "| documents | `--fail-if-worse 0.02` fails |\n|--:|--:|"
    for documents in (8, 15, 25, 60, 300):
        rng, world = np.random.default_rng([2, documents]), World(documents, rare_gains=True)
        one = simulate(world, "fail-if-worse", 0.02, n=n, rng=rng)
        yield f"| {documents} | {one.fails:.3f} |"


def losses(n: int, kind: Kind, losses: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Yield the results of a gate of .05 if the last third lost."""
    yield f"\n## The last third lost: `--{kind} 0.05`\n"
    yield "| documents | queries each | loss | as | fails | cannot tell | passes | bound too low |"
    yield "|--:|--:|--:|---|--:|--:|--:|--:|"
    cells = product((1, 3), (8, 15, 25, 60, 300, None), losses)
    for seed, (per, documents, (lost, how)) in enumerate(cells):
        rng, world = np.random.default_rng([3, seed]), World(300, per, lost=lost, kind=how)
        enough = documents is None
        if documents is None:
            documents = int(simulate(world, kind, 0.05, n=max(1, n // 5), rng=rng).needed)
        one = simulate(replace(world, n_documents=documents), kind, 0.05, n=n, rng=rng)
        yield (
            f"| {documents}{' (would suffice)' * enough} | {per} | {lost} | {how} "
            f"| {one.fails:.3f} | {one.unclear:.3f} | {one.passes:.3f} | {one.uncovered:.3f} |"
        )


def lines(n: int) -> Iterator[str]:
    """Yield all tables."""
    yield from size(n)
    yield from skew(n)
    yield from losses(
        n, "fail-if-worse", ((0, "misses"), (0.075, "misses"), (0.075, "all"), (0.2, "misses"))
    )
    yield from losses(n, "within", ((0, "misses"), (0.05, "misses"), (0.05, "all")))


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description="Simulate the gates of `psibench compare`.")
    parser.add_argument("--n", type=int, default=1000, help="data sets per line")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "gate.md")
    args = parser.parse_args()
    start, text = time.process_time(), []
    for line in lines(args.n):
        print(line, flush=True)
        text.append(line)
    minutes = (time.process_time() - start) / 60
    head = (
        f"{args.n} data sets a line (standard error of .05: {(0.0475 / args.n) ** 0.5:.3f}), "
        f"{minutes:.0f} minutes of processor time."
    )
    args.out.write_text("\n".join(["# The gates", "", head, "", *text, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
