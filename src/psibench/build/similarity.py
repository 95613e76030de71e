"""How alike domains are: the cosine of the means of their documents' vectors (PosIR, Figure 6)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

DECIMALS = 9
"""The order of a sum depends on the store's parts; beyond this many decimals so does a cosine."""


class DomainMeans:
    """Means of the documents' vectors by domain, summed up block by block in float64."""

    def __init__(self, n_domains: int) -> None:
        self._sums: np.ndarray | None = None
        self._counts = np.zeros(n_domains, np.int64)

    def add(self, vectors: np.ndarray, counts: np.ndarray, domains: np.ndarray) -> None:
        """Add documents.

        Parameters
        ----------
        vectors
            (n_vectors, dim), the documents' vectors one after the other.
        counts
            (n_documents,) vectors per document. One with several counts by their mean, so each
            document weighs the same; one without any does not count.
        domains
            (n_documents,) index of each document's domain.
        """
        if self._sums is None:
            self._sums = np.zeros((len(self._counts), vectors.shape[1]))
        kept = counts > 0
        counts, domains = counts[kept], domains[kept]
        owners = np.repeat(domains, counts)
        weights = np.repeat(1.0 / counts, counts)
        for domain in np.unique(domains):
            mine = owners == domain
            self._sums[domain] += weights[mine] @ vectors[mine].astype(np.float64)
        self._counts += np.bincount(domains, minlength=len(self._counts))

    @property
    def means(self) -> np.ndarray:
        """(n_domains, dim) float64; NaN for a domain without documents."""
        sums = np.zeros((len(self._counts), 1)) if self._sums is None else self._sums
        with np.errstate(invalid="ignore"):
            means: np.ndarray = sums / self._counts[:, None]
        return means


def cosine_matrix(means: np.ndarray) -> np.ndarray:
    """Return the cosines of vectors with each other, (n, n); NaN with a vector of no length."""
    norms = np.linalg.norm(means, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = means / norms[:, None]
    cosines: np.ndarray = np.round(np.clip(units @ units.T, -1.0, 1.0), DECIMALS)
    return cosines


def similarity_rows(domains: Sequence[str], cosines: np.ndarray) -> pl.DataFrame:
    """Return a row per ordered pair of domains, its own included: null where undefined."""
    n = len(domains)
    return pl.DataFrame(
        {
            "domain_a": [name for name in domains for _ in range(n)],
            "domain_b": list(domains) * n,
            "cosine": cosines.reshape(-1),
        },
        schema={"domain_a": pl.String, "domain_b": pl.String, "cosine": pl.Float64},
    ).with_columns(pl.col("cosine").fill_nan(None))
