"""The Position Sensitivity Index (PSI) of bucket means, its interval, and a row of the PSI table.

The plain PSI is as the papers define it. `estimate_row` makes of one model's queries what a row of
the table says: the published PSI, the same at equal documents, tests and warnings.

An interval of a PSI:

- starts at 0 where its test does not reject or could not be made: the test of position for the PSI
  at equal documents, and for the plain one where documents are compared with each other; else
  `equal_means` for the plain one. Where the test rejects, it starts at the PSI of the deviations
  that the test found, less what chance may have added (`lower_end`);
- ends at the largest of three: the largest PSI under which one as small as the observed is not rare
  (`invert_psi`), of clusters the fitted slope and bend enlarged (`upper_end`), and the PSI if the
  lowest bucket (`_least_mean`) and badly known ones (`_least_means`) are as low as they may be.

`invert_psi` also gives the value corrected for noise: the PSI whose expected plain PSI is the
observed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.comparison import ProfileComparison, compare_profiles
from psibench.metrics.constants import (
    BISECTIONS,
    CEILING,
    CONFOUNDED_P,
    CORRECTED_P,
    FEWEST_BUCKET_DOCUMENTS,
    FEWEST_DOCUMENTS,
    FEWEST_MISSES,
    FLOOR,
    LEAST_ERROR,
    LEAST_INFORMATION,
    LEAST_LEFT,
    LEAST_VARIANCE,
    NULL_QUANTILE,
    PULLED,
    ROUNDING,
    SMALL_BUCKET,
)
from psibench.metrics.effects import Effect, binomial_ends, truncation_effect
from psibench.metrics.inference import (
    BoolArray,
    BucketTest,
    DocumentTable,
    FloatArray,
    HotellingTest,
    IntArray,
    Profile,
    between_documents,
    confounding,
    document_table,
    draw_errors,
    effective_documents,
    equal_means,
    information,
    intra_document_correlation,
    length_imbalance,
    level_of_each,
    raw_profile,
    same_document_profile,
    slope_and_bend,
    units_of,
    within_documents,
)


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


def lower_end(
    profile: Profile,
    test: BucketTest,
    *,
    alpha: float,
    bounds: Sequence[FloatArray] | None = None,
) -> float:
    """Least PSI that the data allow: 0 exactly where the test does not reject at alpha.

    Fits each rejected alternative (slope and bend, or one bucket unlike the rest) to the means,
    leaves the share of its deviations that is not chance (`HotellingTest.least_share`) and returns
    the largest PSI, at most that of the means. What slope and bend of well-known buckets show says
    nothing of the mean of a few queries: of badly known buckets, which have ``bounds``
    (`_least_means` and `_most_means`; NaN for others), the PSI of slope and bend is no larger than
    what a bound of theirs shows beside the well-known ones, or these by themselves. With fewer than
    two of these all buckets are taken as they are. One bucket unlike the rest was rejected by its
    own mean, and needs no bound.
    """
    if test.p is None or test.p > alpha:
        return 0.0
    n_buckets = len(profile.means)
    each, alpha_of_each = np.eye(n_buckets), level_of_each(alpha, len(test.buckets))
    tried = [(slope_and_bend(n_buckets), test.slope_bend_test, alpha, True)]
    tried += [(each[:, [k]], tested, alpha_of_each, False) for k, tested in test.buckets.items()]
    rejected = [
        (directions, share, is_of_all)
        for directions, tested, size, is_of_all in tried
        if tested is not None and (share := tested.least_share(size, alpha=alpha)) > 0
    ]
    centre, *fitted = _fit_deviations(profile, *(directions for directions, _, _ in rejected))
    least, most = bounds if bounds is not None else np.full((2, n_buckets), np.nan)
    known = np.isnan(least)
    ends = []
    for (_, share, is_of_all), deviations in zip(rejected, fitted, strict=True):
        left = (centre + share * deviations)[:, None]
        end = float(psi_of_columns(left)[0])
        if is_of_all and not known.all() and known.sum() > 1:
            means = profile.means[known]
            beside = [(np.nanmin(most), means.max()), (means.min(), np.nanmax(least))]
            shown = [1 - worst / max(best, ROUNDING) for worst, best in beside]
            bound = max(*shown, float(psi_of_columns(left[known])[0]))
            end = min(end, max(bound, LEAST_LEFT * end))
        ends.append(end)
    # The errors of a few clusters may look so alike that a constant's fit lies beside all means.
    return min(max(ends, default=0.0), float(psi_of_columns(profile.means[:, None])[0]))


def _at_one_mean(profile: Profile, centre: FloatArray, score_limit: float) -> Profile:
    """Return a profile with the errors that it would have if all means were the mean of ``centre``.

    ``centre`` are the means at which they have their variance, as in `invert_psi`. The variance of
    a nearly empty bucket is small as its mean is: weighed by it, all fits would begin there.
    """
    middle = np.full_like(centre, centre.mean())
    scale = np.sqrt(
        _variance_function(middle, score_limit) / _variance_function(centre, score_limit)
    )
    return replace(profile, covariance=profile.covariance * np.outer(scale, scale))


def upper_end(profile: Profile, test: HotellingTest, *, alpha: float) -> float:
    """PSI of the fitted slope and bend, deviations enlarged by their critical scale."""
    centre, fitted = _fit_deviations(profile, slope_and_bend(len(profile.means)))
    return float(psi_of_columns((centre + (1 + test.critical_scale(alpha)) * fitted)[:, None])[0])


def _fit_deviations(profile: Profile, *directions: FloatArray) -> list[FloatArray]:
    """Fit bucket means by weighted least squares; return a constant's fit, and what others add.

    ``directions``: one or more columns each, (n_buckets, n), fitted together with a constant. The
    constant's fit comes first, then for each of them its fit less the constant's, (n_buckets,).
    """
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

    For a candidate PSI, bucket means have exactly it, with deviations in proportion to the observed
    ones; their sampling errors show which plain PSI one would see. For the upper end the buckets
    between the best and the worst lie nearer to the middle: which of few buckets are the extremes
    is not known for certain, and where several are, a small observed PSI is rarer.

    Parameters
    ----------
    means : float64 array of shape (n_buckets,)
        Observed bucket means, n_buckets >= 2, the largest > 0.
    errors : float64 array of shape (n_buckets, n_draws)
        Draws of the sampling errors of those means.
    centre : float64 array of shape (n_buckets,)
        Means at which the errors have their variance: the smoothed plain means (also for the PSI at
        equal documents), so that a bucket in which nothing is found has a variance to scale.
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
        do not bring it down to 0: see `NULL_QUANTILE`.
    corrected : float
        The PSI whose expected plain PSI is the observed one; exactly 0 where noise alone explains
        it. Both are the plain PSI if the means have no sampling error at all.

    Notes
    -----
    Test inversion with an estimated nuisance parameter follows Chuang and Lai (2000), Statistica
    Sinica 10; a limit kept from falling below what such data can show is that of
    Cowan, Cranmer, Gross and Vitells, arXiv:1105.3166 (2011). `docs/psi-accuracy.md` has coverage
    and bias.
    """
    observed = float(psi_of_columns(means[:, None])[0])
    shrunken = _shrunken_deviations(means, errors)
    if shrunken is None:
        return observed, observed
    middle, deviations = shrunken
    variance = _variance_function(centre, score_limit)

    def simulate(psi: float, deviations: FloatArray) -> FloatArray:
        reach = (1 - psi) * deviations.max() - deviations.min()
        candidate = middle + deviations * (psi * middle / reach)  # its PSI is exactly this one
        possible = candidate * min(1.0, score_limit / float(candidate.max()))
        stretch = np.sqrt(_variance_function(possible, score_limit) / variance)
        return psi_of_columns(possible[:, None] + stretch[:, None] * errors)

    tail = (1 - level) / 2
    extremes = [deviations.argmin(), deviations.argmax()]
    apart = deviations * (1 - PULLED / len(deviations))
    apart[extremes] = deviations[extremes]
    seen = max(observed, float(np.quantile(simulate(0.0, apart), NULL_QUANTILE))) + ROUNDING
    n = errors.shape[1] + 1  # a p of draws is (k + 1) / (n_draws + 1)
    high = max(observed, _solve(lambda psi: tail - (1 + (simulate(psi, apart) <= seen).sum()) / n))
    corrected = _solve(lambda psi: float(simulate(psi, deviations).mean()) - observed)
    return high, min(corrected, high)


