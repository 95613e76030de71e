"""Stage ``collect``: the result tables of all benchmarks and models, as Parquet and CSV."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.stages.tables import derived, read_all
from psibench.tables import read_any_table, write_csv, write_table
from psibench.tables.schemas import TableSpec


def run_collect(
    paths: Sequence[str | Path],
    spec: TableSpec,
    *,
    parquet: str | Path,
    csv: str | Path | None = None,
) -> None:
    """Stack tables of one kind in the order given and write them, with a CSV beside if asked."""
    frame = read_all(paths, spec)
    source = derived("collect", paths, params={"table": spec.name})
    write_table(frame, parquet, spec, provenance=source)
    if csv is not None:
        write_csv(frame, csv)


def run_csv(path: str | Path, output: str | Path) -> None:
    """Write any table as CSV; lists as JSON, bytes as hexadecimal digits.

    Raises
    ------
    InputError
        If the file is not Parquet.
    """
    frame = read_any_table(path)
    plain = []
    for name, kind in frame.schema.items():
        if kind.is_nested():
            texts = [
                None if row is None else json.dumps(_plain(row), ensure_ascii=False)
                for row in frame[name]
            ]
            plain.append(pl.Series(name, texts, dtype=pl.String))
        elif kind == pl.Binary:
            plain.append(frame[name].bin.encode("hex").alias(name))
    write_csv(frame.with_columns(plain), output)


def _plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, pl.Series) else value
