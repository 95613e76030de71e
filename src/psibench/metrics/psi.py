"""The Position Sensitivity Index (PSI) of bucket means, its interval, and a row of the PSI table.

The plain PSI is as the papers define it. `estimate_row` makes of one model's queries what a row of
the table says: the published PSI, the same at equal documents, tests and warnings.

An interval starts at 0 exactly where the test of position does not reject; else at the PSI of the
profile that the test found, less what chance may have added to it (`lower_end`). It ends at the
largest PSI under which one as small as the observed one is not rare (`invert_psi`), from which the
value corrected for noise comes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.comparison import ProfileComparison, compare_profiles
from psibench.metrics.inference import (
    FEWEST_DOCUMENTS,
    FEWEST_OF_A_BUCKET,
    LEAST_INFORMATION,
    PSEUDO_QUERIES,
    BoolArray,
    Contrast,
    DocumentTable,
    Effect,
    FloatArray,
    IntArray,
    PositionTest,
    Profile,
    between_documents,
    confounding,
    contrasts,
    document_table,
    draw_errors,
    effective_documents,
    equal_means,
    information,
    intra_document_correlation,
    length_imbalance,
    raw_profile,
    same_document_profile,
    truncation_effect,
    units_of,
    within_documents,
)

ROUNDING = 1e-12
"""PSI values closer than this are equal: the difference is floating-point rounding."""


def position_sensitivity_index(bucket_means: npt.ArrayLike) -> float | None:
    """Plain PSI of one row of bucket means: ``1 - min / max``.

    Parameters
    ----------
    bucket_means : array of shape (n_buckets,)
        Mean score per bucket, >= 0; NaN marks an empty bucket and is left out.

    Returns
    -------
    float or None
        Value in [0, 1]; None if fewer than two buckets hold a mean or the best mean is 0.
    """
    means = np.asarray(bucket_means, dtype=np.float64)
    means = means[~np.isnan(means)]
    if means.size < 2 or means.max() <= 0:
        return None
    return float(psi_of_columns(means[:, None])[0])


def psi_of_columns(means: FloatArray) -> FloatArray:
    """Plain PSI of every column of a table of bucket means.

    Parameters
    ----------
    means : array of shape (n_buckets, n_columns)
        No NaN. A mean below 0 (a simulated one) counts as 0.

    Returns
    -------
    array of shape (n_columns,)
        Values in [0, 1]; 1 where no bucket has a positive mean, so check for that case first if
        it has to be told apart. Rounding errors are snapped to an exact 0.
    """
    best = means.max(axis=0)
    worst = np.maximum(means.min(axis=0), 0.0)
    psi = 1.0 - worst / np.where(best > 0, best, 1.0)
    psi[psi < ROUNDING] = 0.0
    return psi


# --- Interval and corrected value --------------------------------------------------------------

SPREAD_FLOOR = 0.25
"""Least variance between true means, as a share of the sampling variance, in a world's shape."""

LEAST_SEEN = 0.16
"""Quantile of the plain PSI of noise alone below which an observed one says no more than it."""

BISECTIONS = 16
"""Halvings of [0, 1] when p is solved for: a resolution of 0.000015."""


@dataclass(frozen=True)
class _Worlds:
    """True bucket means for any PSI: `centre` plus a multiple of `shape` (n_buckets,)."""

    centre: float
    shape: FloatArray

    def at(self, psi: float) -> FloatArray:
        """Bucket means with exactly this PSI, the deviations in proportion to `shape`."""
        reach = (1 - psi) * self.shape.max() - self.shape.min()
        return self.centre + self.shape * (psi * self.centre / reach)


