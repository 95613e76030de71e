"""What is measured in a simulated world: one function a kind of check.

Each takes a world, a random stream and a number of replicates, and yields findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from oracle import oracle_interval
from worlds import (
    Pair,
    Queries,
    Sample,
    World,
    draw,
    draw_pair,
    draw_queries,
    draw_scores,
    expected_scores,
    true_raw_psi,
)

from psibench.metrics.comparison import (
    compare_profiles,
    mean_difference,
    psi_difference,
    step_down_p,
)
from psibench.metrics.design import smallest_psi
from psibench.metrics.effects import truncation_effect
from psibench.metrics.inference import (
    DocumentTable,
    FloatArray,
    Profile,
    between_documents,
    confounding,
    raw_profile,
    same_document_profile,
    slope_and_bend,
    within_documents,
)
from psibench.metrics.psi import RowData, estimate_row

LEVEL = 0.95
RESOLUTION = 1e-4  # coarser than the inversion's
SIZE = (0.03, 0.07)
COVERED = (0.93, 0.975)
TESTS = ("position", "shape", "bucket", "trend")
FEWEST_COUNTED = 100  # answers that a size or a coverage is judged by


@dataclass(frozen=True)
class Finding:
    """One figure and its target, from `low` to `high`; None where there is no such bound.

    `se` is the simulation's standard error, `counted` the replicates behind the figure.
    """

    what: str
    found: float
    se: float
    counted: int
    low: float | None = None
    high: float | None = None

    @property
    def target(self) -> str:
        """The bounds in words."""
        if self.low is None and self.high is None:
            return ""
        if self.low is None:
            return f"<= {self.high:g}"
        return f">= {self.low:g}" if self.high is None else f"{self.low:g} to {self.high:g}"

    @property
    def holds(self) -> str:
        """Yes, no; "cautious": a size below, a coverage above its range; "not given", "too few"."""
        if not self.target:
            return ""
        if self.counted < FEWEST_COUNTED and ("<= ." in self.what or "covered" in self.what):
            return "not given" if self.counted == 0 else "too few"
        if self.high is not None and self.found > self.high:
            return "cautious" if (self.low, self.high) == COVERED else "no"
        if self.low is not None and self.found < self.low:
            return "cautious" if self.low == SIZE[0] else "no"
        return "yes"


Check = Callable[..., Iterator[Finding]]
Bounds = tuple[float | None, float | None]


def share(what: str, hits: Any, low: float | None = None, high: float | None = None) -> Finding:
    """Share of replicates with its binomial standard error; NaN (no answer) is left out."""
    hits = np.asarray(hits, dtype=float)
    hits = hits[~np.isnan(hits)]
    n = len(hits)
    found = float(hits.mean()) if n else float("nan")
    return Finding(what, found, (found * (1 - found) / n) ** 0.5 if n else 0.0, n, low, high)


def average(what: str, values: Any, low: float | None = None, high: float | None = None) -> Finding:
    """Mean over replicates with its standard error; NaN is left out."""
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    n = len(values)
    found = float(values.mean()) if n else float("nan")
    return Finding(what, found, float(values.std() / n**0.5) if n else 0.0, n, low, high)


def number(value: float | None) -> float:
    """NaN for None."""
    return float("nan") if value is None else value


def reject(p: Any, alpha: float = 0.05) -> FloatArray:
    """1 where p <= alpha, 0 where not, NaN where there is no p."""
    p = np.asarray(p, dtype=float)
    return np.where(np.isnan(p), np.nan, p <= alpha)


# --- Sizes and power ---------------------------------------------------------------------------


def within_size(
    world: World,
    rng: np.random.Generator,
    replicates: int,
    *,
    bounds: Bounds = SIZE,
    by_documents: bool = False,
) -> Iterator[Finding]:
    """How often the tests within documents reject where position does nothing.

    ``by_documents``: documents are the units although clusters are known.
    """
    samples = (draw(world, rng) for _ in range(replicates))
    if by_documents:
        samples = (replace(sample, clusters=None) for sample in samples)
    p = np.array([_p_values(within_documents(sample.table)) for sample in samples])
    for column, name in enumerate(TESTS):
        low, high = (None, bounds[1]) if name == "bucket" else bounds
        yield share(f"p_{name} <= .05", reject(p[:, column]), low, high)
    yield share("least of p_shape and p_bucket <= .05", reject(_least_of_both(p)))
    for column, name in enumerate(TESTS):
        yield share(f"p_{name} <= .01", reject(p[:, column], 0.01))


def _p_values(test: Any) -> tuple[float, ...]:
    return tuple(map(number, (test.p, test.p_shape, test.p_bucket, test.p_trend)))


def _least_of_both(p: FloatArray) -> FloatArray:
    """The other candidate for the headline: the least of `p_shape` and `p_bucket`, adjusted."""
    n = 2 - np.isnan(p[:, 1:3]).sum(axis=1)
    least = np.nanmin(np.where(np.isnan(p[:, 1:3]), 1.0, p[:, 1:3]), axis=1)
    return np.where(n > 0, 1 - (1 - least) ** np.maximum(n, 1), np.nan)


def within_power(
    world: World, rng: np.random.Generator, replicates: int, **least: float
) -> Iterator[Finding]:
    """How often the tests within documents find the effect; ``least`` by name of the test."""
    p = np.array([_p_values(within_documents(draw(world, rng).table)) for _ in range(replicates)])
    for column, name in enumerate(TESTS):
        yield share(f"p_{name} <= .05", reject(p[:, column]), least.get(name))
    yield share("least of p_shape and p_bucket <= .05", reject(_least_of_both(p)))


def design(world: World, rng: np.random.Generator, replicates: int) -> Iterator[Finding]:
    """How often the headline test finds the PSI for which psibench states a power of .8."""
    table = draw(world, rng).table
    psi = smallest_psi(table, mean=world.mean, correlation=world.correlation)
    assert psi is not None
    k = np.arange(world.n_buckets)
    middle = float(table.bucket_sizes @ k / (k[-1] * table.bucket_sizes.sum()))
    found = replace(world, psi=psi, mean=world.mean / (1 - psi * middle))  # of all queries
    p = [number(within_documents(draw(found, rng).table).p) for _ in range(replicates)]
    yield Finding("smallest PSI", psi, 0.0, 1)
    yield share("p_position <= .05 at it", reject(p), 0.7, 0.9)


# --- Intervals and bias ------------------------------------------------------------------------


def coverage(
    world: World,
    rng: np.random.Generator,
    replicates: int,
    *,
    same: bool = True,
    bias: bool = True,
    bounds: Bounds = COVERED,
) -> Iterator[Finding]:
    """Coverage and bias of the PSI at equal documents and of the published one.

    Beside it how often the interval's end and its test disagree on a PSI of 0.
    """
    truth = {"psi": true_raw_psi(world), "psi_same": 1 - float(world.relative.min())}
    truth["drop"] = 1 - float(world.relative[-1])
    rows = []
    for _ in range(replicates):
        sample = draw(world, rng)
        index = np.arange(len(sample.scores))
        rows.append(
            estimate_row(
                sample.row(), index, sample.queries.buckets, n_buckets=world.n_buckets, level=LEVEL
            )[0]
        )
    names = ["psi", *(["psi_same", "drop"] if same else [])]
    for name in names:
        low = np.array([number(row[f"{name}_low"]) for row in rows])
        high = np.array([number(row[f"{name}_high"]) for row in rows])
        covers = (low <= truth[name] + RESOLUTION) & (high >= truth[name] - RESOLUTION)
        yield share(f"{name} covered", np.where(np.isnan(low), np.nan, covers), *bounds)
        yield average(f"{name} width", high - low)
        if name == "drop":
            continue
        if name == "psi_same":
            p = np.array([number(row["p_position"]) for row in rows])
            disagree = np.where(np.isnan(low), np.nan, (p <= 1 - LEVEL) != (low > 0))
            yield share("test and interval disagree on 0", disagree, None, 0.02)
        value = np.array([number(row[f"{name}_corrected"]) for row in rows])
        plain = np.array([number(row[name]) for row in rows])
        held = bias and truth[name] >= 0.1 - 1e-9 and world.n_buckets <= 6
        limit = 0.02 if held else None
        least = -0.02 if held else None
        yield average(f"{name}_corrected bias", value - truth[name], least, limit)
        yield average(f"{name} bias, plain", plain - truth[name])


def beside_oracle(world: World, rng: np.random.Generator, replicates: int) -> Iterator[Finding]:
    """Coverage and width of the interval of `psi_same`, and of the oracle's."""
    true = 1 - float(world.relative.min())
    ends = []
    for _ in range(replicates):
        sample = draw(world, rng)
        index = np.arange(len(sample.scores))
        row, _ = estimate_row(
            sample.row(), index, sample.queries.buckets, n_buckets=world.n_buckets, level=LEVEL
        )
        profile = same_document_profile(sample.table)
        if row["psi_same_low"] is None or profile is None:
            continue
        ends.append((row["psi_same_low"], row["psi_same_high"], *oracle_interval(profile, rng)))
    found = np.array(ends).reshape(-1, 4)
    for name, low, high in (("psi_same", *found[:, :2].T), ("oracle", *found[:, 2:].T)):
        covers = (low <= true + RESOLUTION) & (high >= true - RESOLUTION)
        yield share(f"{name} covered", covers, 0.93)
        yield average(f"{name} width", high - low)


