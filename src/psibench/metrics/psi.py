"""The Position Sensitivity Index (PSI) of bucket means, its interval, and rows of the PSI table.

The plain PSI, "published PSI" in tables, follows the papers' definition. It mixes position with
document difficulty, because early and late evidence come from different documents. The PSI at equal
documents estimates the PSI if every document had queries in every bucket. `estimate_row` computes a
row of the table from one model's queries: both PSIs, tests and warnings.

An interval of a PSI

- starts at 0 if its test does not reject or is missing. The PSI at equal documents uses the test of
  position. The plain PSI uses it too if it compares documents with each other, else `equal_means`.
  If the test rejects, the part of the deviations that may be chance is subtracted, and the interval
  starts at the PSI of the rest (`lower_end`).
- ends at the largest of three values: the largest PSI for which an observed PSI this small is not
  rare (`invert_psi`); with clusters, the PSI of the enlarged slope and bend (`upper_end`); and the
  PSI if the lowest bucket (`_least_mean`) and uncertain buckets (`_least_means`) have their lower
  bounds.

`invert_psi` also returns the value corrected for noise: the PSI whose expected plain PSI is the
observed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
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
        Mean score per bucket, >= 0; NaN for an empty bucket, which is ignored.

    Returns
    -------
    float or None
        Value in [0, 1]; None if fewer than two buckets have a mean, or the best mean is 0.
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
        Without NaN. A (simulated) mean below 0 counts as 0.

    Returns
    -------
    array of shape (n_columns,)
        Values in [0, 1]; 1 for a column without a positive mean. Rounding errors become an exact
        0.
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
    """Return the lower end of the interval: 0 exactly if the test does not reject at alpha.

    Fits each significant alternative (slope and bend, or one unusual bucket) to the means, keeps
    the share of its deviations that is not chance (`HotellingTest.least_share`), and returns the
    largest PSI of these, at most the PSI of the means. Slope and bend of well-known buckets do not
    determine the mean of a bucket with few queries. Such uncertain buckets have ``bounds``
    (`_least_means` and `_most_means`; NaN for others). With them, the PSI of slope and bend is
    limited to the PSI of their bounds with the well-known buckets, or of the well-known buckets
    only. With fewer than two well-known buckets there is no limit. One unusual bucket is
    significant by its mean and needs no bound.
    """
    if test.p is None or test.p > alpha:
        return 0.0
    n_buckets = len(profile.means)
    each, alpha_of_each = np.eye(n_buckets), level_of_each(alpha, len(test.buckets))
    tried = [(slope_and_bend(n_buckets), test.slope_bend_test, alpha, True)]
    tried += [(each[:, [k]], tested, alpha_of_each, False) for k, tested in test.buckets.items()]
    rejected = [
        (directions, share, uses_all_buckets)
        for directions, tested, size, uses_all_buckets in tried
        if tested is not None and (share := tested.least_share(size, alpha=alpha)) > 0
    ]
    centre, *fitted = _fit_deviations(profile, *(directions for directions, _, _ in rejected))
    least, most = bounds if bounds is not None else np.full((2, n_buckets), np.nan)
    known = np.isnan(least)
    ends = []
    for (_, share, uses_all_buckets), deviations in zip(rejected, fitted, strict=True):
        left = (centre + share * deviations)[:, None]
        end = float(psi_of_columns(left)[0])
        if uses_all_buckets and not known.all() and known.sum() > 1:
            means = profile.means[known]
            pairs = [(np.nanmin(most), means.max()), (means.min(), np.nanmax(least))]
            shown = [1 - worst / max(best, ROUNDING) for worst, best in pairs]
            bound = max(*shown, float(psi_of_columns(left[known])[0]))
            end = min(end, max(bound, LEAST_LEFT * end))
        ends.append(end)
    # With few clusters, similar errors may put the fitted constant outside all means.
    return min(max(ends, default=0.0), float(psi_of_columns(profile.means[:, None])[0]))


def _at_one_mean(profile: Profile, centre: FloatArray, score_limit: float) -> Profile:
    """Return a profile with its errors scaled as if all means were the mean of ``centre``.

    ``centre`` are the means of the current variances, as in `invert_psi`. A bucket with a mean near
    0 has a small variance, and would dominate the fits as a weight.
    """
    middle = np.full_like(centre, centre.mean())
    scale = np.sqrt(
        _variance_function(middle, score_limit) / _variance_function(centre, score_limit)
    )
    return replace(profile, covariance=profile.covariance * np.outer(scale, scale))


def upper_end(profile: Profile, test: HotellingTest, *, alpha: float) -> float:
    """Return the PSI of the fitted slope and bend, enlarged by their critical scale."""
    centre, fitted = _fit_deviations(profile, slope_and_bend(len(profile.means)))
    return float(psi_of_columns((centre + (1 + test.critical_scale(alpha)) * fitted)[:, None])[0])


def _fit_deviations(profile: Profile, *directions: FloatArray) -> list[FloatArray]:
    """Fit bucket means by weighted least squares; return the fits of a constant and of directions.

    Each of ``directions`` has one or more columns, (n_buckets, n), fitted together with a constant.
    Returns the constant's fit, then each direction's fit minus the constant's, (n_buckets,).
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
    """Return the upper end of the interval, and the PSI corrected for noise.

    For a candidate PSI, bucket means have exactly this PSI, with deviations proportional to the
    observed ones; simulated sampling errors then give the plain PSI that one would observe. For the
    upper end, the buckets between the best and the worst are moved towards the middle: it is not
    certain which of few buckets are the extremes, and with several extremes a small observed PSI is
    rarer.

    Parameters
    ----------
    means : float64 array of shape (n_buckets,)
        Observed bucket means, n_buckets >= 2, the largest > 0.
    errors : float64 array of shape (n_buckets, n_draws)
        Draws of the sampling errors of those means.
    centre : float64 array of shape (n_buckets,)
        Means for the variance of the errors: the smoothed plain means (also for the PSI at equal
        documents), so that a bucket with mean 0 has a variance above 0.
    level : float
        Nominal coverage of the interval, in (0, 1).
    score_limit : float
        Largest possible score of a query. A bucket's variance is assumed to change with its true
        mean m like ``m * (score_limit - m)``.

    Returns
    -------
    high : float
        Largest PSI for which a plain PSI this small has at least probability ``(1 - level) / 2``;
        never below the plain PSI. It does not fall to 0 if bucket means are by chance more alike
        than noise makes them: see `NULL_QUANTILE`.
    corrected : float
        The PSI whose expected plain PSI is the observed one; exactly 0 if noise explains the
        observed PSI. Both are the plain PSI if the means have no sampling error.

    Notes
    -----
    Test inversion with an estimated nuisance parameter follows Chuang and Lai (2000), Statistica
    Sinica 10. The power constraint of the limit follows Cowan, Cranmer, Gross and Vitells,
    arXiv:1105.3166 (2011). `docs/psi-accuracy.md` has coverage and bias.
    """
    observed = float(psi_of_columns(means[:, None])[0])
    shrunken = _shrunken_deviations(means, errors)
    if shrunken is None:
        return observed, observed
    middle, deviations = shrunken
    variance = _variance_function(centre, score_limit)

    def simulate(psi: float, deviations: FloatArray) -> FloatArray:
        reach = (1 - psi) * deviations.max() - deviations.min()
        candidate = middle + deviations * (psi * middle / reach)  # has exactly this PSI
        possible = candidate * min(1.0, score_limit / float(candidate.max()))
        stretch = np.sqrt(_variance_function(possible, score_limit) / variance)
        return psi_of_columns(possible[:, None] + stretch[:, None] * errors)

    tail = (1 - level) / 2
    extremes = [deviations.argmin(), deviations.argmax()]
    apart = deviations * (1 - PULLED / len(deviations))
    apart[extremes] = deviations[extremes]
    seen = max(observed, float(np.quantile(simulate(0.0, apart), NULL_QUANTILE))) + ROUNDING
    n = errors.shape[1] + 1  # p from draws is (k + 1) / (n_draws + 1)
    high = max(observed, _solve(lambda psi: tail - (1 + (simulate(psi, apart) <= seen).sum()) / n))
    corrected = _solve(lambda psi: float(simulate(psi, deviations).mean()) - observed)
    return high, min(corrected, high)


