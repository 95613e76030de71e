"""Tests and estimates for one row of the tables, using each query's document.

A bucket of positions is also a bucket of documents: only long documents have evidence after 2,000
characters, and the queries of one document share its difficulty. So a comparison of bucket means
mixes two questions, which this module separates:

- *within documents*: does the score of a document's queries depend on the position of their
  evidence? Sums within documents remove effects shared by a document's queries, and documents
  instead of queries are independent.
- *between documents*, if each document has queries in only one bucket: do documents of similar
  length differ with the position of their evidence?

Most functions need only two arrays of shape (n_documents, n_buckets): the numbers of queries
``counts`` and their score sums ``sums``. `between_documents` takes one entry per query. The same
data give the same results: only the profile at equal documents is iterated (Newton), and sampling
errors are fixed quasi-random points. `docs/psi-method.md` has the reasoning, `studies/inference`
the size, coverage, bias and power of each result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from statistics import fmean

import numpy as np
import numpy.typing as npt

from psibench.errors import InputError
from psibench.metrics.constants import (
    CHI_SQUARE_UNITS,
    DRAWS,
    FEWEST_BUCKET_DOCUMENTS,
    FEWEST_CLUSTERS,
    FEWEST_DOCUMENTS,
    FEWEST_OF_A_KIND,
    LENGTH_STRATA,
    PSEUDO_QUERIES,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DocumentTable:
    """Queries and scores by document and bucket, without empty documents and buckets.

    Attributes
    ----------
    counts : float64 array of shape (n_documents, n_buckets)
        Number of queries, N in the formulas. A query in two buckets (at a shared edge) counts in
        both.
    sums : float64 array of shape (n_documents, n_buckets)
        Score sums, S.
    buckets : int64 array of shape (n_buckets,)
        Indices of the buckets in the scheme, ascending.
    variance : float
        Variance of the scores over all queries.
    score_limit : float
        Largest possible score of a query: 1, or the largest observed score if that is higher.
    units : int64 array of shape (n_documents,), or None
        Number, from 0, of each document's independent unit: its cluster (e.g. an article or a
        site). None: each document is a unit.
    """

    counts: FloatArray
    sums: FloatArray
    buckets: IntArray
    variance: float
    score_limit: float
    units: IntArray | None = None

    def by_unit(self, rows: FloatArray) -> FloatArray:
        """Sum rows of documents, (n_documents, n), over independent units, (n_units, n)."""
        if self.units is None:
            return rows
        return np.stack([np.bincount(self.units, weights=one) for one in rows.T], axis=1)

    @property
    def n_units(self) -> int:
        """Number of independent units: clusters, or documents."""
        return len(self.counts) if self.units is None else int(self.units.max(initial=-1)) + 1

    @property
    def fewest_units(self) -> int:
        """Least number of independent units for a test, in addition to `FEWEST_DOCUMENTS`."""
        return FEWEST_DOCUMENTS if self.units is None else FEWEST_CLUSTERS

    @cached_property
    def holding(self) -> FloatArray:
        """Number of independent units with queries in each bucket, (n_buckets,)."""
        return (self.by_unit(self.counts) > 0).sum(axis=0).astype(np.float64)

    @cached_property
    def document_sizes(self) -> FloatArray:
        """Queries per document, n_d."""
        return self.counts.sum(axis=1)

    @cached_property
    def document_totals(self) -> FloatArray:
        """Score sum per document, t_d."""
        return self.sums.sum(axis=1)

    @cached_property
    def bucket_sizes(self) -> FloatArray:
        """Queries per bucket, n_k."""
        return self.counts.sum(axis=0)

    @cached_property
    def bucket_means(self) -> FloatArray:
        """Mean score per bucket, the profile of the published PSI."""
        return self.sums.sum(axis=0) / self.bucket_sizes

    @cached_property
    def mean(self) -> float:
        """Mean score over bucket memberships."""
        return float(self.sums.sum() / self.counts.sum())

    def smoothed(self, means: FloatArray) -> FloatArray:
        """Bucket means with `PSEUDO_QUERIES` of average score added to each bucket."""
        sizes = self.bucket_sizes
        return (sizes * means + PSEUDO_QUERIES * self.mean) / (sizes + PSEUDO_QUERIES)

    def small_bucket_variance(self, sizes: FloatArray) -> FloatArray:
        """Extra variance of the means of buckets with ``sizes`` queries, (n_buckets,)."""
        return PSEUDO_QUERIES / (sizes + PSEUDO_QUERIES) * self.variance / sizes


def renumbered(numbers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Renumber values from 0 in ascending order, like `np.unique` but mostly without sorting.

    Parameters
    ----------
    numbers : int array of shape (n,)

    Returns
    -------
    held : (m,)
        The distinct numbers, ascending.
    index : (n,)
        The index in ``held`` of each entry.
    counts : (m,)
        The count of each distinct number.
    """
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() <= 4 * len(numbers) + 1000:
        held, index, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
        return held, index.ravel(), sizes
    counts = np.bincount(numbers)
    held = np.flatnonzero(counts)
    new_number = np.cumsum(counts > 0) - 1
    return held, new_number[numbers], counts[held]