def bucket_intervals(
    world: World, rng: np.random.Generator, replicates: int, *, at_least: float = 0.93
) -> Iterator[Finding]:
    """Coverage of bucket means by the bucket's size; beside it the symmetric normal interval."""
    rows: list[FloatArray] = []
    for _ in range(replicates):
        sample = draw(world, rng)
        table, index = sample.table, np.arange(len(sample.scores))
        _, found = estimate_row(
            sample.row(), index, sample.queries.buckets, n_buckets=world.n_buckets
        )
        raw = raw_profile(table)
        holding = np.zeros(world.n_buckets)
        holding[table.buckets] = (table.counts > 0).sum(axis=0)
        se = np.full(world.n_buckets, np.nan)
        se[table.buckets] = np.sqrt(np.diag(raw.covariance))
        rows.append(
            np.column_stack(
                [
                    found["n_queries"],
                    _covers(found["low"], found["high"], world.mean),
                    _covers(found["same_low"], found["same_high"], world.mean),
                    np.abs(found["mean"] - world.mean) <= 1.96 * se,
                    found["high"] - found["low"],
                    holding,
                ]
            )
        )
    every = np.vstack(rows)
    every = every[every[:, 5] >= 2]
    for low, high in ((2, 5), (5, 10), (10, 20), (20, 30), (30, 100), (100, 10**9)):
        part = every[(every[:, 0] >= low) & (every[:, 0] < high)]
        if len(part) < 200:
            continue
        size = f"buckets of {low}-{high - 1}" if high < 10**9 else f"buckets of {low}+"
        yield share(f"{size}: mean covered", part[:, 1], at_least)
        yield share(f"{size}: same_mean covered", part[:, 2], at_least)
        yield share(f"{size}: mean covered, symmetric interval", part[:, 3])
        yield average(f"{size}: width", part[:, 4])


