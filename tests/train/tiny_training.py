"""Config of a base that learns quickly, and of a training of few steps."""

from pathlib import Path
from typing import Any

import jobs
import polars as pl

from psibench.tables import Provenance, TableSpec, write_table
from psibench.tables.domains import by_place
from psibench.train.finetune import run_train_model

SETTINGS = {"epochs": 3, "batch_size": 8, "mini_batch_size": 4}


def base_of(folder: Path | str, **fields: Any) -> dict[str, Any]:
    base = {"checkpoint": str(folder), "max_tokens": 48, "pooling": "mean", "parameters_m": 0.1}
    return base | {"learning_rate": 1e-3} | fields


def write_rows(path: Path, spec: TableSpec, rows: list[tuple[Any, ...]]) -> str:
    frame = pl.DataFrame(rows, schema=spec.empty().schema, orient="row")
    write_table(frame, path, spec, provenance=Provenance("test", 1))
    return str(path)


def write_domains(path: Path, spec: TableSpec, rows: dict[str, list[tuple[Any, ...]]]) -> str:
    """Write the rows of each domain to one table."""
    labelled = [("eng-Latn", domain, *row) for domain, of in rows.items() for row in of]
    return write_rows(path, by_place(spec), labelled)


def train(
    pool: dict[str, Any],
    tmp_path: Path,
    base: dict[str, Any],
    *,
    name: str = "model",
    distribution: str = "uniform",
    seed: int = 1,
    **settings: Any,
) -> Path:
    """Train a base on the pool's examples and return its folder."""
    jobs.run(
        run_train_model,
        {name: pool[name] for name in ("pairs", "queries", "corpus")},
        {"model": tmp_path / name / "model.json"},
        entry=base,
        settings=SETTINGS | settings,
        distribution=distribution,
        seed=seed,
        sampling_seed=42,
        device="cpu",
        work=str(tmp_path / "work"),
    )
    return tmp_path / name
