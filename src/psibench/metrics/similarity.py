"""Stage ``similarity``: cosines between the domains of a benchmark, from a model's embeddings."""

import logging
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from psibench.encode.rows import own_rows
from psibench.encode.store import EmbeddingStore, fingerprint_of, open_store
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, DOMAIN_SIMILARITY
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

COSINE_DECIMALS = 9
"""Decimals of a cosine that do not depend on the order of sums, i.e. on the store's parts."""


DocumentBlock = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Vectors of a block of documents, (n_vectors, dim); the number of vectors of each document,
(n_documents,); and the index of its domain, (n_documents,)."""


def domain_means(blocks: Iterable[DocumentBlock], n_domains: int) -> np.ndarray:
    """Return the mean document vector of each domain, (n_domains, dim) float64.

    A document with several vectors counts with their mean; a document without vectors does not
    count. NaN for a domain without documents.
    """
    sums, n_documents = np.zeros((n_domains, 1)), np.zeros(n_domains, np.int64)
    for vectors, counts, domains in blocks:
        sums = sums if n_documents.any() else np.zeros((n_domains, vectors.shape[1]))
        has_vectors = counts > 0
        counts, domains = counts[has_vectors], domains[has_vectors]
        owners = np.repeat(domains, counts)
        weights = np.repeat(1.0 / counts, counts)
        for domain in np.unique(domains):
            mine = owners == domain
            sums[domain] += weights[mine] @ vectors[mine].astype(np.float64)
        n_documents += np.bincount(domains, minlength=n_domains)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = sums / n_documents[:, None]
    return means


def cosine_matrix(means: np.ndarray) -> np.ndarray:
    """Return the cosines between vectors, (n, n); NaN for a zero vector."""
    norms = np.linalg.norm(means, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        units = means / norms[:, None]
    cosines: np.ndarray = np.round(np.clip(units @ units.T, -1.0, 1.0), COSINE_DECIMALS)
    return cosines


def similarity_rows(domains: Sequence[str], cosines: np.ndarray) -> pl.DataFrame:
    """Return a row per ordered pair of domains, also of equal ones; null if undefined."""
    n = len(domains)
    return pl.DataFrame(
        {
            "domain_a": [name for name in domains for _ in range(n)],
            "domain_b": list(domains) * n,
            "cosine": cosines.reshape(-1),
        },
        schema={"domain_a": pl.String, "domain_b": pl.String, "cosine": pl.Float64},
    ).with_columns(pl.col("cosine").fill_nan(None))


MEANS_BLOCK_BYTES = 64 << 20
"""Vectors in memory, in addition to a part of the store."""


@stage("similarity", version=1)
def run_similarity(job: Job) -> None:
    """Write the cosines between the mean document vectors of all domains.

    Reads the store part by part, so memory has the ids and one part. A document with several
    vectors (windows, or tokens of late interaction) counts with their mean.

    Inputs: ``encodings``; ``own``, the CORPUS tables if the encodings have other documents too.

    Raises
    ------
    InputError
        If the store lacks vectors.
    """
    domains, language, model = job.domain_names, job.value("lang"), job.value("model")
    documents = own_rows(job, "encodings", "document", own="own", spec=CORPUS)
    found = set(documents.get_column("domain"))
    if lacking := [name for name in domains if name not in found]:
        logger.warning("%s: no documents in %s; the cosines are null", language, ", ".join(lacking))
    fingerprint = fingerprint_of(job.paths("encodings"))
    stored = open_store(model, store=job.value("store"), fingerprint=fingerprint)
    means = domain_means(_blocks(stored, documents, domains), len(domains))
    rows = similarity_rows(domains, cosine_matrix(means))
    labels = {"benchmark": job.value("benchmark"), "language": language, "model": model}
    named = [pl.lit(value).alias(name) for name, value in labels.items()]
    job.write("similarity", rows.select(*named, pl.all()), DOMAIN_SIMILARITY)


def _blocks(
    stored: EmbeddingStore, documents: pl.DataFrame, domains: Sequence[str]
) -> Iterator[DocumentBlock]:
    """Yield blocks of documents; a text counts in every domain with it."""
    members = documents["domain"].replace_strict(domains, range(len(domains))).to_numpy()
    for indices, vectors in stored.blocks(documents["key"].to_list(), MEANS_BLOCK_BYTES):
        yield vectors.values, vectors.counts, members[indices]