def _covers(low: FloatArray, high: FloatArray, true: float) -> FloatArray:
    inside = (low <= true + 1e-9) & (high >= true - 1e-9)
    return np.where(np.isnan(low), np.nan, inside)


# --- Between documents -------------------------------------------------------------------------


def between_size(
    world: World, rng: np.random.Generator, replicates: int, *, bounds: Bounds = (None, 0.07)
) -> Iterator[Finding]:
    """Size of the fallback with one third per document, and whether the row has the flag."""
    p, flagged, silent = [], [], []
    for _ in range(replicates):
        sample = draw(world, rng)
        q = sample.queries
        placed = (q.documents, q.buckets, q.lengths, np.arange(len(q.buckets)))
        found = between_documents(sample.scores, *placed, units=sample.clusters)
        p.append(_p_values(found))
        if len(flagged) < 20:
            index = np.arange(len(sample.scores))
            row, _ = estimate_row(sample.row(), index, q.buckets, n_buckets=world.n_buckets)
            flagged.append("between_documents" in row["flags"] and row["test"] == "between")
            silent.append(row["psi_same"] is None)
    for column, name in enumerate(TESTS):
        yield share(f"between p_{name} <= .05", reject(np.array(p)[:, column]), *bounds)
    yield share("between p_position <= .01", reject(np.array(p)[:, 0], 0.01))
    yield share("flag between_documents", flagged, 1.0)
    yield share("psi_same is null", silent, 1.0)