def lower_end(
    profile: Profile, test: PositionTest, *, alpha: float, known: BoolArray | None = None
) -> float:
    """Least PSI that the data allow at a level: 0 exactly where the test does not reject.

    A test that rejects, found a profile: the slope and bend, or the bucket unlike the rest, that
    fit the bucket means best. Its deviations less what chance may have added (`Contrast.by_chance`)
    have a PSI; the largest of these is returned. Its best and worst bucket are ``known`` ones, bool
    (n_buckets,), where there are two: PSI is no less with more buckets, and what others rejected
    says nothing of the mean of a few queries.
    """
    if test.p is None or test.p > alpha:
        return 0.0
    n_buckets = len(profile.means)
    each, of_each = np.eye(n_buckets), alpha / max(len(test.buckets), 1)
    shown = known if known is not None and known.sum() > 1 else np.ones(n_buckets, np.bool_)
    tried = [(contrasts(n_buckets), test.shape, alpha)]
    tried += [(each[:, [k]], contrast, of_each) for k, contrast in test.buckets.items()]
    beyond = [
        (directions, 1 - contrast.by_chance(level))
        for directions, contrast, level in tried
        if contrast is not None and contrast.by_chance(level) < 1
    ]
    centre, *found = _found(profile, *(directions for directions, _ in beyond))
    ends = [
        float(psi_of_columns((centre + share * own)[shown, None])[0])
        for (_, share), own in zip(beyond, found, strict=True)
    ]
    return max(ends, default=0.0)


def upper_end(profile: Profile, shape: Contrast, *, alpha: float) -> float:
    """Greatest PSI that a test of slope and bend leaves: with what chance may have taken away."""
    centre, found = _found(profile, contrasts(len(profile.means)))
    return float(psi_of_columns((centre + (1 + shape.by_chance(alpha)) * found)[:, None])[0])


def _found(profile: Profile, *directions: FloatArray) -> list[FloatArray]:
    """Fit the means by a constant, and by it and each of the directions: what these add to it."""
    precision = np.asarray(np.linalg.pinv(profile.covariance, hermitian=True), dtype=np.float64)
    flat = np.ones((len(profile.means), 1))
    centre = _fit(flat, profile.means, precision)
    return [
        centre,
        *(_fit(np.hstack([flat, one]), profile.means, precision) - centre for one in directions),
    ]


def _fit(design: FloatArray, means: FloatArray, precision: FloatArray) -> FloatArray:
    """Fit means by weighted least squares, (n_buckets,)."""
    normal = design.T @ precision @ design
    return np.asarray(
        design @ (np.linalg.pinv(normal, hermitian=True) @ design.T @ precision @ means)
    )


def invert_psi(
    means: FloatArray,
    errors: FloatArray,
    *,
    centre: FloatArray,
    level: float,
    score_limit: float = 1.0,
) -> tuple[float, float]:
    """Upper end of the interval, and value of PSI corrected for noise.

    For a candidate PSI, bucket means of the observed shape have exactly it; their sampling errors
    show which plain PSI one would see.

    Parameters
    ----------
    means : float64 array of shape (n_buckets,)
        Observed bucket means, n_buckets >= 2, the largest > 0.
    errors : float64 array of shape (n_buckets, n_draws)
        Draws of the sampling errors of those means.
    centre : float64 array of shape (n_buckets,)
        Means that those errors are of: smoothed ones, so that a bucket in which nothing is found
        has a variance to scale.
    level : float
        Nominal coverage of the interval, in (0, 1).
    score_limit : float
        Largest score a query can have. A bucket's variance is taken to change with its true mean
        m as ``m * (score_limit - m)``.

    Returns
    -------
    high : float
        Largest PSI at which a plain one this small is not rarer than ``(1 - level) / 2``; never
        below the plain PSI. Bucket means that happen to be more alike than noise alone makes them
        do not bring it down to 0: see `LEAST_SEEN`.
    corrected : float
        The PSI whose expected plain PSI is the observed one; exactly 0 where noise alone explains
        it. Both are the plain PSI if the means have no sampling error at all.

    Notes
    -----
    Test inversion with an estimated nuisance parameter follows Chuang and Lai (2000), Statistica
    Sinica 10; a limit kept from falling below what such data can show is that of
    Cowan, Cranmer, Gross and Vitells, arXiv:1105.3166 (2011). `docs/psi.md` has coverage and bias.
    """
    observed = float(psi_of_columns(means[:, None])[0])
    worlds = _fit_worlds(means, errors)
    if worlds is None:
        return observed, observed
    variance = _mean_variance(centre, score_limit)

    def simulate(psi: float) -> FloatArray:
        world = worlds.at(psi)
        possible = world * min(1.0, score_limit / float(world.max()))
        stretch = np.sqrt(_mean_variance(possible, score_limit) / variance)
        return psi_of_columns(possible[:, None] + stretch[:, None] * errors)

    tail = (1 - level) / 2
    seen = max(observed, float(np.quantile(simulate(0.0), LEAST_SEEN))) + ROUNDING
    high = max(observed, _solve(lambda p: tail - _share(simulate(p) <= seen)))
    corrected = _solve(lambda p: float(simulate(p).mean()) - observed)
    return high, min(corrected, high)