def _shrunken_deviations(means: FloatArray, errors: FloatArray) -> tuple[float, FloatArray] | None:
    """Centre of the means and shrunken deviations from it; None if there is no sampling error.

    The deviations are known up to a factor: candidate means have them in proportion.
    """
    se = errors.std(axis=1)
    if se.max() <= ROUNDING:
        return None
    se = np.maximum(se, LEAST_ERROR * se.max())
    weights = 1 / (_between_variance(means, se) + se**2)
    centre = float(weights @ means / weights.sum())
    deviations = (means - centre) * np.sqrt(weights)
    if np.ptp(means) <= ROUNDING:
        deviations = np.linspace(-1.0, 1.0, len(means))
    return centre, deviations


def _between_variance(means: FloatArray, se: FloatArray) -> float:
    """Variance of the true means by the moment estimator of DerSimonian and Laird (1986)."""
    weights = 1 / se**2
    centre = weights @ means / weights.sum()
    excess = weights @ (means - centre) ** 2 - (len(means) - 1)
    return max(0.0, float(excess / (weights.sum() - (weights**2).sum() / weights.sum())))


def _variance_function(means: FloatArray, score_limit: float) -> FloatArray:
    """How the variance of scores changes with their mean m: m (limit - m), floored."""
    return np.maximum(means * (score_limit - means), LEAST_VARIANCE * score_limit**2)