def between_power(
    world: World, rng: np.random.Generator, replicates: int, **_: float
) -> Iterator[Finding]:
    """Power of the fallback."""
    p = []
    for _ in range(replicates):
        sample = draw(world, rng)
        q = sample.queries
        placed = (q.documents, q.buckets, q.lengths, np.arange(len(q.buckets)))
        p.append(_p_values(between_documents(sample.scores, *placed)))
    for column, name in enumerate(TESTS):
        yield share(f"between p_{name} <= .05", reject(np.array(p)[:, column]))


def between_shuffled(
    world: World, rng: np.random.Generator, replicates: int, *, n_shuffles: int = 2000
) -> Iterator[Finding]:
    """The closed form beside real shuffling of whole documents' buckets, on a few data sets."""
    gaps = []
    for _ in range(replicates):
        sample = draw(world, rng)
        q = sample.queries
        placed = (q.documents, q.buckets, q.lengths, np.arange(len(q.buckets)))
        closed = between_documents(sample.scores, *placed)
        gaps.append(number(closed.p_shape) - shuffled_p(sample, rng, n_shuffles))
    yield average("p_shape, closed form less shuffled", gaps, -0.01, 0.01)
    yield average("absolute difference of p_shape", np.abs(gaps), None, 0.02)
    yield Finding("largest difference of p_shape", float(np.nanmax(np.abs(gaps))), 0.0, replicates)


def shuffled_p(sample: Sample, rng: np.random.Generator, n_shuffles: int) -> float:
    """The p of the distance of slope and bend from their mean under exchanges of documents.

    Documents of one length quintile and number of queries exchange their sequences of buckets.
    The distance is measured in the covariance of the shuffled sums themselves.
    """
    q = sample.queries
    _, first, sizes = np.unique(q.documents, return_index=True, return_counts=True)
    length = q.lengths[first]
    edges = np.quantile(length, [0.2, 0.4, 0.6, 0.8])
    stratum = np.searchsorted(edges, length, side="left") * 10_000 + sizes
    sums = np.zeros((n_shuffles + 1, sample.n_buckets))
    for group in np.unique(stratum):
        members = np.flatnonzero(stratum == group)
        rows = first[members][:, None] + np.arange(sizes[members[0]])
        scores, buckets = sample.scores[rows], np.eye(sample.n_buckets)[q.buckets[rows]]
        for number_ in range(n_shuffles + 1):
            order = rng.permutation(len(members)) if number_ else np.arange(len(members))
            sums[number_] += np.tensordot(scores, buckets[order], axes=([0, 1], [0, 1]))
    along = sums @ slope_and_bend(sample.n_buckets)
    rest = along - along[1:].mean(axis=0)
    inverse = np.linalg.pinv(np.cov(rest[1:].T), rcond=1e-8, hermitian=True)
    distance = np.einsum("ik,kl,il->i", rest, inverse, rest)
    return float((1 + (distance[1:] >= distance[0] - 1e-9).sum()) / (n_shuffles + 1))