def _fit_worlds(means: FloatArray, errors: FloatArray) -> _Worlds | None:
    """Centre and shape from shrunken means; None if there is no sampling error."""
    se = errors.std(axis=1)
    if se.max() <= ROUNDING:
        return None
    se = np.maximum(se, 1e-3 * se.max())
    spread = max(_between_variance(means, se), SPREAD_FLOOR * float(np.median(se**2)))
    weights = 1 / (spread + se**2)
    centre = float(weights @ means / weights.sum())
    shape = (means - centre) * np.sqrt(spread * weights)
    if np.ptp(shape) <= ROUNDING:
        shape = np.linspace(-1.0, 1.0, len(means)) * se.max()
    return _Worlds(centre, shape)


def _between_variance(means: FloatArray, se: FloatArray) -> float:
    """Variance of the true means by the moment estimator of DerSimonian and Laird (1986)."""
    weights = 1 / se**2
    centre = weights @ means / weights.sum()
    excess = weights @ (means - centre) ** 2 - (len(means) - 1)
    return max(0.0, float(excess / (weights.sum() - (weights**2).sum() / weights.sum())))


def _mean_variance(means: FloatArray, score_limit: float) -> FloatArray:
    return np.maximum(means * (score_limit - means), 1e-6 * score_limit**2)


def _share(rejects: np.ndarray) -> float:
    """Share of replicates, the observed table counted as one of them."""
    return float((rejects.sum() + 1) / (rejects.size + 1))


def _solve(increasing: Callable[[float], float]) -> float:
    """Root in [0, 1] by bisection: 0 if already positive there, 1 if still negative there."""
    if increasing(0.0) >= 0:
        return 0.0
    if increasing(1.0) < 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return (low + high) / 2


# --- A row of the PSI table --------------------------------------------------------------------

FLOOR, CEILING = 0.05, 0.95
"""Mean scores, as shares of the largest possible score, below and above which PSI says little: at
the floor the ratio of two bucket means is one of two accidents, at the ceiling nothing is left to
lose. A choice of this project."""

RARE = 3.0
"""Documents' worth of misses in a bucket below which its mean's error is not taken as normal."""

LEAST_SIZE = 0.5
"""Queries of a bucket, as a share of the median bucket's, below which an inverted PSI says next to
nothing of its mean: the shape that it keeps shrinks that bucket to the others."""

CONFOUNDED_P = 0.05
IMBALANCED = 0.10
"""Share of the variance of document length between buckets from which a comparison between
documents cannot be separated from length."""

FLAGS = {
    "between_documents": "positions differ between documents, hardly within them: compared "
    "between documents of like length",
    "too_few_documents": "too few documents inform the test",
    "confounded": "the published PSI mixes position with document",
    "few_clusters": "documents are taken as independent: there are too few clusters of them for "
    "what is found to hold of others",
    "small_buckets": "a bucket has few queries",
    "at_floor": "finds next to nothing: a PSI means nothing here",
    "at_ceiling": "finds nearly everything: no room for a position effect",
    "no_lengths": "documents would have to be compared with each other, and their lengths are not "
    "known",
    "unplaced": "queries without one place for their evidence (mixed, or no span) are in no bucket",
    "given_unknown": "evidence is labelled by class: what of it the model was given is not known",
    "filter_panel": "this retriever also chose which queries are in the benchmark",
}


