"""What the report shows of verification, read from a run's tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.build.position_shift import position_shift
from psibench.errors import InputError
from psibench.report.verification import VerificationFacts
from psibench.stages.tables import read_all
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.schemas import ATTRITION, QUERIES
from psibench.tables.spec import TableSpec
from psibench.tables.study_schemas import MIXTURE_CELLS
from psibench.tables.verify_report_schemas import (
    AUDIT_TABLE,
    CELL_TABLE,
    MARGIN_TABLE,
    SCORING_SAVINGS,
)
from psibench.tables.verify_schemas import JUDGEMENTS

LABELS = ("benchmark", "lang", "domain")
TABLES: Mapping[str, TableSpec] = {
    "flow": FLOW,
    "margin_table": MARGIN_TABLE,
    "cell_table": CELL_TABLE,
    "audit_table": AUDIT_TABLE,
    "judgements": JUDGEMENTS,
    "mixture_cells": MIXTURE_CELLS,
}
KEYS = (*LABELS, *TABLES, "dropped", "queries", "savings")


def read_verification(files: Sequence[Mapping[str, Any]]) -> list[VerificationFacts]:
    """Read what verification left of the candidates, domain by domain.

    Parameters
    ----------
    files
        Plain data, one mapping per domain of a generated benchmark. ``benchmark``, ``lang`` and
        ``domain`` name it. The other keys are optional, a path each: ``flow`` and ``dropped`` (the
        ledger of all steps), ``queries`` (of the benchmark itself, not of a view),
        ``margin_table``, ``cell_table``, ``audit_table``, ``judgements``, ``mixture_cells``; and
        ``savings``, a list of paths in order of the steps. None and an empty list are as good as
        no key. Positions by stage need ``flow``, ``dropped`` and ``queries``.

    Raises
    ------
    InputError
        If a label is missing, a key is unknown, a table cannot be read, or ledger and queries do
        not add up.
    """
    return [_read(one) for one in files]


def _read(files: Mapping[str, Any]) -> VerificationFacts:
    missing = [name for name in LABELS if not files.get(name)]
    unknown = [name for name in files if name not in KEYS]
    if missing or unknown:
        raise InputError(
            f"files of verification: missing keys: {', '.join(missing) or 'none'}; unknown keys: "
            f"{', '.join(unknown) or 'none'}; found: {', '.join(files) or 'none'}; allowed: "
            f"{', '.join(KEYS)}"
        )
    tables = {name: _table(files.get(name), spec) for name, spec in TABLES.items()}
    savings = list(files.get("savings") or ())
    return VerificationFacts(
        benchmark=files["benchmark"],
        language=files["lang"],
        domain=files["domain"],
        savings=read_all(savings, SCORING_SAVINGS) if savings else None,
        shift=_shift(tables["flow"], files.get("dropped"), files.get("queries")),
        **tables,
    )


def _table(path: str | Path | None, spec: TableSpec) -> pl.DataFrame | None:
    return read_table(path, spec) if path else None


def _shift(
    flow: pl.DataFrame | None, dropped: str | Path | None, queries: str | Path | None
) -> pl.DataFrame | None:
    if flow is None or not dropped or not queries:
        return None
    return position_shift(flow, read_table(dropped, ATTRITION), read_table(queries, QUERIES))
