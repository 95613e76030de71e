"""Stage ``collect``: the result tables of all benchmarks and models, as Parquet and CSV."""

from collections.abc import Sequence
from pathlib import Path

from psibench.stages.tables import derived, read_all
from psibench.tables import write_csv, write_table
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
