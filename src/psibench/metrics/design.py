"""How small a position effect a benchmark can find, before anything is spent on it."""

from __future__ import annotations

from functools import partial

import numpy as np

from psibench.metrics.inference import (
    FEWEST_DOCUMENTS,
    LEAST_INFORMATION,
    DocumentTable,
    document_table,
    information,
)

MEAN = 0.6
"""Mean score that is assumed where no run is known."""
CORRELATION = 0.2
"""Of two scores of one document, assumed likewise."""
VARIANCE_RATIO = 0.85
"""Variance of nDCG@10 with one positive as a share of that of hits and misses (`studies/inference`
draws such scores)."""
ALPHA, POWER = 0.05, 0.8
PENALTY = 1.5
"""The power of the headline test at alpha is that of slope and bend alone at alpha / 1.5."""


def smallest_psi(
    table: DocumentTable,
    *,
    mean: float = MEAN,
    correlation: float = CORRELATION,
) -> float | None:
    """PSI that the headline test finds in 8 of 10 cases, the loss growing evenly over the buckets.

    The noncentrality of slope and bend, ``delta^2 info sum n_k (c_k - c)^2 / (s^2 (1 - rho))`` with
    ``c_k = k / (K - 1)`` and delta the loss of the last bucket, is set to what a chi-square of two
    degrees of freedom needs; where G clusters, all of one profile, are the units, F(2, G - 2).
    `studies/inference` has how often it is found then.

    Parameters
    ----------
    table : DocumentTable
        Of the queries; its scores are not read.
    mean, correlation
        Mean score, in (0, 1), and correlation of two scores of one document.

    Returns
    -------
    float or None
        In (0, 1); None with fewer than two buckets, where positions differ hardly within
        documents or in fewer than `FEWEST_DOCUMENTS`, or where no PSI below 1 is found that often.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, f, ncf, ncx2

    sizes, info = table.bucket_sizes, information(table).slope_bend
    if len(sizes) < 2 or info < LEAST_INFORMATION or n_in_several(table) < FEWEST_DOCUMENTS:
        return None
    if table.units is None:
        critical, found = chi2.isf(ALPHA / PENALTY, 2), partial(ncx2.sf, df=2)
    else:
        rest = table.n_units - 2
        critical, found = f.isf(ALPHA / PENALTY, 2, rest), partial(ncf.sf, dfn=2, dfd=rest)
    needed = brentq(lambda value: found(critical, nc=value) - POWER, 1e-6, 1e3)
    place = np.arange(len(sizes)) / (len(sizes) - 1)
    middle = float(sizes @ place / sizes.sum())
    spread = info * float(sizes @ (place - middle) ** 2)
    loss = np.sqrt(needed * VARIANCE_RATIO * mean * (1 - mean) * (1 - correlation) / spread)
    psi = float(loss / (mean + loss * middle))
    return psi if psi < 1 else None


def n_in_several(table: DocumentTable) -> int:
    """Count the documents that have queries in two buckets or more."""
    return int(((table.counts > 0).sum(axis=1) >= 2).sum())


def evenly_spread(
    n_queries: int, n_documents: int, *, n_candidates: int = 0, n_held: int = 3
) -> DocumentTable:
    """Deal queries out to documents in turn, and those of a document to its thirds in turn.

    A document holds ``n_held`` of the thirds. Where there are more ``n_candidates`` than queries,
    these are a random subsample of them. Scores are 1.
    """
    number = np.arange(n_queries)
    if n_candidates > n_queries:
        number = np.random.default_rng(0).choice(n_candidates, n_queries, replace=False)
    document, turn = number % max(1, n_documents), number // max(1, n_documents)
    bucket = (document + turn % n_held) % 3
    index = np.arange(n_queries)
    return document_table(np.ones(n_queries), document, index, bucket, n_buckets=3)


def smallest_psi_text(table: DocumentTable, *, spread: str = "") -> str:
    """Say of queries over thirds which PSI is found in them, most times.

    ``spread`` says how they are spread over documents and thirds, if that is not known.
    """
    held = f"thirds: {table.counts.sum():,.0f} queries of {len(table.counts):,} documents{spread}"
    held += "" if table.units is None else f" in {table.n_units:,} clusters"
    if (several := n_in_several(table)) < FEWEST_DOCUMENTS:
        return (
            f"{held}; too few to test within documents: {several:,} are asked about in several "
            f"thirds, {FEWEST_DOCUMENTS} are needed"
        )
    if (psi := smallest_psi(table)) is None:
        return f"{held}; not even a PSI near 1 is found in about 8 of 10 cases"
    return (
        f"{held}; a PSI of {psi:.2f} is found in about 8 of 10 cases (mean {MEAN:g}, scores that "
        "fall evenly), a smaller one less often"
    )
