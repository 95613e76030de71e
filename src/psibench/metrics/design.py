"""The smallest position effect that a planned benchmark can show."""

from __future__ import annotations

from functools import cache

import numpy as np

from psibench.metrics.constants import (
    CONTROL_SHARE,
    CORRELATION,
    FEWEST_DOCUMENTS,
    LEAST_INFORMATION,
    MEAN,
    PENALTY,
    SIGNIFICANCE_LEVEL,
    SLOPE_SD,
    VARIANCE_RATIO,
)
from psibench.metrics.inference import DocumentTable, FloatArray, document_table, information

POWER = 0.8


def smallest_psi(
    table: DocumentTable,
    *,
    mean: float = MEAN,
    correlation: float = CORRELATION,
    control_mean: float | None = None,
    slope_sd: float = SLOPE_SD,
) -> float | None:
    """Return the PSI that is found in 8 of 10 cases if the loss grows evenly over the buckets.

    "Found" means that the headline test rejects. With a ``control_mean`` it means the verdict
    *sensitive to position*: `compare_profiles` with a flat position-blind control also rejects.

    Each test compares ``T^2 / 2`` of slope and bend with F(2, G - 2) for G units. Its slope has the
    noncentrality ``delta^2 / v``, with delta the loss of the last bucket, and
    ``v = s^2 (1 - rho) / S + (slope_sd mean)^2 sum W^2 / S^2``, with s^2 the variance of a score, W
    the covariance of the positions ``c_k = k / (K - 1)`` within a unit, and S their sum. On the hit
    scale, delta and v use each system's scores divided by its mean; on the miss scale, divided by
    1 - mean. v of the difference is the sum, because the systems' errors are independent. The power
    is the share of fixed quasi-random points in which all three tests reject.

    Parameters
    ----------
    table : DocumentTable
        The queries; the scores are not used.
    mean, correlation
        Mean score, in (0, 1), and correlation of two scores of one document.
    control_mean
        Mean score of the control, in (0, 1); None for only the headline test.
    slope_sd
        Standard deviation of clusters' slopes, as a share of the mean score. Not used if documents
        are the units.

    Returns
    -------
    float or None
        In (0, 1). None with fewer than two buckets, with too little variation of positions within
        documents, with fewer than `FEWEST_DOCUMENTS` documents that have several buckets, or if no
        PSI that this mean allows has the power.
    """
    from scipy.optimize import brentq
    from scipy.special import gammaincinv, ndtr
    from scipy.stats import f

    sizes = table.bucket_sizes
    if len(sizes) < 2 or n_in_several(table) < FEWEST_DOCUMENTS:
        return None
    if information(table).slope_bend < LEAST_INFORMATION:
        return None
    place = np.arange(len(sizes)) / (len(sizes) - 1)
    shares = sizes / sizes.sum()
    middle = float(shares @ place)
    spread = table.by_unit(_spread(table, place)[:, None])[:, 0]
    spread = spread[spread > 0]
    rest = len(spread) - 2
    if rest < 1:
        return None
    total = spread.sum()
    unlike = 0.0 if table.units is None else slope_sd**2 * float(spread @ spread) / total**2
    points = _normal_points()
    model, control = points[:2], points[2:4]
    scale = np.sqrt(2 * gammaincinv(rest / 2, ndtr(points[4])) / rest)
    critical = np.sqrt(2 * f.isf(SIGNIFICANCE_LEVEL / PENALTY, 2, rest)) * scale

    def error_variance(profile: FloatArray) -> float:
        level = float(shares @ profile)
        noise = VARIANCE_RATIO * (1 - correlation) * float(shares @ (profile * (1 - profile)))
        return noise / total + unlike * level**2

    def found_share(psi: float) -> float:
        best = mean / (1 - psi * middle)
        own = np.sqrt(error_variance(best * (1 - psi * place)))
        loss = np.array([[psi * best], [0.0]])
        rejects = np.hypot(*(loss / own + model)) > critical
        if control_mean is not None:
            other = np.sqrt(error_variance(np.full(len(place), control_mean)))
            for a, b in ((mean, control_mean), (1 - mean, 1 - control_mean)):
                difference = (loss + own * model) / a - other * control / b
                rejects &= np.hypot(*difference) > critical * np.hypot(own / a, other / b)
        return float(rejects.mean())

    most = min(1.0, (1 - mean) / middle) - 1e-6  # at the best position everything is found
    if found_share(most) < POWER:
        return None
    return float(brentq(lambda psi: found_share(psi) - POWER, 0.0, most, xtol=1e-5))


def _spread(table: DocumentTable, place: FloatArray) -> FloatArray:
    """Return each document's sum of squared deviations of its queries' positions."""
    squares: FloatArray = table.counts @ place**2
    return squares - (table.counts @ place) ** 2 / table.document_sizes


@cache
def _normal_points() -> FloatArray:
    """Return (5, 4096) points of the standard normal distribution; always the same."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(5, rng=np.random.default_rng(20251122)).random_base2(12)
    points: FloatArray = ndtri(uniform).T
    return points


def n_in_several(table: DocumentTable) -> int:
    """Return the number of documents with queries in two or more buckets."""
    return int(((table.counts > 0).sum(axis=1) >= 2).sum())


def evenly_spread(
    n_queries: int, n_documents: int, *, n_candidates: int = 0, n_held: int = 3
) -> DocumentTable:
    """Return a table of queries dealt evenly to documents, and to the thirds of a document.

    A document has queries in ``n_held`` thirds. If there are more ``n_candidates`` than queries,
    the queries are a random sample of the candidates. Scores are 1.
    """
    number = np.arange(n_queries)
    if n_candidates > n_queries:
        number = np.random.default_rng(0).choice(n_candidates, n_queries, replace=False)
    document, turn = number % max(1, n_documents), number // max(1, n_documents)
    bucket = (document + turn % n_held) % 3
    index = np.arange(n_queries)
    return document_table(np.ones(n_queries), document, index, bucket, n_buckets=3)


def smallest_psi_text(table: DocumentTable, *, spread: str = "") -> str:
    """Return a line on the smallest PSI over thirds that these queries can show.

    ``spread`` is a remark on their assumed spread over documents and thirds.
    """
    held = f"thirds: {table.counts.sum():,.0f} queries of {len(table.counts):,} documents{spread}"
    held += "" if table.units is None else f" in {table.n_units:,} clusters"
    if (several := n_in_several(table)) < FEWEST_DOCUMENTS:
        return (
            f"{held}; too few to test within documents: {several:,} have queries in several "
            f"thirds, {FEWEST_DOCUMENTS} are needed"
        )
    control = CONTROL_SHARE * MEAN
    psi = smallest_psi(table, control_mean=control)
    found = "not even the largest PSI" if psi is None else f"a PSI of {psi:.2f}"
    less = "" if psi is None else ", for a smaller PSI less often"
    clusters = "" if table.units is None else f", clusters' slopes vary by {SLOPE_SD:g} of the mean"
    return (
        f"{held}; for {found} the verdict is “sensitive to position” in about 8 of 10 cases{less} "
        f"(assumptions: one model of mean {MEAN:g} that falls evenly, a flat position-blind "
        f"control of mean {control:g}, scores of one document correlate at {CORRELATION:g}"
        f"{clusters})"
    )
