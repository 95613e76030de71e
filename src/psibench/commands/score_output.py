"""Write what `psibench score` has computed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.tables import Provenance, write_csv, write_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, QUERY_SCORES


@dataclass(frozen=True)
class ScoreTables:
    """Per-query scores by model, and the two result tables over all models."""

    per_query: dict[str, pl.DataFrame]
    buckets: pl.DataFrame
    psi: pl.DataFrame


def write_score_tables(tables: ScoreTables, out: Path, provenance: Provenance) -> None:
    """Write psi_table and bucket_scores (.parquet, .csv) and the per-query scores.

    The per-query scores of a single model are in query_scores.parquet; with several models each
    has its own query_scores-MODEL.parquet. Each file is written whole or not at all.
    """
    names = query_score_files(list(tables.per_query))
    for model, frame in tables.per_query.items():
        named = frame.select(pl.lit(model).alias("model"), pl.all())
        write_table(named, out / names[model], QUERY_SCORES, provenance=provenance)
    for frame, spec in ((tables.buckets, BUCKET_SCORES), (tables.psi, PSI_TABLE)):
        write_table(frame, out / f"{spec.name}.parquet", spec, provenance=provenance)
        write_csv(frame, out / f"{spec.name}.csv")


def query_score_files(models: Sequence[str]) -> dict[str, str]:
    """Return the file name of every model's per-query scores; a clash gets a number."""
    if len(models) == 1:
        return {models[0]: "query_scores.parquet"}
    names: dict[str, str] = {}
    for model in models:
        slug = re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-.") or "model"
        name, count = f"query_scores-{slug}.parquet", 1
        while name in names.values():
            count += 1
            name = f"query_scores-{slug}-{count}.parquet"
        names[model] = name
    return names