def _shrunken_deviations(means: FloatArray, errors: FloatArray) -> tuple[float, FloatArray] | None:
    """Return the centre of the means and shrunken deviations; None without sampling error.

    Only the proportions of the deviations matter.
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
    """Return the variance of the true means (moment estimator of DerSimonian and Laird, 1986)."""
    weights = 1 / se**2
    centre = weights @ means / weights.sum()
    excess = weights @ (means - centre) ** 2 - (len(means) - 1)
    return max(0.0, float(excess / (weights.sum() - (weights**2).sum() / weights.sum())))


def _variance_function(means: FloatArray, score_limit: float) -> FloatArray:
    """Return the relative variance of scores with mean m: m (limit - m), with a floor."""
    return np.maximum(means * (score_limit - means), LEAST_VARIANCE * score_limit**2)


def _solve(increasing: Callable[[float], float]) -> float:
    """Return the root in [0, 1] by bisection; 0 if not negative at 0, 1 if negative at 1."""
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
    "between_documents": "positions differ mostly between documents, so the test compares "
    "documents of similar length",
    "too_few_documents": "too few documents or clusters can show an effect (none can if all scores "
    "are equal)",
    "confounded": "the published PSI mixes position with document difficulty",
    "few_clusters": "too few clusters: documents count as independent, and results hold only for "
    "these clusters",
    "sections": "few documents: sections of them count as independent documents, and results hold "
    "only for these documents",
    "small_buckets": "a bucket has few queries",
    "at_floor": "finds almost nothing, so PSI is meaningless",
    "at_ceiling": "finds nearly everything, so a position effect can hardly show",
    "no_lengths": "the test needs document lengths to compare documents, and they are unknown",
    "unplaced": "queries without a single evidence position (mixed, or no span) are in no bucket",
    "given_unknown": "evidence is labelled by class, so its share in the input is unknown",
    "filter_panel": "this retriever also selected the queries of the benchmark",
    "position_blind": "the position-blind control: the questions cause any effect that it shows",
    "truncating": "the control that cuts off late evidence",
}


@dataclass(frozen=True)
class RowData:
    """The queries of one row: scores, documents and positions.

    Attributes
    ----------
    scores : float64 array of shape (n_queries,)
        Score per query, finite and >= 0.
    documents : int64 array of shape (n_queries,)
        Index of the query's positive document.
    lengths : float64 array of shape (n_queries,)
        Length of the document, characters; NaN if unknown, which rules out a comparison between
        documents.
    positions : float64 array of shape (n_queries,)
        Sort key of a document's queries: the middle of the evidence in characters. If only the
        third with the evidence is known, the middle of that third, as a share of the document if
        its length is unknown.
    seen : bool array of shape (n_queries,), or None
        Whether the evidence is completely inside the model's input; None if unknown.
    located : bool array of shape (n_queries,), or None
        Whether the position of the evidence is known; None if it is known for all queries. Other
        queries do not count in the share of seen evidence.
    control : float64 array of shape (n_queries,), or None
        Scores of the position-blind control on the same queries.
    clusters : int64 array of shape (n_queries,), or None
        Index of the document's cluster (e.g. an article or a site). With `FEWEST_CLUSTERS` or
        more, clusters are the independent units of tests and intervals, instead of documents.
    """

    scores: FloatArray
    documents: IntArray
    lengths: FloatArray
    positions: FloatArray
    seen: BoolArray | None = None
    located: BoolArray | None = None
    control: FloatArray | None = None
    clusters: IntArray | None = None

    def taken(self, queries: IntArray | BoolArray) -> RowData:
        """Return the queries at these indices, or of a mask."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        known = {name: values for name, values in arrays.items() if values is not None}
        return replace(self, **{name: values[queries] for name, values in known.items()})


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
        Query ``query_index[i]`` is in bucket ``bucket_index[i]``. A query may be in several
        buckets or in none.
    n_buckets : int
        Number of buckets in the scheme. Empty buckets are ignored.
    level : float
        Nominal coverage of the intervals, in (0, 1).
    min_bucket_size : int
        A bucket with fewer queries sets the flag ``small_buckets``, but still counts.

    Returns
    -------
    columns : dict
        Columns of PSI_TABLE by name (`psibench.tables.schemas` describes them); missing values are
        None, never 0. ``best_bucket``, ``worst_bucket``, ``best_same`` and ``worst_same`` are
        bucket indices.
    buckets : dict of arrays of shape (n_buckets,)
        Columns of BUCKET_SCORES by name: ``n_queries``; ``mean``, ``low`` and ``high`` with
        documents (or clusters) as independent units, in the range of the scores, without an
        interval for fewer than two units; ``same_mean``, ``same_low`` and ``same_high`` at equal
        documents (see `same_document_profile`). Missing values are NaN.

    Raises
    ------
    InputError
        If scores are not finite or below 0, or arrays or settings are out of range.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; give a value between 0 and 1, e.g. 0.95")
    low = float(row.scores.min(initial=0.0))
    if low < 0:
        raise InputError(f"scores: the smallest is {low}; PSI needs scores of 0 or more")
    queries, buckets = np.asarray(query_index, np.int64), np.asarray(bucket_index, np.int64)
    units = None
    if row.clusters is not None:  # for the queries with a bucket
        is_unit = units_of(row.documents[queries], row.clusters[queries]) is not None
        units = row.clusters if is_unit else None
    table = document_table(
        row.scores, row.documents, queries, buckets, n_buckets=n_buckets, units=units
    )
    placed = row.taken(queries)
    unit_of_each = None if units is None else units[queries]
    raw = raw_profile(table) if len(table.buckets) else None
    same = same_document_profile(table)
    info = information(table)
    if same and (info.least < LEAST_INFORMATION or same.n_documents < FEWEST_DOCUMENTS):
        same = None
    is_within = info.slope_bend >= LEAST_INFORMATION
    if is_within:
        test = within_documents(table)
    else:
        where = (placed.documents, buckets, placed.lengths, placed.positions)
        test = between_documents(placed.scores, *where, units=unit_of_each)
    plain_test = equal_means(table) if raw and (is_within or test.p is None) else test
    plain = _psi(table, raw, plain_test, level)
    has_psi = plain["psi"] is not None
    noise = noise_of_independent_queries(table) if has_psi else None
    columns = {
        "n_buckets": len(table.buckets),
        "smallest_bucket": int(table.bucket_sizes.min()) if len(table.buckets) else 0,
        "mean_of_buckets": float(raw.means.mean()) if raw else None,
        **plain,
        **_psi(table, same, test, level, names=SAME_COLUMNS),
        **_drop_columns(table, same if is_within else raw, n_buckets, level),
        "test": None if test.p is None else ("within" if is_within else "between"),
        "p_position": test.p,
        "p_shape": test.p_shape,
        "p_bucket": test.p_bucket,
        "p_trend": test.p_trend,
        **_control_columns(row, queries, buckets, is_within, units),
        **_reading_columns(row, placed, buckets, unit_of_each, level),
        "n_documents": len(table.counts),
        "n_effective_documents": effective_documents(table),
        "n_informative_documents": test.n_documents,
        "n_clusters": _n_clusters(placed, len(table.counts)),
        "intra_document_correlation": intra_document_correlation(
            placed.scores, placed.documents, buckets
        ),
        "length_imbalance": length_imbalance(placed.lengths, buckets),
        "info_min": info.least,
        "info_shape": info.slope_bend,
        "p_confounded": confounding(table, raw) if raw and is_within and has_psi else None,
        "psi_noise_mean": None if noise is None else float(noise.mean()),
        "psi_noise_p95": None if noise is None else float(np.quantile(noise, 0.95)),
    }
    columns["flags"] = _flags(table, columns, placed.lengths, min_bucket_size)
    return columns, bucket_columns(table, raw, same, n_buckets, level)