@dataclass(frozen=True)
class RowData:
    """The queries of one row: who asks what of which document, and what each scored.

    Attributes
    ----------
    scores : float64 array of shape (n_queries,)
        Score per query, finite and >= 0.
    documents : int64 array of shape (n_queries,)
        Number of the query's positive.
    lengths : float64 array of shape (n_queries,)
        Its length, characters; NaN if unknown: then documents are not compared with each other.
    positions : float64 array of shape (n_queries,)
        Middle of the evidence, characters: the order of a document's queries.
    seen : bool array of shape (n_queries,), or None
        Whether the evidence lay wholly inside the model's input; None: not known.
    found : bool array of shape (n_queries,), or None
        Whether it is known where the evidence is; None: of all. Others are not counted as seen or
        not.
    control : float64 array of shape (n_queries,), or None
        Scores of the position-blind control on the same queries.
    clusters : int64 array of shape (n_queries,), or None
        Number of what the query's document is part of (an article, a site). Where there
        are `FEWEST_CLUSTERS` or more, tests and intervals take them as independent in place of
        documents.
    """

    scores: FloatArray
    documents: IntArray
    lengths: FloatArray
    positions: FloatArray
    seen: BoolArray | None = None
    found: BoolArray | None = None
    control: FloatArray | None = None
    clusters: IntArray | None = None


