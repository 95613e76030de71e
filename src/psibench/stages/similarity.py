"""Stage ``similarity``: how alike the domains of a language are to a model."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from psibench.build.similarity import DomainMeans, cosine_matrix, similarity_rows
from psibench.config.model_params import retrieval_params
from psibench.config.models import EncoderModel
from psibench.encode.store import EmbeddingStore, open_store
from psibench.errors import InputError
from psibench.stages.search import fingerprint_of
from psibench.stages.tables import derived
from psibench.tables import write_table
from psibench.tables.columns import read_columns
from psibench.tables.quality_schemas import DOMAIN_SIMILARITY
from psibench.tables.schemas import ENCODINGS

BLOCK_BYTES = 64 << 20
"""Vectors in memory, beside the part of the store that they come from."""


def run_similarity(
    entry: EncoderModel,
    *,
    benchmark: str,
    language: str,
    model: str,
    domains: Sequence[str],
    encodings: str | Path,
    store: str | Path,
    output: str | Path,
) -> None:
    """Average the stored vectors of every domain's documents and compare the domains.

    The store is read part by part: memory is that of the ids and of one part. A document with
    several vectors (windows, or the tokens of late interaction) counts by their mean.

    Raises
    ------
    InputError
        If a domain has no documents in ``encodings``, or vectors are not in the store.
    """
    columns = ("role", "domain", "key")
    frame = read_columns(encodings, ENCODINGS, columns).filter(pl.col("role") == "document")
    _refuse_unknown(domains, frame, encodings)
    fingerprint = fingerprint_of(encodings)
    stored = open_store(model, store=store, fingerprint=fingerprint)
    means = DomainMeans(len(domains))
    for vectors, counts, members in _documents(stored, frame, domains):
        means.add(vectors, counts, members)
    rows = similarity_rows(domains, cosine_matrix(means.means))
    labels = {"benchmark": benchmark, "language": language, "model": model}
    named = [pl.lit(value).alias(name) for name, value in labels.items()]
    params = {**retrieval_params(entry), "domains": list(domains)}
    origin = derived("similarity", [encodings], params=params)
    write_table(rows.select(*named, pl.all()), output, DOMAIN_SIMILARITY, provenance=origin)


def _documents(
    stored: EmbeddingStore, frame: pl.DataFrame, domains: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield vectors, vectors per document and domains of documents; a text counts where it is."""
    inside = frame.filter(pl.col("domain").is_in(domains))
    members = inside["domain"].replace_strict(domains, range(len(domains))).to_numpy()
    for places, vectors in stored.blocks(inside["key"].to_list(), BLOCK_BYTES):
        yield vectors.values, vectors.counts, members[places]


def _refuse_unknown(domains: Sequence[str], frame: pl.DataFrame, encodings: str | Path) -> None:
    found = set(frame.get_column("domain"))
    lacking = [name for name in domains if name not in found]
    if lacking:
        raise InputError(
            f"{encodings}: no documents of the domain {', '.join(lacking)}; it has "
            f"{', '.join(sorted(found)) or 'none'}. Encode the language again."
        )