def _control_columns(
    row: RowData, queries: IntArray, buckets: IntArray, is_within: bool, units: IntArray | None
) -> dict[str, float | None]:
    found = ProfileComparison(None, None, None)
    if row.control is not None:
        where = (row.documents, queries, buckets, row.lengths, row.positions)
        found = compare_profiles(row.scores, row.control, *where, within=is_within, units=units)
    return {"p_control": found.p, "p_control_hit": found.p_hit, "p_control_miss": found.p_miss}


def _reading_columns(
    row: RowData, placed: RowData, buckets: IntArray, units: IntArray | None, level: float
) -> dict[str, float | None]:
    """Return the share of queries with the evidence in the input, and the effect of truncation."""
    if row.seen is None or placed.seen is None:
        return {"seen": None, **effect_columns("truncation", None)}
    effect = truncation_effect(
        placed.scores, placed.documents, buckets, ~placed.seen, level=level, units=units
    )
    seen = row.seen if row.located is None else row.seen[row.located]
    share = float(seen.mean()) if len(seen) else None
    return {"seen": share, **effect_columns("truncation", effect)}


def _n_clusters(placed: RowData, n_documents: int) -> int | None:
    """Return the number of clusters; None if they are unknown or have one document each."""
    n_found = n_documents if placed.clusters is None else len(np.unique(placed.clusters))
    return n_found if n_found < n_documents else None