def _solve(increasing: Callable[[float], float]) -> float:
    """Root in [0, 1] by bisection: 0 if not negative at 0, 1 if negative at 1."""
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

FLAGS = {
    "between_documents": "positions differ between documents, hardly within them: compared "
    "between documents of like length",
    "too_few_documents": "too few documents or clusters inform the test (none does where all "
    "scores are alike)",
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
    "position_blind": "the control that knows no position: what it shows, the questions show",
    "truncating": "the control that is known to cut late evidence off",
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
        Sort key of a document's queries: the middle of the evidence in characters or, of evidence
        known by class, of its third (a share of the length where that is not known).
    seen : bool array of shape (n_queries,), or None
        Whether the evidence lay wholly inside the model's input; None: not known.
    located : bool array of shape (n_queries,), or None
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
    located: BoolArray | None = None
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
    units = None
    if row.clusters is not None:  # of the queries that sit in a bucket
        is_unit = units_of(row.documents[queries], row.clusters[queries]) is not None
        units = row.clusters if is_unit else None
    table = document_table(
        row.scores, row.documents, queries, buckets, n_buckets=n_buckets, units=units
    )
    raw = raw_profile(table) if len(table.buckets) else None
    same = same_document_profile(table)
    info = information(table)
    if same and (info.least < LEAST_INFORMATION or same.n_documents < FEWEST_DOCUMENTS):
        same = None
    is_within = info.slope_bend >= LEAST_INFORMATION
    scores, lengths = row.scores[queries], row.lengths[queries]
    placed = (row.documents[queries], buckets)
    of_placed = None if units is None else units[queries]
    if is_within:
        test = within_documents(table)
    else:
        positions = row.positions[queries]
        test = between_documents(scores, *placed, lengths, positions, units=of_placed)
    of_plain = test
    if raw and (is_within or test.p is None):
        of_plain = equal_means(table)
    plain = _psi(table, raw, of_plain, level)
    has_psi = plain["psi"] is not None
    equal = _psi(table, same, test, level, names=SAME)
    ends_held = {0, n_buckets - 1} <= set(table.buckets.tolist())
    of_ends = (same if is_within else raw) if ends_held else None
    drop, drop_low, drop_high = _drop(table, of_ends, level)
    noise = noise_of_independent_queries(table) if has_psi else None
    unlike = ProfileComparison(None, None, None)
    if row.control is not None:
        who = (row.documents, queries, buckets, row.lengths, row.positions)
        unlike = compare_profiles(row.scores, row.control, *who, within=is_within, units=units)
    cut = share_seen = None
    if row.seen is not None:
        cut = truncation_effect(scores, *placed, ~row.seen[queries], level=level, units=of_placed)
        seen = row.seen if row.located is None else row.seen[row.located]
        share_seen = float(seen.mean()) if len(seen) else None
    p_confounded = confounding(table, raw) if raw and is_within and has_psi else None
    no_lengths = bool(np.isnan(lengths).any())
    n_clusters = None
    if row.clusters is not None:
        held = len(np.unique(row.clusters[queries]))
        n_clusters = held if held < len(table.counts) else None
    few_clusters = n_clusters is not None and units is None
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
        "p_control": unlike.p,
        "p_control_hit": unlike.p_hit,
        "p_control_miss": unlike.p_miss,
        "seen": share_seen,
        **effect_figures("truncation", cut),
        "n_documents": len(table.counts),
        "n_effective_documents": effective_documents(table),
        "n_informative_documents": test.n_documents,
        "n_clusters": n_clusters,
        "intra_document_correlation": intra_document_correlation(scores, *placed),
        "length_imbalance": length_imbalance(lengths, buckets),
        "info_min": info.least,
        "info_shape": info.slope_bend,
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


def _flags(
    table: DocumentTable,
    test: BucketTest,
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
SAME = "psi_same", "psi_same_low", "psi_same_high", "psi_same_corrected", "best_same", "worst_same"


def _psi(
    table: DocumentTable,
    profile: Profile | None,
    test: BucketTest | None,
    level: float,
    *,
    names: Sequence[str] = PLAIN,
) -> dict[str, float | int | None]:
    """PSI of a profile, its interval, and the first of its best and worst buckets, by ``names``.

    Neither interval nor corrected value with fewer than `FEWEST_DOCUMENTS` documents. The interval
    holds the PSI; the corrected value is 0 if p > .5, else in it.
    """
    value = None if profile is None else position_sensitivity_index(profile.means)
    if profile is None or test is None or value is None:
        return dict.fromkeys(names)
    low: float | None = None
    high: float | None = None
    corrected: float | None = None
    if len(table.counts) >= FEWEST_DOCUMENTS:
        alpha = 1 - level
        few = (table.counts > 0).sum(axis=0) < FEWEST_BUCKET_DOCUMENTS
        few |= table.bucket_sizes < SMALL_BUCKET * np.median(table.bucket_sizes)
        bounds = [of(table, profile, alpha, few) for of in (_least_means, _most_means)]
        centre = table.smoothed(table.bucket_means)
        of_one_mean = _at_one_mean(profile, centre, table.score_limit)
        low = lower_end(of_one_mean, test, alpha=alpha, bounds=bounds)
        high, corrected = invert_psi(
            profile.means,
            draw_errors(profile.covariance),
            centre=centre,
            level=level,
            score_limit=table.score_limit,
        )
        if table.units is not None and test.slope_bend_test is not None:
            # However many the clusters: the covariance of few is not well known.
            high = max(high, upper_end(profile, test.slope_bend_test, alpha=alpha))
        of_high = alpha / (1 if low == 0 else 2)  # where the lower end is 0, this alone may miss
        least = _least_means(table, profile, of_high, few | _has_rare_misses(table, profile))
        lowest = int(profile.means.argmin())
        if np.isnan(least[lowest]):
            least[lowest] = _least_mean(table, profile, of_high, lowest)
        high = max(high, 1 - float(np.fmin(least, profile.means).min() / profile.means.max()))
        corrected = 0.0 if test.p is not None and test.p > CORRECTED_P else max(corrected, low)
    best, worst = (
        int(table.buckets[end]) for end in (profile.means.argmax(), profile.means.argmin())
    )
    return dict(zip(names, (value, low, high, corrected, best, worst), strict=True))


def _least_means(
    table: DocumentTable, profile: Profile, alpha: float, bounded: BoolArray
) -> FloatArray:
    """Lower bounds at alpha of the means of ``bounded`` buckets, (n_buckets,); NaN of others.

    The one-sided ones of Clopper and Pearson (`binomial_ends`) for the n documents (or clusters)
    that hold a bucket: ``alpha^(1 / n)`` of the best score where all of n found it. If
    all documents score alike, that score stands for the best.
    """
    best, misses = _misses(table, profile)
    least, _ = binomial_ends(table.holding - misses, misses, alpha)
    return np.where(bounded, least * best, np.nan)


def _least_mean(table: DocumentTable, profile: Profile, alpha: float, bucket: int) -> float:
    """Lower bound at alpha of one bucket's mean; NaN where no error is known.

    Clopper and Pearson's, of ``m (limit - m) / se^2`` queries (Korn and Graubard, Survey
    Methodology 24, 1998): a normal error is too short on the side of many misses.
    """
    share = min(float(profile.means[bucket]) / table.score_limit, 1.0)
    variance = float(profile.covariance[bucket, bucket]) / table.score_limit**2
    if not 0 < share < 1 or variance <= 0:
        return float("nan")
    n = share * (1 - share) / variance
    return float(binomial_ends(n * share, n * (1 - share), alpha)[0]) * table.score_limit


def _most_means(
    table: DocumentTable, profile: Profile, alpha: float, bounded: BoolArray
) -> FloatArray:
    """Upper bounds, as `_least_means`; the best score is the largest that a query can have."""
    hits = table.holding * np.minimum(profile.means / table.score_limit, 1.0)
    _, most = binomial_ends(hits, table.holding - hits, alpha)
    return np.where(bounded, most * table.score_limit, np.nan)


def _misses(table: DocumentTable, profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Return the best score of each bucket, and how many documents miss it: see `FEWEST_MISSES`."""
    scatter = np.abs(table.sums - table.counts * table.bucket_means).max(axis=0)
    best = np.where(scatter <= ROUNDING, profile.means, table.score_limit)
    shares = np.minimum(profile.means / np.where(best > 0, best, 1.0), 1.0)
    return best, table.holding * (1 - shares)


def _has_rare_misses(table: DocumentTable, profile: Profile) -> BoolArray:
    """Whether each bucket has fewer than `FEWEST_MISSES`, (n_buckets,)."""
    best, misses = _misses(table, profile)
    if table.units is not None:  # documents of a cluster miss each by itself
        misses = (table.by_unit(table.counts * best - table.sums) > ROUNDING).sum(axis=0)
    return np.asarray(misses < FEWEST_MISSES - 1e-6)  # 3 of any number are 3, however rounded


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
    rare = _has_rare_misses(table, profile)
    least = _least_means(table, profile, (1 - level) / 2, rare)  # each end may miss
    least = np.fmin(least, profile.means)
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
    """Wilson's interval of each mean, the effective sample size ``m (limit - m) / se^2``.

    m is the smoothed mean (as Korn and Graubard, Survey Methodology 24, 1998, have it of shares),
    the quantile Student's t of the units that hold the bucket: few of them, or rare hits or misses,
    leave a symmetric interval far too short (`studies/inference`). It is widened at both ends to
    Clopper and Pearson's bound for n identical documents; in clusters, too, where each may miss by
    itself: 12 identical clusters would take .26 of each mean.
    """
    limit, holding = table.score_limit, table.holding
    means = np.minimum(profile.means, limit)
    smooth = table.smoothed(means)
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
    scores: FloatArray, documents: IntArray, units: IntArray | None = None
) -> tuple[float, float]:
    """95 % interval of a mean over queries, made as that of a bucket's mean.

    Arrays (n_queries,). ``units`` are the independent ones, documents if None (see `units_of`);
    NaN with fewer than two of them.
    """
    every = np.arange(len(scores))
    table = document_table(scores, documents, every, 0 * every, n_buckets=1, units=units)
    low, high = _score_intervals(table, raw_profile(table), 0.95)
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