def units_of(documents: IntArray, clusters: IntArray | None) -> IntArray | None:
    """Return the clusters of (n_queries,) queries if there are `FEWEST_CLUSTERS` or more.

    None if documents are the independent units, because there are few clusters or each has one
    document.
    """
    if clusters is None:
        return None
    n_clusters = len(renumbered(clusters)[0])
    is_coarser = n_clusters < len(renumbered(documents)[0])
    return clusters if is_coarser and n_clusters >= FEWEST_CLUSTERS else None


def document_table(
    scores: FloatArray,
    documents: IntArray,
    query_index: IntArray,
    bucket_index: IntArray,
    *,
    n_buckets: int,
    units: IntArray | None = None,
) -> DocumentTable:
    """Count queries and sum scores by document and bucket.

    Parameters
    ----------
    scores : float array of shape (n_queries,)
        Finite. Score differences may be negative; a PSI needs scores of 0 or more.
    documents : int array of shape (n_queries,)
        The document of each query, numbered from 0.
    query_index, bucket_index : int arrays of shape (n_memberships,)
        Query ``query_index[i]`` is in bucket ``bucket_index[i]``. A query may be in several
        buckets or in none.
    n_buckets : int
        Buckets are numbered 0 to n_buckets - 1.
    units : int array of shape (n_queries,), or None
        The independent unit of each query's document (see `units_of`).

    Raises
    ------
    InputError
        Scores that are not finite; arrays of different lengths.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or len(documents) != len(scores):
        raise InputError(
            f"scores have shape {scores.shape}, documents {len(documents)} entries; give one score "
            "and one document per query"
        )
    bad = ~np.isfinite(scores)
    if bad.any():
        first = int(bad.argmax())
        raise InputError(
            f"scores: {int(bad.sum())} of {scores.size} are not finite; the first is query {first} "
            f"with {scores[first]}. Give a query without a result the score 0"
        )
    if len(query_index) != len(bucket_index):
        raise InputError(
            f"query_index has {len(query_index)} entries, bucket_index {len(bucket_index)}; give "
            "arrays of the same length"
        )
    for name, index, size in (
        ("query_index", query_index, len(scores)),
        ("bucket_index", bucket_index, n_buckets),
    ):
        if len(index) and not 0 <= index.min() <= index.max() < size:
            raise InputError(f"{name} has {index.min()} to {index.max()}; allowed: 0 to {size - 1}")
    held, owner, _ = renumbered(documents[query_index])
    buckets, column, _ = renumbered(bucket_index)
    shape = (len(held), len(buckets))
    cell = owner * shape[1] + column
    counts: FloatArray = np.bincount(cell, minlength=shape[0] * shape[1]).astype(np.float64)
    sums = np.bincount(cell, scores[query_index], minlength=counts.size).astype(np.float64)
    document_units = None
    if units is not None:
        document_units = np.zeros(len(held), dtype=np.int64)
        document_units[owner] = renumbered(units[query_index])[1]
    return DocumentTable(
        counts.reshape(shape),
        sums.reshape(shape),
        buckets.astype(np.int64),
        float(scores.var()) if scores.size else 0.0,
        max(1.0, float(scores.max(initial=0.0))),
        document_units,
    )


# --- The test within documents --------------------------------------------------------------


@dataclass(frozen=True)
class HotellingTest:
    """The test with ``Q = b' pinv(V) b`` of units' rows (see `within_documents`).

    Attributes
    ----------
    q : float
        The statistic.
    rank : int
        Rank of V.
    n_units : int
        Units with a row other than 0, G in the formulas.
    n_able : int
        Units whose row could be other than 0, also units with equal scores. These do not count
        against the null hypothesis, but for the size of the deviations: if nearly all queries hit,
        few units have a row, and with only these the deviations would seem to have almost no
        error.
    """

    q: float
    rank: int
    n_units: int
    n_able: int

    @property
    def p(self) -> float:
        """p-value of "the rows have mean 0 and are symmetric"; 1 if all rows are 0."""
        from scipy.special import betaincc

        if not self.rank:
            return 1.0
        half, rest = self.rank / 2, (self.n_units - self.rank) / 2
        return float(betaincc(half, rest, min(self.q / self.n_units, 1.0)))

    def critical_scale(self, alpha: float) -> float:
        """Factor that makes the observed deviations just significant at alpha; below 1 if they are.

        ``B / (1 - B)`` with ``B = Q / n`` grows with their square (Hotelling's T^2 is n - 1 times
        it).
        """
        return float(np.sqrt(self._critical(alpha, self.rank) / self._found)) if self.rank else 1.0

    def least_share(self, size: float, *, alpha: float) -> float:
        """Least share of the observed deviations that is not chance; 0 if all may be chance.

        T are the deviations in standard errors. Returns the larger of two limits. If the deviations
        are small, they cannot be too small by chance, so the whole error probability is for
        deviations that are too large: the limit is the true T whose quantile at ``1 - size`` is the
        observed T, at most sqrt(t) (Feldman and Cousins, Physical Review D 57, 1998). The other
        limit has half of the error probability: ``sqrt(T^2 - c + t) - sqrt(t)``, with c the
        critical value of T^2 at ``size``, and t the critical value of one direction at alpha. Both
        are 0 if the test just rejects.
        """
        from scipy.optimize import brentq
        from scipy.special import ncfdtr

        if not self.rank or self._found <= (critical := self._critical(size, self.rank)):
            return 0.0
        rest, one_direction = self.n_able - self.rank, self._critical(alpha, 1)
        left = np.sqrt(self._found - critical + one_direction) - np.sqrt(one_direction)
        found, most = self._found * rest / self.rank, one_direction * rest

        def beyond(true: float) -> float:
            return float(ncfdtr(self.rank, rest, true, found)) - (1 - size)

        true = 0.0  # also if the value exceeds the critical value only by rounding
        if beyond(most) >= 0:
            true = most
        elif beyond(0.0) > 0:
            true = brentq(beyond, 0.0, most)
        return float(max(left, np.sqrt(true / rest)) / np.sqrt(self._found))

    @property
    def _found(self) -> float:
        return self._odds(self.q)

    def _critical(self, alpha: float, rank: int) -> float:
        """Return the critical value of ``B / (1 - B)`` for ``rank`` directions, see ``p``."""
        from scipy.special import betainccinv

        share = float(betainccinv(rank / 2, (self.n_units - rank) / 2, alpha))
        return self._odds(share * self.n_units)

    def _odds(self, q: float) -> float:
        share = min(max(q / self.n_able, 1e-12), 1 - 1e-15)
        return share / (1 - share)


@dataclass(frozen=True)
class BucketTest:
    """p-values of "the score does not depend on the bucket"; None with too few data.

    Attributes
    ----------
    n_documents : int
        Informative documents.
    statistic : float array of shape (n_buckets,)
        Score sum of each bucket minus its expectation under the null hypothesis.
    p : float or None
        The headline, against a slope, a bend, or one unusual bucket (``p_shape`` and ``p_bucket``
        combined).
    p_shape : float or None
        Against a slope or a bend (2 degrees of freedom).
    p_bucket : float or None
        Against one unusual bucket: the smallest p of all buckets, adjusted (`least_of`).
    p_trend : float or None
        Against a slope; two-sided.
    slope_bend_test, buckets : HotellingTest, and tests by index of each tested bucket
        The tests of ``p_shape`` and ``p_bucket``.
    """

    n_documents: int
    statistic: FloatArray
    p: float | None = None
    p_shape: float | None = None
    p_bucket: float | None = None
    p_trend: float | None = None
    slope_bend_test: HotellingTest | None = None
    buckets: Mapping[int, HotellingTest] = field(default_factory=dict)


def slope_and_bend(n_buckets: int) -> FloatArray:
    """Slope and bend over the buckets, (n, 2): x and x^2 - mean(x^2) of the centred index x."""
    x = np.arange(n_buckets) - (n_buckets - 1) / 2
    return np.column_stack([x, x**2 - (x**2).mean()])


def least_of(p_values: Sequence[float]) -> float | None:
    """p-value of the smallest of several p-values, ``1 - (1 - min p)^n``; None without p-values.

    Valid for two-sided tests of normal deviates with any dependence (Sidak, Journal of the American
    Statistical Association 62, 1967). It is near 1 only if all p-values are large.
    """
    if not p_values:
        return None
    return float(-np.expm1(len(p_values) * np.log1p(-min(*p_values, 1 - 1e-16))))


def level_of_each(alpha: float, n: int) -> float:
    """Level of each of n tests at which `least_of` of their p-values rejects at alpha."""
    return float(-np.expm1(np.log1p(-alpha) / max(n, 1)))


def combined_p(*p_values: float | None) -> float | None:
    """Combine dependent p-values of one hypothesis; ignores None.

    Returns their harmonic mean (Wilson, PNAS 116, 2019, without his correction, which is small for
    two p-values). It lies between the smallest p-value and that times their number, and increases
    with every p-value. 0 if one is 0 or not a normal number.
    """
    known = [p for p in p_values if p is not None]
    if len(known) < 2 or min(known) == 0:
        return min(known, default=None)
    return 1 / fmean(1 / p for p in known)


def within_documents(table: DocumentTable, *, of_differences: bool = False) -> BucketTest:
    """Test whether the score depends on position within documents.

    Let ``U_d = S_d - N_d t_d / n_d`` be a document's sums minus their values if its ``n_d``
    queries, with score sum ``t_d``, scored alike; ``b = sum U_d`` and ``V = sum U_d U_d'``. The
    statistic is ``Q = b' pinv(V) b`` of rank r over G documents with ``U_d != 0``. If the U_d are
    symmetric about 0, ``Q / G ~ Beta(r / 2, (G - r) / 2)`` to close approximation: this is
    Hotelling's T^2 of the U_d against 0, with uncentred V. Effects that a document's
    queries share do not change U_d, and V contains their correlation. If clusters of documents are
    the independent units, U_d is first summed over each cluster. The tests use U_d along slope and
    bend (r is 2 or less), along the slope, and in each bucket, but never all of U_d. Sums of score
    differences (``of_differences``) have no hits and misses to count (`FEWEST_OF_A_KIND`).

    Returns
    -------
    BucketTest
        No p-value with fewer than two buckets, or if the documents with ``U_d != 0`` are fewer than
        `FEWEST_DOCUMENTS`, or (if clusters are units) in fewer than `FEWEST_CLUSTERS` clusters.
    """
    means = table.document_totals / table.document_sizes
    rows = table.sums - table.counts * means[:, None]
    is_able = (table.counts > 0) & (table.counts < table.document_sizes[:, None])
    return _test_rows(rows, is_able, table, of_differences=of_differences)


def equal_means(table: DocumentTable) -> BucketTest:
    """Test "all bucket means are equal" with documents as units; not a test of position.

    Errors are clustered by document. If buckets have different documents, the means and the error
    contain the documents' difficulty. The interval of the plain PSI uses this test. Buckets with
    fewer than `FEWEST_BUCKET_DOCUMENTS` documents are left out if two others remain, because a few
    queries that all hit seem to have no error.
    """
    known = (table.counts > 0).sum(axis=0) >= FEWEST_BUCKET_DOCUMENTS
    counts, sums = table.counts, table.sums
    if known.sum() >= 2 and not known.all():
        counts, sums = counts * known, sums * known
    rest = sums - counts * (sums.sum() / counts.sum())
    share = counts.sum(axis=0) / counts.sum()
    rows = rest - rest.sum(axis=1, keepdims=True) * share
    return _test_rows(rows, np.ones(rows.shape, dtype=np.bool_), table)


def _test_rows(
    rows: FloatArray, is_able: BoolArray, table: DocumentTable, *, of_differences: bool = False
) -> BucketTest:
    """Test whether rows (n_documents, n_buckets) have mean 0, along slope and bend and per bucket.

    ``is_able`` marks the entries that can be other than 0.
    """
    least = 1e-12 * np.abs(table.sums).max(initial=0.0)
    rows = _zero_rounding_errors(rows, least)
    n_documents = int(rows.any(axis=1).sum())
    if rows.shape[1] < 2 or n_documents < FEWEST_DOCUMENTS:
        return BucketTest(n_documents, rows.sum(axis=0))
    may_test = np.ones(rows.shape[1], dtype=np.bool_)
    if not of_differences:
        mean = table.mean / table.score_limit
        may_test = table.bucket_sizes * min(mean, 1 - mean) >= FEWEST_OF_A_KIND
    rows = _zero_rounding_errors(table.by_unit(rows), least)
    is_able = table.by_unit(is_able.astype(np.float64)) > 0
    return _test_units(rows, is_able, n_documents, table.fewest_units, may_test=may_test)


def _zero_rounding_errors(rows: FloatArray, least: float) -> FloatArray:
    return np.where(np.abs(rows) <= least, 0.0, rows)


def _test_units(
    rows: FloatArray, is_able: BoolArray, n_documents: int, fewest: int, *, may_test: BoolArray
) -> BucketTest:
    """Test rows of independent units, (n_units, n_buckets), without rows of 0.

    A bucket in ``may_test`` has a separate test if it has `FEWEST_BUCKET_DOCUMENTS`.
    """
    n_able, able_of = int(is_able.any(axis=1).sum()), is_able.sum(axis=0).tolist()
    rows = rows[rows.any(axis=1)]
    statistic: FloatArray = rows.sum(axis=0)
    if len(rows) < fewest:
        return BucketTest(n_documents, statistic)
    directions = slope_and_bend(rows.shape[1])
    both = _hotelling_test(rows @ directions, n_able)
    buckets = {}
    if rows.shape[1] > 2:
        squares = rows**2
        spread = squares.sum(axis=0)
        fourth = np.einsum("dk,dk->k", squares, squares)
        is_tested = may_test & (spread**2 >= FEWEST_BUCKET_DOCUMENTS * np.maximum(fourth, 1e-300))
        held = np.count_nonzero(rows, axis=0)
        for k in np.flatnonzero(is_tested).tolist():
            q = float(statistic[k] ** 2 / spread[k])
            buckets[k] = HotellingTest(q, 1, int(held[k]), able_of[k])
    trend = _hotelling_test(rows @ directions[:, :1], n_able)
    return _all_tests(n_documents, statistic, both, trend, buckets)


def _all_tests(
    n_documents: int,
    statistic: FloatArray,
    both: HotellingTest,
    trend: HotellingTest | None,
    buckets: Mapping[int, HotellingTest],
) -> BucketTest:
    p_shape, p_bucket = both.p, least_of([one.p for one in buckets.values()])
    return BucketTest(
        n_documents,
        statistic,
        p=combined_p(p_shape, p_bucket),
        p_shape=p_shape,
        p_bucket=p_bucket,
        p_trend=None if trend is None else trend.p,
        slope_bend_test=both,
        buckets=buckets,
    )


def _hotelling_test(rows: FloatArray, n_able: int) -> HotellingTest:
    """Test "rows (n, m) of ``n_able`` units have mean 0"; the rank may be below m."""
    total = rows.sum(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows)
    kept = values > 1e-10 * values.max()
    q = float((((vectors.T @ total)[kept]) ** 2 / values[kept]).sum())
    return HotellingTest(q, int(kept.sum()), len(rows), n_able)


@dataclass(frozen=True)
class Information:
    """Share of the comparison between buckets that lies within documents, in [0, 1].

    1 if every document's queries are distributed like all queries, 0 if the comparison is only
    between documents.

    Attributes
    ----------
    least : float
        For the least known contrast between buckets; ``psi_same`` needs it.
    slope_bend : float
        For the least known direction of slope and bend; the headline test needs it.
    """

    least: float
    slope_bend: float


def information(table: DocumentTable) -> Information:
    """Return the share of the comparison between buckets that lies within documents.

    This is the smallest generalised eigenvalue of ``diag(n_k) - sum N_d N_d' / n_d`` against
    ``diag(n_k) - n_k n_k' / n``, over all contrasts and over slope and bend. Both are 0 with fewer
    than two buckets.
    """
    from scipy.linalg import eigh

    sizes = table.bucket_sizes
    if len(sizes) < 2:
        return Information(0.0, 0.0)
    within = np.diag(sizes) - (table.counts / table.document_sizes[:, None]).T @ table.counts
    overall = np.diag(sizes) - np.outer(sizes, sizes) / sizes.sum()

    def least(basis: FloatArray) -> float:
        values = eigh(basis.T @ within @ basis, basis.T @ overall @ basis, eigvals_only=True)
        return float(min(max(values[0], 0.0), 1.0))

    every = np.linalg.svd(np.ones((1, len(sizes))))[2][1:].T  # orthogonal to a constant
    return Information(least(every), least(slope_and_bend(len(sizes))[:, : len(sizes) - 1]))


# --- Profiles and their errors ---------------------------------------------------------------


@dataclass(frozen=True)
class Profile:
    """Mean score by bucket with the covariance of its sampling errors.

    Attributes
    ----------
    means : float64 array of shape (n_buckets,)
    influence : float64 array of shape (n_documents, n_buckets)
        Contribution of each document to the error of the means, to first order.
    covariance : float64 array of shape (n_buckets, n_buckets)
        Covariance of the means, with documents (or clusters) as independent units.
    n_documents : int
        Number of documents in the comparison of buckets.
    """

    means: FloatArray
    influence: FloatArray
    covariance: FloatArray
    n_documents: int


def raw_profile(table: DocumentTable) -> Profile:
    """Plain bucket means, for the published PSI, with documents (or clusters) as units.

    A document's influence on the mean of bucket k is ``(S_dk - N_dk m_k) / n_k``.
    """
    means = table.bucket_means
    influence = (table.sums - table.counts * means) / table.bucket_sizes
    floor = table.small_bucket_variance(table.bucket_sizes)
    n_documents = len(influence)
    covariance = _covariance(table.by_unit(influence), n_documents, floor)
    return Profile(means, influence, covariance, n_documents)


def same_document_profile(table: DocumentTable) -> Profile | None:
    """Bucket means at equal documents: estimates as if every document had queries in every bucket.

    The model: a document multiplies the scores of its queries by an unknown factor. Given a
    document's score sum ``t_d``, its expected sums over buckets are the shares
    ``p_dk = N_dk r_k / sum_j N_dj r_j`` of ``t_d``, and the profile r solves
    ``sum_d (S_d - t_d p_d) = 0``. These are the score equations of a Poisson model with one effect
    per document; as a quasi-likelihood they only need the means to be right (McCullagh and Nelder,
    Generalized Linear Models, 1989, 9.2). The profile is scaled to the overall mean:
    ``m_k = ybar r_k / sum_j pi_j r_j``, with pi_k the share of queries in bucket k.

    With ``H = sum_d t_d (diag p_d - p_d p_d')``, ``L_d = pinv(H) (S_d - t_d p_d)`` and
    ``w_k = pi_k r_k / sum_j pi_j r_j``, the influence of a document is
    ``m_k (L_dk - sum_j w_j L_dj + (t_d - ybar n_d) / (n ybar))``.

    Returns
    -------
    Profile or None
        None if documents do not connect all buckets, so that some two buckets cannot be compared
        within documents. A bucket with only scores of 0 in informative documents has mean 0.
    """
    totals = table.document_totals
    if totals.sum() <= 0 or len(table.buckets) < 2:
        return None
    several = ((table.counts > 0).sum(axis=1) >= 2) & (totals > 0)
    counts, sums, informative = table.counts[several], table.sums[several], totals[several]
    found = sums.sum(axis=0) > 0
    if not found.any() or not _tied_together(counts, sums, found):
        return None
    profile = np.zeros(len(found))
    profile[found] = _solve_profile(counts[:, found], sums[:, found].sum(axis=0), informative)
    shares = counts * profile
    shares /= shares.sum(axis=1, keepdims=True)
    expected = informative[:, None] * shares
    curvature = np.diag(expected.sum(axis=0)) - shares.T @ expected
    pull = (sums - expected) @ pinv(curvature)
    pi = table.bucket_sizes / table.counts.sum()
    weights = pi * profile / (pi @ profile)
    ybar = table.mean
    means = ybar * profile / (pi @ profile)
    overall = (totals - ybar * table.document_sizes) / (table.counts.sum() * ybar)
    influence = np.zeros(table.counts.shape)
    influence[several] = pull - (pull @ weights)[:, None]
    influence += overall[:, None]
    influence *= means
    floor = table.small_bucket_variance(counts.sum(axis=0))
    n_documents = len(counts)
    covariance = _covariance(table.by_unit(influence), n_documents, floor)
    return Profile(means, influence, covariance, n_documents)


def _tied_together(counts: FloatArray, sums: FloatArray, found: BoolArray) -> bool:
    """Return whether the profile is determined: a graph of the buckets is strongly connected.

    The graph has an edge from j to k if a document has queries in j and scores above 0 in k. The
    equations have one finite solution if paths connect all buckets with scores above 0 in both
    directions (Hunter, Annals of Statistics 32, 2004, for a similar model). A bucket without such
    scores must share a document with another bucket.
    """
    from scipy.sparse.csgraph import connected_components

    arrows = (counts > 0).T.astype(np.float32) @ (sums > 0).astype(np.float32)
    if not arrows[~found].any(axis=1).all():
        return False
    n_parts, _ = connected_components(arrows[np.ix_(found, found)] > 0, connection="strong")
    return bool(n_parts == 1)


def _solve_profile(counts: FloatArray, sums: FloatArray, totals: FloatArray) -> FloatArray:
    """Solve the score equations by Newton's method; return the profile, with mean log 0."""
    logs: FloatArray = np.log(sums / counts.sum(axis=0))
    for _ in range(100):
        parts = counts * np.exp(logs - logs.mean())
        parts /= parts.sum(axis=1, keepdims=True)
        expected = totals[:, None] * parts
        gradient = sums - expected.sum(axis=0)
        if np.abs(gradient).max() <= 1e-10 * sums.sum():
            break
        curvature = np.diag(expected.sum(axis=0)) - parts.T @ expected
        step = pinv(curvature) @ gradient
        logs = logs + step / max(1.0, np.abs(step).max())  # at most a factor of e at a time
    profile: FloatArray = np.exp(logs - logs.mean())
    return profile


def pinv(matrix: FloatArray) -> FloatArray:
    """Return the pseudo-inverse of a symmetric matrix; relative rounding errors count as 0."""
    return np.linalg.pinv(matrix, rcond=1e-12, hermitian=True).astype(np.float64)


def _covariance(influence: FloatArray, n_documents: int, floor: FloatArray) -> FloatArray:
    n_units = min(len(influence), n_documents)
    scale = n_units / (n_units - 1) if n_units > 1 else 1.0
    covariance: FloatArray = scale * (influence.T @ influence)
    return covariance + np.diag(floor)


@cache
def _normal_points(n: int) -> FloatArray:
    """Return fixed points of the standard normal distribution in n dimensions, (n, DRAWS)."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(n, rng=np.random.default_rng(20251122)).random(DRAWS)
    points: FloatArray = ndtri(uniform).T
    return points - points.mean(axis=1, keepdims=True)


def draw_errors(covariance: FloatArray) -> FloatArray:
    """Return sampling errors with a covariance, (n_buckets, DRAWS), from fixed quasi-random points.

    Uses the unique symmetric root, so the same data give the same errors.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(root @ _normal_points(len(covariance)))


# --- The test between documents --------------------------------------------------------------


def between_documents(
    scores: FloatArray,
    documents: IntArray,
    buckets: IntArray,
    lengths: FloatArray,
    positions: FloatArray,
    *,
    units: IntArray | None = None,
) -> BucketTest:
    """Test whether documents of similar length differ with the position of their evidence.

    Documents of one length stratum (`LENGTH_STRATA`) with equally many queries are treated as
    exchangeable: each could have the positions of another. An exchange sorts a document's queries
    by position and replaces its whole sequence of buckets. Under all exchanges the score sum of
    each bucket has a known mean and covariance; the statistic is their Mahalanobis distance, and p
    comes from its chi-square limit (Hoeffding's combinatorial limit theorem, Annals of Mathematical
    Statistics 22, 1951), so there is no shuffling and no smallest p. If clusters of documents are
    the independent units, the test uses the sums of each cluster, as in `within_documents`.

    Parameters
    ----------
    scores, documents, buckets : arrays of shape (n_memberships,)
        Score, document and bucket of each query.
    lengths, positions : float arrays of shape (n_memberships,)
        Length of the query's document, and the sort key of a document's queries.
    units : int array of shape (n_memberships,), or None
        The independent unit of each query's document (see `units_of`).

    Returns
    -------
    BucketTest
        No p-value if fewer than `FEWEST_DOCUMENTS` documents can be exchanged, if these are in
        fewer than `FEWEST_CLUSTERS` clusters, or if a length is unknown (NaN). A bucket has a
        separate test if at least `FEWEST_DOCUMENTS` documents have a query in it.
    """
    used, column, _ = renumbered(buckets)
    n_buckets = len(used)
    total, covariance = np.zeros(n_buckets), np.zeros((n_buckets, n_buckets))
    n_documents, holding = 0, np.zeros(n_buckets)
    parts = np.zeros((0 if units is None else int(units.max(initial=-1)) + 1, n_buckets))
    is_able = np.zeros(parts.shape, dtype=np.bool_)
    if np.isnan(lengths).any():
        return BucketTest(0, total)
    for rows in _exchangeable(documents, lengths, positions):  # (n_documents, n_queries) each
        z = scores[rows] - scores[rows].mean(axis=0)
        labels = np.eye(n_buckets)[column[rows]]  # (documents, queries, buckets)
        holding += labels.any(axis=1).sum(axis=0)
        labels -= labels.mean(axis=0)
        document_sums = np.einsum("dq,dqk->dk", z, labels)
        total += document_sums.sum(axis=0)
        if units is not None:
            np.add.at(parts, units[rows[:, 0]], document_sums)
            is_able[units[rows[:, 0]]] = True
        together = np.einsum("dik,djl->ijkl", labels, labels, optimize=True)
        covariance += np.einsum("ij,ijkl->kl", z.T @ z, together) / (len(rows) - 1)
        n_documents += len(rows)
    if n_buckets < 2 or n_documents < FEWEST_DOCUMENTS:
        return BucketTest(n_documents, total)
    may_test = holding >= FEWEST_DOCUMENTS
    if units is not None:
        parts = _zero_rounding_errors(parts, 1e-12 * float(np.abs(scores).sum()))
        return _test_units(parts, is_able, n_documents, FEWEST_CLUSTERS, may_test=may_test)
    directions = slope_and_bend(n_buckets)
    both = _exchange_test(directions, total, covariance)
    if both is None:  # all scores are equal
        return BucketTest(0, total)
    each = np.eye(n_buckets)
    tested = np.flatnonzero(may_test & (n_buckets > 2)).tolist()
    found = {k: _exchange_test(each[:, [k]], total, covariance) for k in tested}
    trend = _exchange_test(directions[:, :1], total, covariance)
    return _all_tests(
        n_documents, total, both, trend, {k: one for k, one in found.items() if one is not None}
    )


def _exchange_test(
    directions: FloatArray, total: FloatArray, covariance: FloatArray
) -> HotellingTest | None:
    """Test sums along directions with a known covariance; None if the covariance is 0."""
    values, vectors = np.linalg.eigh(directions.T @ covariance @ directions)
    kept = values > 1e-10 * max(values.max(), 1e-300)
    if not kept.any():
        return None
    along = vectors.T @ (directions.T @ total)
    q = float((along[kept] ** 2 / values[kept]).sum())
    return HotellingTest(q, int(kept.sum()), CHI_SQUARE_UNITS, CHI_SQUARE_UNITS)


def _exchangeable(
    documents: IntArray, lengths: FloatArray, positions: FloatArray
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield rows of exchangeable documents: arrays (n_documents, n_queries) into the queries."""
    if not len(documents):
        return
    order = np.lexsort((positions, documents))
    _, first, sizes = np.unique(documents[order], return_index=True, return_counts=True)
    own_length = lengths[order][first]
    edges = np.quantile(own_length, np.linspace(0, 1, LENGTH_STRATA + 1)[1:-1])
    stratum = np.searchsorted(edges, own_length, side="left")
    for size in np.unique(sizes):
        for number in range(LENGTH_STRATA):
            starts = first[(sizes == size) & (stratum == number)]
            if len(starts) >= 2:
                yield order[starts[:, None] + np.arange(size)]


# --- Descriptive values ----------------------------------------------------------------------


def effective_documents(table: DocumentTable) -> float:
    """Kish's effective number of documents, ``(sum n_d)^2 / sum n_d^2``."""
    sizes = table.document_sizes
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def intra_document_correlation(
    scores: FloatArray, documents: IntArray, buckets: IntArray
) -> float | None:
    """Correlation of two scores of one document beyond their buckets; None if undefined.

    The analysis-of-variance estimate ``(B - W) / (B + (n0 - 1) W)``, at least 0, from the mean
    squares between (B) and within (W) documents of the scores minus their bucket's mean (Donner,
    International Statistical Review 54, 1986).
    """
    sums = np.bincount(buckets, weights=scores)
    rest = scores - (sums / np.maximum(np.bincount(buckets), 1))[buckets]
    _, owner, sizes = renumbered(documents)
    n, n_documents = len(rest), len(sizes)
    if n_documents < 2 or n <= n_documents:
        return None
    means = np.bincount(owner, weights=rest) / sizes
    between = float(sizes @ (means - rest.mean()) ** 2) / (n_documents - 1)
    within = float(((rest - means[owner]) ** 2).sum()) / (n - n_documents)
    size = (n - (sizes**2).sum() / n) / (n_documents - 1)
    bottom = between + (size - 1) * within
    return max(0.0, (between - within) / bottom) if bottom > 0 else None


def length_imbalance(lengths: FloatArray, buckets: IntArray) -> float | None:
    """Share of the variance of document length that the bucket explains (eta squared).

    None if all lengths are equal or one is unknown (NaN).
    """
    total = float(((lengths - lengths.mean()) ** 2).sum()) if len(lengths) else 0.0
    if not total > 0:
        return None
    sizes = np.bincount(buckets)
    held = sizes > 0
    means = np.bincount(buckets, weights=lengths)[held] / sizes[held]
    return float(sizes[held] @ (means - lengths.mean()) ** 2) / total


def confounding(table: DocumentTable, raw: Profile) -> float | None:
    """p-value of "the plain profile equals the profile at equal documents".

    If both profiles are equal, the score equations of `same_document_profile` hold at the plain
    means m. A document contributes ``S_d - t_d p_d(m)`` minus the effect of its influence on m,
    ``H (I_d / m)``; the test compares the sum with 0 as in `within_documents`. Unlike a Wald test
    of the difference, it keeps its size for buckets with few documents, and needs no profile at
    equal documents. None with too few documents, if both profiles are equal by design, or if there
    are not more units than ranks (few clusters, many buckets).
    """
    found = raw.means > 0
    shares = table.counts * raw.means
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    expected = table.document_totals[:, None] * shares
    curvature = np.diag(expected.sum(axis=0)) - shares.T @ expected
    rows = table.sums - expected
    rows -= (raw.influence[:, found] / raw.means[found]) @ curvature[found]
    informs = np.abs(rows).max(axis=1, initial=0.0) > 1e-9 * np.abs(table.sums).max(initial=0.0)
    if int(informs.sum()) < FEWEST_DOCUMENTS:
        return None
    rows = table.by_unit(np.where(informs[:, None], rows, 0.0))
    rows = rows[rows.any(axis=1)]
    test = _hotelling_test(rows, len(rows))
    return test.p if len(rows) >= max(table.fewest_units, test.rank + 1) else None