def effect_columns(name: str, effect: Effect | None) -> dict[str, float | None]:
    """Return an effect as columns NAME, NAME_low, NAME_high and p_NAME; None without an effect."""
    columns = (name, f"{name}_low", f"{name}_high", f"p_{name}")
    found = (None,) * 4 if effect is None else (effect.value, effect.low, effect.high, effect.p)
    return dict(zip(columns, found, strict=True))


def _flags(
    table: DocumentTable, columns: Mapping[str, Any], lengths: FloatArray, min_bucket_size: int
) -> str:
    """Return the flags of a row from its other columns."""
    if not len(table.buckets):
        return ""
    mean = table.mean / table.score_limit
    is_within = columns["info_shape"] >= LEAST_INFORMATION
    untested = columns["test"] is None and len(table.buckets) > 1
    no_lengths = bool(untested and not is_within and np.isnan(lengths).any())
    p_confounded = columns["p_confounded"]
    raised = {
        "between_documents": not is_within and len(table.buckets) > 1,
        "too_few_documents": untested and not no_lengths,
        "confounded": p_confounded is not None and p_confounded < CONFOUNDED_P,
        "few_clusters": columns["n_clusters"] is not None and table.units is None,
        "small_buckets": table.bucket_sizes.min() < min_bucket_size,
        "at_floor": mean < FLOOR,
        "at_ceiling": mean > CEILING,
        "no_lengths": no_lengths,
    }
    return ", ".join(name for name, is_raised in raised.items() if is_raised)


