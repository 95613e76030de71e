"""Stage ``similarity``: how alike the domains of a benchmark are, by a model's embeddings."""

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

DECIMALS = 9
"""The order of a sum depends on the store's parts; beyond this many decimals so does a cosine."""


Documents = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A block of documents: their vectors one after the other, (n_vectors, dim); how many each has,
(n_documents,); the index of each one's domain, (n_documents,)."""


def domain_means(blocks: Iterable[Documents], n_domains: int) -> np.ndarray:
    """Average the documents' vectors by domain, summed up block by block: (n_domains, dim) float64.

    A document with several vectors counts by their mean, so each document weighs the same; one
    without any does not count. NaN for a domain without documents.
    """
    sums, n_documents = np.zeros((n_domains, 1)), np.zeros(n_domains, np.int64)
    for vectors, counts, domains in blocks:
        sums = sums if n_documents.any() else np.zeros((n_domains, vectors.shape[1]))
        kept = counts > 0
        counts, domains = counts[kept], domains[kept]
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


BLOCK_BYTES = 64 << 20
"""Vectors in memory, beside the part of the store that they come from."""


@stage("similarity", version=1)
def run_similarity(job: Job) -> None:
    """Average the stored vectors of every domain's documents and compare the domains.

    The store is read part by part: memory is that of the ids and of one part. A document with
    several vectors (windows, or the tokens of late interaction) counts by their mean.

    Inputs: ``encodings``; ``own``, the CORPUS tables where the encodings have documents besides.

    Raises
    ------
    InputError
        If vectors are not in the store.
    """
    domains, language, model = job.domain_names, job.value("lang"), job.value("model")
    documents = own_rows(job, "encodings", "document", own="own", spec=CORPUS)
    found = set(documents.get_column("domain"))
    if lacking := [name for name in domains if name not in found]:
        logger.warning("%s: no documents of %s: its cosines are null", language, ", ".join(lacking))
    fingerprint = fingerprint_of(job.paths("encodings"))
    stored = open_store(model, store=job.value("store"), fingerprint=fingerprint)
    means = domain_means(_blocks(stored, documents, domains), len(domains))
    rows = similarity_rows(domains, cosine_matrix(means))
    labels = {"benchmark": job.value("benchmark"), "language": language, "model": model}
    named = [pl.lit(value).alias(name) for name, value in labels.items()]
    job.write("similarity", rows.select(*named, pl.all()), DOMAIN_SIMILARITY)


def _blocks(
    stored: EmbeddingStore, documents: pl.DataFrame, domains: Sequence[str]
) -> Iterator[Documents]:
    """Yield blocks of documents; a text counts in each domain that has it."""
    members = documents["domain"].replace_strict(domains, range(len(domains))).to_numpy()
    for places, vectors in stored.blocks(documents["key"].to_list(), BLOCK_BYTES):
        yield vectors.values, vectors.counts, members[places]