# --- Two systems -------------------------------------------------------------------------------


def comparison(
    pair: Pair,
    rng: np.random.Generator,
    replicates: int,
    *,
    bounds: Bounds = (None, 0.07),
    scales: Bounds = (None, None),
    within: bool = True,
    alone: bool = False,
) -> Iterator[Finding]:
    """How often two systems' profiles differ; ``alone``: how often the first differs from flat."""
    p, own = [], []
    for _ in range(replicates):
        q, first, second = draw_pair(pair, rng)
        index = np.arange(len(first))
        placed = (q.documents, index, q.buckets, q.lengths, q.positions)
        found = compare_profiles(first, second, *placed, within=within)
        p.append((number(found.p), number(found.p_hit), number(found.p_miss)))
        if alone:
            sample = Sample(q, first, int(q.buckets.max()) + 1)
            own.append(number(within_documents(sample.table).p))
    each = np.array(p)
    yield share("p <= .05, both scales", reject(each[:, 0]), *bounds)
    yield share("p <= .05, hit scale", reject(each[:, 1]), *scales)
    yield share("p <= .05, miss scale", reject(each[:, 2]), *scales)
    if alone:
        yield share("p_position <= .05 of the first", reject(own))


def difference_of_means(pair: Pair, rng: np.random.Generator, replicates: int) -> Iterator[Finding]:
    """Size of the difference of two equal means; beside it, queries as units."""
    p, naive = [], []
    for _ in range(replicates):
        q, first, second = draw_pair(pair, rng)
        found = mean_difference(first, second, q.documents, level=LEVEL)
        p.append(number(found.p if found else None))
        rest = first - second
        naive.append(abs(rest.mean()) > 1.96 * rest.std() / len(rest) ** 0.5)
    yield share("p <= .05", reject(p), *SIZE)
    yield share("p <= .05, queries as units", naive)


def difference_of_rare_misses(
    world: World,
    rng: np.random.Generator,
    replicates: int,
    *,
    misses: tuple[float, float],
    costs: tuple[float, ...] = (1.0,),
) -> Iterator[Finding]:
    """Interval of the difference of two means near 1: one query a document; a miss costs any."""
    documents = np.arange(world.n_queries)
    true = (misses[1] - misses[0]) * float(np.mean(costs))
    covered, width, disagree = [], [], []
    for _ in range(replicates):
        missed = rng.random((2, len(documents))) < np.array(misses)[:, None]
        cost = rng.choice(costs, missed.shape) if len(costs) > 1 else costs[0]
        first, second = 1 - missed * cost
        found = mean_difference(first, second, documents, level=LEVEL)
        assert found is not None
        covered.append(found.low <= true <= found.high)
        width.append(found.high - found.low)
        disagree.append((found.p <= 0.05) != (found.low > 0 or found.high < 0))
    yield share("difference covered", covered, 0.93)
    yield average("width", width)
    yield share("test and interval disagree on 0", disagree, None, 0.0)