PLAIN_COLUMNS = ("psi", "psi_low", "psi_high", "psi_corrected", "best_bucket", "worst_bucket")
SAME_COLUMNS = (
    "psi_same",
    "psi_same_low",
    "psi_same_high",
    "psi_same_corrected",
    "best_same",
    "worst_same",
)


def _psi(
    table: DocumentTable,
    profile: Profile | None,
    test: BucketTest,
    level: float,
    *,
    names: Sequence[str] = PLAIN_COLUMNS,
) -> dict[str, float | int | None]:
    """Return PSI, interval, corrected value, and first best and worst bucket, by ``names``.

    No interval and no corrected value with fewer than `FEWEST_DOCUMENTS` documents. The interval
    contains the PSI; the corrected value is 0 if p > .5, else inside the interval.
    """
    value = None if profile is None else position_sensitivity_index(profile.means)
    if profile is None or value is None:
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
            # For any number of clusters, because the covariance of few is uncertain.
            high = max(high, upper_end(profile, test.slope_bend_test, alpha=alpha))
        of_high = alpha / (1 if low == 0 else 2)  # one-sided if the lower end is 0
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
    """Return lower bounds at alpha of the means of ``bounded`` buckets, (n_buckets,); else NaN.

    One-sided Clopper-Pearson bounds (`binomial_ends`) for the n documents (or clusters) in a
    bucket: ``alpha^(1 / n)`` of the best score if all n have it. If all documents score alike, that
    score counts as the best.
    """
    best, misses = _misses(table, profile)
    least, _ = binomial_ends(table.holding - misses, misses, alpha)
    return np.where(bounded, least * best, np.nan)


