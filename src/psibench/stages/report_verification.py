"""What the report shows of verification, read from a run's tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from psibench.build.pooled_tables import (
    pool_audits,
    pool_cells,
    pool_flow,
    pool_margins,
    pool_mixtures,
    pool_savings,
)
from psibench.build.position_shift import position_shift
from psibench.config.corpora import POOLED
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
POOLING: Mapping[str, Callable[[Sequence[pl.DataFrame]], pl.DataFrame]] = {
    "flow": pool_flow,
    "margin_table": pool_margins,
    "cell_table": pool_cells,
    "audit_table": pool_audits,
    "mixture_cells": pool_mixtures,
}
"""How tables of several domains become one; others are stacked."""
KEYS = (*LABELS, *TABLES, "dropped", "queries", "savings")


def read_verification(files: Sequence[Mapping[str, Any]]) -> list[VerificationFacts]:
    """Read what verification left of the candidates, language by language.

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
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in files:
        _check_keys(one)
        groups.setdefault((one["benchmark"], one["lang"]), []).append(one)
    return [_read(group) for group in groups.values()]


def _check_keys(files: Mapping[str, Any]) -> None:
    missing = [name for name in LABELS if not files.get(name)]
    unknown = [name for name in files if name not in KEYS]
    if missing or unknown:
        raise InputError(
            f"files of verification: missing keys: {', '.join(missing) or 'none'}; unknown keys: "
            f"{', '.join(unknown) or 'none'}; found: {', '.join(files) or 'none'}; allowed: "
            f"{', '.join(KEYS)}"
        )


def _read(group: Sequence[Mapping[str, Any]]) -> VerificationFacts:
    """Read the tables of one language; those of several domains are added up."""
    first = group[0]
    tables = {name: _pooled(name, [files.get(name) for files in group]) for name in TABLES}
    savings = [path for files in group for path in files.get("savings") or ()]
    scored = [read_table(path, SCORING_SAVINGS) for path in savings]
    if len(group) > 1 and scored:
        scored = [pool_savings(scored)]
    return VerificationFacts(
        benchmark=first["benchmark"],
        language=first["lang"],
        domain=first["domain"] if len(group) == 1 else POOLED,
        savings=pl.concat(scored) if scored else None,
        shift=_shift(tables["flow"], group),
        **tables,
    )


def _pooled(name: str, paths: Sequence[str | Path | None]) -> pl.DataFrame | None:
    frames = [read_table(path, TABLES[name]) for path in paths if path]
    if len(frames) < 2:
        return frames[0] if frames else None
    return POOLING.get(name, pl.concat)(frames)


def _shift(flow: pl.DataFrame | None, group: Sequence[Mapping[str, Any]]) -> pl.DataFrame | None:
    dropped = [files["dropped"] for files in group if files.get("dropped")]
    queries = [files["queries"] for files in group if files.get("queries")]
    if flow is None or not dropped or not queries:
        return None
    columns = ["_id", "target_position", "pos_char_span", "pos_char_length"]
    asked = pl.concat([read_table(path, QUERIES).select(columns) for path in queries])
    return position_shift(flow, read_all(dropped, ATTRITION), asked)