def several_systems(
    world: World, rng: np.random.Generator, replicates: int, *, gains: tuple[float, ...]
) -> Iterator[Finding]:
    """How often any pair of equal systems is called unlike, and how many of the unlike ones are.

    Half of each system's level in a document is shared by all. Beside it Bonferroni's adjustment
    of the same p-values, and of paired t-tests with queries as units.
    """
    from scipy.stats import ttest_rel

    pairs = list(combinations(range(len(gains)), 2))
    equal = np.array([gains[a] == gains[b] for a, b in pairs])
    named = ("max-T", "Bonferroni", "Bonferroni, queries as units")
    each: dict[str, list[FloatArray]] = {name: [] for name in named}
    for _ in range(replicates):
        q = draw_queries(world, rng)
        shared = expected_scores(world, q, rng)
        scores = [
            draw_scores(np.clip((shared + expected_scores(world, q, rng)) / 2 + gain, 0, 1), rng)
            for gain in gains
        ]
        alone = [mean_difference(scores[a], scores[b], q.documents, level=LEVEL) for a, b in pairs]
        naive = np.array([ttest_rel(scores[a], scores[b]).pvalue for a, b in pairs])
        found = (
            step_down_p(np.array(scores), q.documents),
            len(pairs) * np.array([number(one.p if one else None) for one in alone]),
            len(pairs) * naive,
        )
        for name, p in zip(named, found, strict=True):
            each[name].append(p <= 0.05)
    bounds = {named[0]: (SIZE[0] if equal.all() else None, 0.065)}
    for name, hits in each.items():
        false = np.array(hits)[:, equal].any(axis=1)
        yield share(f"any equal pair p <= .05, {name}", false, *bounds.get(name, ()))
    if not equal.all():
        for name, hits in each.items():
            yield average(f"unlike pairs found, {name}", np.array(hits)[:, ~equal].mean(axis=1))


def difference_of_psi(
    pair: Pair, rng: np.random.Generator, replicates: int, *, least: float = 0.93
) -> Iterator[Finding]:
    """Coverage of the difference of two PSIs at equal documents (hit scale: known)."""
    covered, widths, bias = [], [], []
    names = ("psi_same_corrected", "psi_same_low", "psi_same_high")
    true = pair.psi[0] - pair.psi[1]
    for _ in range(replicates):
        q, *both = draw_pair(pair, rng)
        index = np.arange(len(q.buckets))
        rows = [
            estimate_row(
                RowData(scores, q.documents, q.lengths, q.positions),
                index,
                q.buckets,
                n_buckets=int(q.buckets.max()) + 1,
            )[0]
            for scores in both
        ]
        figures = [tuple(number(row[name]) for name in names) for row in rows]
        value, low, high = psi_difference(figures[0], figures[1])
        covered.append(
            float("nan") if np.isnan(low) else low - RESOLUTION <= true <= high + RESOLUTION
        )
        widths.append(high - low)
        bias.append(value - true)
    yield share("difference covered", covered, least)
    yield average("width", widths)
    yield average("bias", bias)


# --- Influence, jackknife ----------------------------------------------------------------------


def jackknife(world: World, rng: np.random.Generator, replicates: int) -> Iterator[Finding]:
    """Standard errors from influences, divided by the jackknife's (leaving out one document)."""
    ratios: dict[str, list[FloatArray]] = {"raw": [], "same": [], "same, log": []}
    for _ in range(replicates):
        table = draw(world, rng).table
        held = table.bucket_sizes >= 30
        for name, profile_of in (("raw", raw_profile), ("same", same_document_profile)):
            profile = profile_of(table)
            if profile is None:
                continue
            left = _leave_one_out(table, profile_of)
            se = np.sqrt((profile.influence**2).sum(axis=0))
            ratios[name].append((se / _spread(left))[held])
            if name == "same":
                ratios["same, log"].append((se / profile.means / _spread(np.log(left)))[held])
    for name, values in ratios.items():
        flat = np.concatenate(values)
        yield average(f"{name}: ratio of standard errors", flat, 0.98, 1.02)
        yield Finding(f"{name}: largest deviation", float(np.abs(flat - 1).max()), 0.0, len(flat))


def _leave_one_out(
    table: DocumentTable, profile_of: Callable[[DocumentTable], Profile | None]
) -> FloatArray:
    """Profiles without each document in turn, (n_documents, n_buckets)."""
    left = []
    for number_ in range(len(table.counts)):
        kept = np.arange(len(table.counts)) != number_
        rest = replace(table, counts=table.counts[kept], sums=table.sums[kept])
        profile = profile_of(rest)
        if profile is not None and rest.bucket_sizes.min() > 0:
            left.append(profile.means)
    return np.array(left)