def _least_mean(table: DocumentTable, profile: Profile, alpha: float, bucket: int) -> float:
    """Return the lower bound at alpha of one bucket's mean; NaN without a known error.

    A Clopper-Pearson bound for ``m (limit - m) / se^2`` queries (Korn and Graubard, Survey
    Methodology 24, 1998), because a normal error is too short on the side of many misses.
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
    """Return upper bounds like `_least_means`; the best score is the largest possible score."""
    hits = table.holding * np.minimum(profile.means / table.score_limit, 1.0)
    _, most = binomial_ends(hits, table.holding - hits, alpha)
    return np.where(bounded, most * table.score_limit, np.nan)


def _misses(table: DocumentTable, profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Return the best score of each bucket, and its number of misses (see `FEWEST_MISSES`)."""
    scatter = np.abs(table.sums - table.counts * table.bucket_means).max(axis=0)
    best = np.where(scatter <= ROUNDING, profile.means, table.score_limit)
    shares = np.minimum(profile.means / np.where(best > 0, best, 1.0), 1.0)
    return best, table.holding * (1 - shares)


def _has_rare_misses(table: DocumentTable, profile: Profile) -> BoolArray:
    """Return whether each bucket has fewer misses than `FEWEST_MISSES`, (n_buckets,)."""
    best, misses = _misses(table, profile)
    if table.units is not None:  # documents of a cluster miss separately
        misses = (table.by_unit(table.counts * best - table.sums) > ROUNDING).sum(axis=0)
    return np.asarray(misses < FEWEST_MISSES - 1e-6)  # tolerates rounding of exactly 3


def _drop_columns(
    table: DocumentTable, profile: Profile | None, n_buckets: int, level: float
) -> dict[str, float | None]:
    """Return ``drop``, 1 - last / first bucket mean, with Student's t interval for the log ratio.

    None without queries in both of these buckets, or if the first mean is 0. No interval if one of
    them has only one document, or if the last mean is 0.
    """
    columns: dict[str, float | None] = dict.fromkeys(("drop", "drop_low", "drop_high"))
    has_both_ends = {0, n_buckets - 1} <= set(table.buckets.tolist())
    if profile is None or not has_both_ends or profile.means[0] <= 0 or len(profile.means) < 2:
        return columns
    first, last = profile.means[0], profile.means[-1]
    columns["drop"] = float(1 - last / first)
    holding = table.holding[[0, -1]]
    if last <= 0 or holding.min() < 2:
        return columns
    rows = np.zeros(len(profile.means))
    rows[0], rows[-1] = -1 / first, 1 / last
    quantile = _student(holding, level).max()
    reach = quantile * np.sqrt(rows @ profile.covariance @ rows)
    rare = _has_rare_misses(table, profile)
    least = _least_means(table, profile, (1 - level) / 2, rare)  # both ends may miss
    least = np.fmin(least, profile.means)
    return columns | {
        "drop_low": float(1 - max(last / first * np.exp(reach), last / least[0])),
        "drop_high": float(1 - min(last / first * np.exp(-reach), least[-1] / first)),
    }


