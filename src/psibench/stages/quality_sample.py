"""Stage ``quality_sample``: translated documents to be graded, drawn by domain and length."""

import logging
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.build.quality import draw_quality_sample, stratum_counts
from psibench.errors import InputError
from psibench.stages.tables import derived
from psibench.tables import write_table
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, DOCUMENTS

logger = logging.getLogger("psibench")


def run_quality_sample(
    *,
    domains: Sequence[str],
    source_corpora: Sequence[str | Path],
    corpora: Sequence[str | Path],
    per_stratum: int,
    seed: int,
    output: str | Path,
) -> None:
    """Draw documents of every domain of a language and write them with their translations.

    ``source_corpora`` and ``corpora`` (translated, cleaned) are in the order of ``domains``; no
    text but those drawn is kept in memory. A document that cleaning removed cannot be drawn.

    Raises
    ------
    InputError
        If a translated document is not in the source.
    """
    frames = [
        _draw(domain, source, translated, per_stratum=per_stratum, seed=seed)
        for domain, source, translated in zip(domains, source_corpora, corpora, strict=True)
    ]
    params = {"per_stratum": per_stratum, "seed": seed}
    origin = derived("quality_sample", [*source_corpora, *corpora], params=params)
    write_table(pl.concat(frames), output, DOCUMENTS, provenance=origin)


def _draw(
    domain: str, source: str | Path, translated: str | Path, *, per_stratum: int, seed: int
) -> pl.DataFrame:
    """Return a domain's rows: DOCUMENTS with the columns of the draw and ``translation``."""
    lengths = read_columns(source, CORPUS, ["_id", "token_length"])
    kept = read_columns(translated, CORPUS, ["_id"])
    documents = kept.join(lengths, on="_id", how="left", maintain_order="left")
    unknown = documents.filter(pl.col("token_length").is_null())
    if unknown.height:
        raise InputError(
            f"{translated}: document {unknown.item(0, '_id')!r} is not in {source} "
            f"({unknown.height} such documents); it was made from another source. Translate again."
        )
    drawn = draw_quality_sample(documents, domain=domain, per_stratum=per_stratum, seed=seed)
    counts = stratum_counts(documents, drawn)
    shown = ", ".join(f"{n} of {total} in {stratum}" for stratum, total, n in counts)
    logger.info("%s: documents drawn: %s (%d wanted of each)", domain, shown, per_stratum)
    wanted = drawn.get_column("doc_id")
    return (
        drawn.join(_texts(source, wanted, "text"), on="doc_id", maintain_order="left")
        .join(_texts(translated, wanted, "translation"), on="doc_id", maintain_order="left")
        .with_columns(origin="domain")
        .select("_id", "text", "origin", "domain", "doc_id", "length_bin", "translation")
    )


def _texts(path: str | Path, wanted: pl.Series, name: str) -> pl.DataFrame:
    """Return the texts of the documents wanted under a name of their own."""
    texts = read_columns(path, CORPUS, ["_id", "text"], ids=wanted.to_list())
    return texts.select(doc_id="_id", **{name: pl.col("text")})