def _spread(left: FloatArray) -> FloatArray:
    n = len(left)
    return np.sqrt((n - 1) / n * ((left - left.mean(axis=0)) ** 2).sum(axis=0))


def newton(world: World, rng: np.random.Generator, replicates: int) -> Iterator[Finding]:
    """Whether the profile at equal documents solves its equations, tiny buckets and all."""
    given, residuals = [], []
    for _ in range(replicates):
        table = draw(world, rng).table
        profile = same_document_profile(table)
        given.append(profile is not None)
        if profile is None:
            continue
        totals = table.sums.sum(axis=1)
        informs = ((table.counts > 0).sum(axis=1) >= 2) & (totals > 0)
        share_ = table.counts[informs] * profile.means
        share_ /= share_.sum(axis=1, keepdims=True)
        rest = table.sums[informs].sum(axis=0) - totals[informs] @ share_
        residuals.append(np.abs(rest).max() / totals.sum())
    yield share("a profile is given", given)
    yield Finding(
        "largest residual", float(np.max(residuals, initial=0)), 0.0, len(residuals), None, 1e-8
    )


# --- Confounding, truncation -------------------------------------------------------------------


def confounded(
    world: World, rng: np.random.Generator, replicates: int, *, bounds: Bounds = (None, 0.08)
) -> Iterator[Finding]:
    """How often the published profile is called a mixture of position and document."""
    p = []
    for _ in range(replicates):
        table = draw(world, rng).table
        p.append(number(confounding(table, raw_profile(table))))
    yield share("p_confounded <= .05", reject(p), *bounds)


def truncation(
    world: World,
    rng: np.random.Generator,
    replicates: int,
    *,
    delta: float = 0.0,
    slope_inside: bool = False,
    share_bounds: Bounds = SIZE,
) -> Iterator[Finding]:
    """The effect of a cut at 128 tokens, some 550 characters, on the score.

    `delta` is the loss of expected score by the cut; with `slope_inside` the score also falls with
    the position inside buckets, and buckets cannot remove that.
    """
    values, covered, p = [], [], []
    for _ in range(replicates):
        queries = draw_queries(world, rng)
        cut = beyond_window(queries, rng)
        means = expected_scores(world, queries, rng)
        if slope_inside:
            means = means * (1 - 0.1 * np.minimum(queries.positions / 1000, 1.0))
        scores = draw_scores(np.maximum(means - np.minimum(delta, means) * cut, 0.0), rng)
        found = truncation_effect(
            scores, queries.documents, queries.buckets, cut.astype(bool), level=LEVEL
        )
        lost = -np.minimum(delta, means)[cut > 0].mean()
        values.append(number(found.value if found else None) - lost)
        p.append(number(found.p if found else None))
        covered.append(float("nan") if not found else found.low <= lost <= found.high)
    if not delta:
        yield share("p_truncation <= .05", reject(p), *share_bounds)
    else:
        yield share("p_truncation <= .05", reject(p))
    held = share_bounds != (None, None)
    yield average("bias of the effect", values, *((-0.01, 0.01) if held else (None, None)))
    yield share("effect covered", covered, 0.93 if held else None)


def beyond_window(queries: Queries, rng: np.random.Generator) -> FloatArray:
    """1 where the evidence lies beyond 128 tokens; documents differ in characters per token."""
    per_token = np.clip(rng.normal(4.3, 0.4, int(queries.documents.max()) + 1), 3, 6)
    return (queries.positions > 128 * per_token[queries.documents]).astype(np.float64)


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        within_size, within_power, design, coverage, beside_oracle, bucket_intervals, between_size,
        between_power, between_shuffled, comparison, difference_of_means, difference_of_rare_misses,
        several_systems,
        difference_of_psi, jackknife, newton, confounded, truncation,
    )
}  # fmt: skip
