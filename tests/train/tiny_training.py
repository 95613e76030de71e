"""Config of a base that learns quickly, and of a training of few steps."""

from pathlib import Path
from typing import Any

import polars as pl

from psibench.tables import Provenance, TableSpec, write_table
from psibench.train.finetune import run_train_model
from psibench.train.sections import Base, Settings

SETTINGS = {"epochs": 3, "batch_size": 8, "mini_batch_size": 4}


def base_of(folder: Path | str, **fields: Any) -> dict[str, Any]:
    base = {"checkpoint": str(folder), "max_tokens": 48, "pooling": "mean", "parameters_m": 0.1}
    return base | {"learning_rate": 1e-3} | fields


def write_rows(path: Path, spec: TableSpec, rows: list[tuple[Any, ...]]) -> str:
    frame = pl.DataFrame(rows, schema=spec.empty().schema, orient="row")
    write_table(frame, path, spec, provenance=Provenance("test", 1))
    return str(path)


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
    """Train a base of the pool's examples, and return its folder."""
    run_train_model(
        Base.model_validate(base),
        Settings.model_validate(SETTINGS | settings),
        distribution=distribution,
        seed=seed,
        sampling_seed=42,
        device="cpu",
        **pool,
        work=str(tmp_path / "work"),
        model=str(tmp_path / name / "model.json"),
    )
    return tmp_path / name