def _student(n_units: FloatArray, level: float) -> FloatArray:
    """Return the quantile of Student's t for a number of independent units."""
    from scipy.stats import t

    return np.asarray(t.ppf((1 + level) / 2, np.maximum(n_units - 1, 1)))


def bucket_columns(
    table: DocumentTable, raw: Profile | None, same: Profile | None, n_buckets: int, level: float
) -> dict[str, np.ndarray]:
    """Return means and intervals of all buckets of the scheme, as `estimate_row` describes."""
    columns: dict[str, np.ndarray] = {"n_queries": np.zeros(n_buckets, dtype=np.int64)}
    columns["n_queries"][table.buckets] = table.bucket_sizes
    for prefix, profile in (("", raw), ("same_", same)):
        mean, low, high = (np.full(n_buckets, np.nan) for _ in range(3))
        if profile is not None:
            mean[table.buckets] = profile.means
            low[table.buckets], high[table.buckets] = _score_intervals(table, profile, level)
        columns |= {f"{prefix}mean": mean, f"{prefix}low": low, f"{prefix}high": high}
    return columns


def _score_intervals(
    table: DocumentTable, profile: Profile, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's interval of each mean, with effective sample size ``m (limit - m) / se^2``.

    m is the smoothed mean (like Korn and Graubard, Survey Methodology 24, 1998, for shares), and
    the quantile is Student's t for the units in the bucket. With few units, or rare hits or misses,
    a symmetric interval would be far too short (`studies/inference`). Both ends are widened to the
    Clopper-Pearson bound for n identical documents. With clusters, n counts documents too, because
    the documents of a cluster miss separately; for 12 identical clusters, a bound for 12 units
    would be 26 % below each mean.
    """
    limit, holding = table.score_limit, table.holding
    means = np.minimum(profile.means, limit)
    smooth = table.smoothed(means)
    unit_variance = smooth * (limit - smooth)
    # r = t^2 / n_effective, for scores as shares of the limit
    r = (
        _student(holding, level) ** 2
        * np.diag(profile.covariance)
        / np.where(unit_variance > 0, unit_variance, 1.0)
    )
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
    """Return the 95 % interval of a mean over queries, computed like a bucket's interval.

    Arrays (n_queries,). ``units`` are the independent units, by default documents (see `units_of`);
    NaN with fewer than two units.
    """
    every = np.arange(len(scores))
    table = document_table(scores, documents, every, 0 * every, n_buckets=1, units=units)
    low, high = _score_intervals(table, raw_profile(table), 0.95)
    return float(low[0]), float(high[0])


def noise_of_independent_queries(table: DocumentTable) -> FloatArray:
    """Return plain PSIs, (DRAWS,), of queries shuffled over positions.

    The bucket means then have a common mean and the covariance of sampling without replacement,
    ``s^2 (n_jk / (n_j n_k) - 1 / n)``; overlaps n_jk between buckets (queries at an edge) are
    ignored. The result shows the noise of PSI with this number of queries and buckets. It is not a
    test: it treats the queries of a document as independent, and all documents as equal.
    """
    sizes = table.bucket_sizes
    n = sizes.sum()
    covariance = table.variance * n / max(n - 1, 1) * (np.diag(1 / sizes) - 1 / n)
    return psi_of_columns(table.mean + draw_errors(covariance))
