"""Position shift from tables: where evidence lies before and after filters.

A part of stage ``filter_study``.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.build.position_shift import compare_positions
from psibench.build.verification import evidence_targets
from psibench.stages.tables import derived
from psibench.tables import read_table, write_table
from psibench.tables.spec import STRING, Column, TableSpec
from psibench.tables.study_schemas import POSITION_SHIFT

_POSITIONED = TableSpec(
    "positioned",
    (
        Column("_id", STRING, "query id"),
        Column("target_position", STRING, "beginning, middle or end", True),
    ),
    key=("_id",),
    open=True,
)
"""What CANDIDATES and QUERIES have in common here."""


def run_position_shift(
    *, stages: Sequence[tuple[str, str | Path, str | Path]], output: str | Path
) -> None:
    """Compare the target positions before and after filters, by their tables.

    Where the ledger of a whole benchmark is at hand, `psibench.build.position_shift` does the same
    for all its filters from that.

    Parameters
    ----------
    stages
        (name, table that entered, table kept), CANDIDATES or QUERIES each.

    Raises
    ------
    InputError
        If a query was kept that had not entered.
    """
    tables = [(name, _targets(entered), _targets(kept)) for name, entered, kept in stages]
    paths = list(dict.fromkeys(path for _, *both in stages for path in both))
    params = {"stages": [name for name, *_ in stages]}
    source = derived("filter_study", paths, params=params)
    write_table(compare_positions(tables), output, POSITION_SHIFT, provenance=source)


def _targets(path: str | Path) -> pl.DataFrame:
    return evidence_targets(read_table(path, _POSITIONED))