def estimate_row(
    row: RowData,
    query_index: npt.ArrayLike,
    bucket_index: npt.ArrayLike,
    *,
    n_buckets: int,
    level: float = 0.95,
    min_bucket_size: int = 30,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Estimate one row of the PSI table and its buckets.

    Parameters
    ----------
    row : RowData
    query_index, bucket_index : int arrays of shape (n_memberships,)
        Query ``query_index[i]`` sits in bucket ``bucket_index[i]``. A query may sit in several
        buckets or in none.
    n_buckets : int
        Buckets of the scheme. Those that hold no query are left out of everything.
    level : float
        Nominal coverage of the intervals, in (0, 1).
    min_bucket_size : int
        A bucket with fewer queries raises the flag `small_buckets`; it stays in every figure.

    Returns
    -------
    figures : dict
        Columns of PSI_TABLE (`psibench.tables.schemas`) by name, which says what each is; what
        does not exist is None, never 0. `best_bucket`, `worst_bucket`, `best_same` and
        `worst_same` are buckets' numbers.
    buckets : dict of arrays of shape (n_buckets,)
        Columns of BUCKET_SCORES by name: `n_queries`; `mean`, `low` and `high` with documents (or
        clusters) as independent units, the interval within the scores' range, none with fewer than
        two; `same_mean`, `same_low` and `same_high` at equal documents (see
        `same_document_profile`). NaN where there is none.

    Raises
    ------
    InputError
        Scores that are not finite or below 0; arrays or settings out of range.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a value between 0 and 1, such as 0.95")
    low = float(row.scores.min(initial=0.0))
    if low < 0:
        raise InputError(f"scores: the least is {low}; a PSI needs scores of 0 or more")
    queries, buckets = np.asarray(query_index, np.int64), np.asarray(bucket_index, np.int64)
    order = np.argsort(row.positions[queries], kind="stable")
    queries, buckets = queries[order], buckets[order]
    units = units_of(row.documents, row.clusters)
    table = document_table(
        row.scores, row.documents, queries, buckets, n_buckets=n_buckets, units=units
    )
    raw = raw_profile(table) if len(table.buckets) else None
    same = same_document_profile(table)
    info = information(table)
    if same and (info.least < LEAST_INFORMATION or same.n_documents < FEWEST_DOCUMENTS):
        same = None
    is_within = info.shape >= LEAST_INFORMATION
    scores, lengths = row.scores[queries], row.lengths[queries]
    placed = (row.documents[queries], buckets)
    of_placed = None if units is None else units[queries]
    if is_within:
        test = within_documents(table)
    else:
        test = between_documents(scores, *placed, lengths, units=of_placed)
    plain = _psi(table, raw, equal_means(table) if raw else None, level)
    has_psi = plain["psi"] is not None
    equal = _psi(table, same if has_psi and is_within else None, test, level, names=SAME)
    ends_held = {0, n_buckets - 1} <= set(table.buckets.tolist())
    of_ends = (same if is_within else raw) if ends_held else None
    drop, drop_low, drop_high = _drop(table, of_ends, level)
    noise = noise_of_independent_queries(table) if has_psi else None
    cut = None
    if row.seen is not None:
        cut = truncation_effect(scores, *placed, ~row.seen[queries], level=level, units=of_placed)
    p_confounded = confounding(table, raw) if raw and is_within and has_psi else None
    no_lengths = bool(np.isnan(lengths).any())
    few_clusters = False
    if row.clusters is not None and units is None:
        few_clusters = len(np.unique(row.clusters)) < len(table.counts)
    figures = {
        "n_buckets": len(table.buckets),
        "smallest_bucket": int(table.bucket_sizes.min()) if len(table.buckets) else 0,
        "mean_of_buckets": float(raw.means.mean()) if raw else None,
        **plain,
        **equal,
        "drop": drop,
        "drop_low": drop_low,
        "drop_high": drop_high,
        "test": None if test.p is None else ("within" if is_within else "between"),
        "p_position": test.p,
        "p_shape": test.p_shape,
        "p_bucket": test.p_bucket,
        "p_trend": test.p_trend,
        **_control_figures(row, queries, buckets, is_within=is_within, units=units),
        "seen": _share_seen(row),
        **effect_figures("truncation", cut),
        "n_documents": len(table.counts),
        "n_effective_documents": effective_documents(table),
        "n_informative_documents": test.n_documents,
        "n_clusters": None if table.units is None else table.n_units,
        "intra_document_correlation": intra_document_correlation(scores, *placed),
        "length_imbalance": length_imbalance(lengths, buckets),
        "info_min": info.least,
        "info_shape": info.shape,
        "p_confounded": p_confounded,
        "psi_noise_mean": None if noise is None else float(noise.mean()),
        "psi_noise_p95": None if noise is None else float(np.quantile(noise, 0.95)),
        "flags": _flags(
            table, test, is_within, p_confounded, min_bucket_size, no_lengths, few_clusters
        ),
    }
    return figures, bucket_figures(table, raw, same, n_buckets, level)


def effect_figures(name: str, effect: Effect | None) -> dict[str, float | None]:
    """Return an effect as columns NAME, NAME_low, NAME_high and p_NAME; all null without one."""
    columns = (name, f"{name}_low", f"{name}_high", f"p_{name}")
    found = (None,) * 4 if effect is None else (effect.value, effect.low, effect.high, effect.p)
    return dict(zip(columns, found, strict=True))


def _control_figures(
    row: RowData, queries: IntArray, buckets: IntArray, *, is_within: bool, units: IntArray | None
) -> dict[str, float | None]:
    """Return p-values of a profile unlike the control's; null without one."""
    found = ProfileComparison(None, None, None)
    if row.control is not None:
        placed = (row.documents, queries, buckets, row.lengths)
        found = compare_profiles(row.scores, row.control, *placed, within=is_within, units=units)
    return {"p_control": found.p, "p_control_hit": found.p_hit, "p_control_miss": found.p_miss}


def _share_seen(row: RowData) -> float | None:
    """Return the share of the evidence that is known to be somewhere and was seen."""
    seen = row.seen if row.seen is None or row.found is None else row.seen[row.found]
    return None if seen is None or not len(seen) else float(seen.mean())


def _flags(
    table: DocumentTable,
    test: PositionTest,
    is_within: bool,
    p_confounded: float | None,
    min_bucket_size: int,
    lacks_lengths: bool,
    few_clusters: bool,
) -> str:
    if not len(table.buckets):
        return ""
    mean = table.mean / table.score_limit
    untested = test.p is None and len(table.buckets) > 1
    no_lengths = untested and not is_within and lacks_lengths
    raised = {
        "between_documents": not is_within and len(table.buckets) > 1,
        "too_few_documents": untested and not no_lengths,
        "confounded": p_confounded is not None and p_confounded < CONFOUNDED_P,
        "few_clusters": few_clusters,
        "small_buckets": table.bucket_sizes.min() < min_bucket_size,
        "at_floor": mean < FLOOR,
        "at_ceiling": mean > CEILING,
        "no_lengths": no_lengths,
    }
    return ", ".join(name for name, is_raised in raised.items() if is_raised)


PLAIN = ("psi", "psi_low", "psi_high", "psi_corrected", "best_bucket", "worst_bucket")
SAME = (*(name.replace("psi", "psi_same") for name in PLAIN[:4]), "best_same", "worst_same")


def _psi(
    table: DocumentTable,
    profile: Profile | None,
    test: PositionTest | None,
    level: float,
    *,
    names: Sequence[str] = PLAIN,
) -> dict[str, float | int | None]:
    """PSI of a profile, its interval, and the first of its best and worst buckets, by ``names``.

    Neither interval nor corrected value with fewer than `FEWEST_DOCUMENTS` documents. The corrected
    value is 0 from p = .5 on.
    """
    value = None if profile is None else position_sensitivity_index(profile.means)
    if profile is None or test is None or value is None:
        return dict.fromkeys(names)
    low: float | None = None
    high: float | None = None
    corrected: float | None = None
    if len(table.counts) >= FEWEST_DOCUMENTS:
        known = (table.counts > 0).sum(axis=0) >= FEWEST_OF_A_BUCKET
        low = lower_end(profile, test, alpha=1 - level, known=known)
        high, corrected = invert_psi(
            profile.means,
            draw_errors(profile.covariance),
            centre=table.smoothed_means,
            level=level,
            score_limit=table.score_limit,
        )
        if table.units is not None and test.shape is not None:
            # The covariance of few clusters is not well known.
            high = max(high, upper_end(profile, test.shape, alpha=1 - level))
        known &= table.bucket_sizes >= LEAST_SIZE * np.median(table.bucket_sizes)
        least = _least_means(table, profile, 1 - level, known=known)
        high = max(high, 1 - float(least.min() / profile.means.max()))
        corrected = 0.0 if test.p is not None and test.p > 0.5 else max(corrected, low)
    best, worst = (
        int(table.buckets[end]) for end in (profile.means.argmax(), profile.means.argmin())
    )
    return dict(zip(names, (value, low, high, corrected, best, worst), strict=True))


def _least_means(
    table: DocumentTable, profile: Profile, alpha: float, *, known: BoolArray | None = None
) -> FloatArray:
    """Lower bounds of the means of badly known buckets, (n_buckets,); of others: the means.

    Not well known is a bucket whose documents have lost fewer than `RARE` of the best score
    together (of clusters: that fewer than `RARE` lose in), so that the error of its mean is far
    from normal, or one that is not ``known``. The
    bound is Clopper and Pearson's (Biometrika 26, 1934) for as many documents: ``alpha^(1 / n)`` of
    the best where all of n found it. So it is of the mean where all documents score alike, whatever
    that is.
    """
    from scipy.special import betaincinv

    scatter = np.abs(table.sums - table.counts * table.bucket_means).max(axis=0)
    best = np.where(scatter <= ROUNDING, profile.means, table.score_limit)
    n = table.holding
    lost = n * (1 - np.minimum(profile.means / np.where(best > 0, best, 1.0), 1.0))
    bounds = betaincinv(np.maximum(n - lost, ROUNDING), lost + 1, alpha) * best
    if table.units is not None:  # documents of a cluster miss each by itself: clusters that do
        lost = (table.by_unit(table.counts * best - table.sums) > ROUNDING).sum(axis=0)
    is_bad = (lost < RARE) if known is None else (lost < RARE) | ~known
    return np.where(is_bad, bounds, profile.means)


def _drop(
    table: DocumentTable, profile: Profile | None, level: float
) -> tuple[float | None, float | None, float | None]:
    """1 - last / first bucket mean, with Student's t interval on the scale of log ratios.

    No interval where one document alone holds the first or the last bucket, or where nothing is
    found in the last.
    """
    if profile is None or profile.means[0] <= 0 or len(profile.means) < 2:
        return None, None, None
    first, last = profile.means[0], profile.means[-1]
    value = 1 - last / first
    holding = table.holding[[0, -1]]
    if last <= 0 or holding.min() < 2:
        return float(value), None, None
    rows = np.zeros(len(profile.means))
    rows[0], rows[-1] = -1 / first, 1 / last
    quantile = _student(holding, level).max()
    reach = quantile * np.sqrt(rows @ profile.covariance @ rows)
    least = _least_means(table, profile, (1 - level) / 2)
    return (
        float(value),
        float(1 - max(last / first * np.exp(reach), last / least[0])),
        float(1 - min(last / first * np.exp(-reach), least[-1] / first)),
    )


def _student(n_units: FloatArray, level: float) -> FloatArray:
    """Quantile of Student's t for so many independent units."""
    from scipy.stats import t

    return np.asarray(t.ppf((1 + level) / 2, np.maximum(n_units - 1, 1)))


def bucket_figures(
    table: DocumentTable, raw: Profile | None, same: Profile | None, n_buckets: int, level: float
) -> dict[str, np.ndarray]:
    """Means and intervals of all buckets of the scheme."""
    found: dict[str, np.ndarray] = {"n_queries": np.zeros(n_buckets, dtype=np.int64)}
    found["n_queries"][table.buckets] = table.bucket_sizes
    for prefix, profile in (("", raw), ("same_", same)):
        mean, low, high = (np.full(n_buckets, np.nan) for _ in range(3))
        if profile is not None:
            mean[table.buckets] = profile.means
            low[table.buckets], high[table.buckets] = _score_intervals(table, profile, level)
        found |= {f"{prefix}mean": mean, f"{prefix}low": low, f"{prefix}high": high}
    return found


def _score_intervals(
    table: DocumentTable, profile: Profile, level: float
) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of each mean, as of as many queries as have its standard error.

    The effective number of queries is ``m (limit - m) / se^2`` at the smoothed mean m (Korn
    and Graubard, Survey Methodology 24, 1998, for the like of it), the quantile Student's t
    of the documents that hold the bucket: few documents, or hits or misses that are rare,
    leave a symmetric interval far too short (`studies/inference`). No interval is shorter than
    documents could hide that were never drawn (see `_least_means`): at either end as many of them.
    """
    limit, sizes, holding = table.score_limit, table.bucket_sizes, table.holding
    means = np.minimum(profile.means, limit)
    smooth = (sizes * means + PSEUDO_QUERIES * table.mean) / (sizes + PSEUDO_QUERIES)
    room = smooth * (limit - smooth)
    # r = t^2 / n_effective, on scores as shares of the limit
    r = _student(holding, level) ** 2 * np.diag(profile.covariance) / np.where(room > 0, room, 1.0)
    low, high = wilson_ends(means, np.where(holding < 2, np.nan, r), limit)
    alike = ((1 - level) / 2) ** (1 / (table.counts > 0).sum(axis=0))
    low = np.minimum(np.maximum(low, 0.0), means * alike)
    return low, np.maximum(np.minimum(high, limit), limit - (limit - means) * alike)


def wilson_ends(means: FloatArray, r: FloatArray, limit: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Wilson's interval of means of scores from 0 to ``limit``.

    ``r`` is the squared quantile over the number of queries (E. Wilson, Journal of the American
    Statistical Association 22, 1927). Arrays of one shape.
    """
    centre = (means + r * limit / 2) / (1 + r)
    reach = np.sqrt(r * means * (limit - means) + (r * limit / 2) ** 2) / (1 + r)
    return centre - reach, centre + reach


def mean_interval(
    scores: FloatArray, documents: IntArray, *, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a mean over queries, arrays (n_queries,), by documents; NaN with fewer than two.

    Made as that of a bucket's mean. ``documents`` may be other independent units.
    """
    every = np.arange(len(scores))
    table = document_table(scores, documents, every, np.zeros_like(every), n_buckets=1)
    low, high = _score_intervals(table, raw_profile(table), level)
    return float(low[0]), float(high[0])


def noise_of_independent_queries(table: DocumentTable) -> FloatArray:
    """Plain PSI, (DRAWS,), that chance alone shows if queries are shuffled over positions.

    The bucket means then have the common mean and the covariance of sampling without replacement,
    ``s^2 (n_jk / (n_j n_k) - 1 / n)``; overlaps n_jk between buckets (queries at an edge) are
    neglected. It says how noisy PSI is with so many queries and buckets. It is no test: it takes
    the queries of a document as independent and all documents as alike.
    """
    sizes = table.bucket_sizes
    n = sizes.sum()
    covariance = table.variance * n / max(n - 1, 1) * (np.diag(1 / sizes) - 1 / n)
    return psi_of_columns(table.mean + draw_errors(covariance))
