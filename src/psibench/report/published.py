"""Figures of the papers, to stand beside a run's own: CSV files of ``config/published``.

Every row names its paper and table in the column ``source``. Shares are the papers' percentages
divided by 100, with the digits the papers give.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.paths import PUBLISHED
from psibench.errors import InputError
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec
from psibench.text.segments import POSITIONS

SOURCE = "source"
SHARE_TEXT = "share in [0, 1]"
_WHOLE = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _counts(*, nullable: bool) -> tuple[Column, ...]:
    return tuple(Column(f"n_{name}", INT64, f"of them, {name}", nullable) for name in POSITIONS)


def _shares(names: Sequence[str], *, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, FLOAT64, SHARE_TEXT, nullable) for name in names)


TABLE_6 = TableSpec(
    "controlled_table6",
    (
        Column("condition", STRING, "as in MARGIN_TABLE"),
        Column("threshold", FLOAT64, "margin threshold", True),
        Column("n", INT64, "candidates that meet the condition"),
        *_shares(["share"]),
        *_counts(nullable=True),
        *_shares([f"share_{name}" for name in POSITIONS], nullable=True),
    ),
    key=("condition",),
)
TABLE_7 = TableSpec(
    "controlled_table7",
    (
        Column("stratum", STRING, "as in AUDIT_TABLE"),
        Column("low", FLOAT64, "lowest margin of the stratum", True),
        Column("high", FLOAT64, "margin the stratum stays below", True),
        *_shares(["target_yes", "distractor_no", "exclusive"]),
    ),
    key=("stratum",),
)
TABLE_8 = TableSpec(
    "controlled_table8",
    (
        Column("threshold", FLOAT64, "margin threshold of the pool"),
        Column("unit", STRING, "what length counts, as in the config's sample"),
        Column("length_bin", STRING, "length bin, or all"),
        *_counts(nullable=False),
        Column("budget", INT64, "examples drawn per bin, and in all"),
    ),
    key=("length_bin",),
)
FINEWEB_COUNTS = TableSpec(
    "fineweb_posq_counts",
    (
        Column("stage", STRING, "stage as in FLOW, or rule of the pairs"),
        Column("unit", STRING, "what is counted"),
        Column("n", INT64, "left after the stage; of pairs, those found positive"),
        *_counts(nullable=True),
    ),
    key=("stage", "unit"),
)
PUBLISHED_SPECS = (TABLE_6, TABLE_7, TABLE_8, FINEWEB_COUNTS)


@dataclass(frozen=True)
class Published:
    """A published table: its rows in the columns of its spec, and the papers' tables named."""

    rows: pl.DataFrame
    source: str


@cache
def read_published(spec: TableSpec, folder: Path = PUBLISHED) -> Published:
    """Read a table of published figures.

    Raises
    ------
    InputError
        If the file is missing or not UTF-8, its header is another, a field is no number of its
        column's kind, a share lies outside [0, 1], a key is repeated, no source is named, or the
        counts by position do not add up to ``n``. The message names file and line.
    """
    path = folder / f"{spec.name}.csv"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the published figures cannot be read ({error}); take the file of the "
            "repository again"
        ) from error
    reader = csv.reader(io.StringIO(text, newline=""))
    expected = [*spec.column_names, SOURCE]
    found = next(reader, [])
    if found != expected:
        raise InputError(
            f"{path}, line 1: columns are {','.join(found) or 'missing'}; expected: "
            f"{','.join(expected)}"
        )
    rows, sources = _rows(reader, spec, path)
    frame = pl.DataFrame(rows, schema=pl.DataFrame(spec.schema.empty_table()).schema, orient="row")
    return Published(frame, "; ".join(dict.fromkeys(sources)))


def _rows(reader: Any, spec: TableSpec, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows and their sources; a blank line is none."""
    rows: list[dict[str, Any]] = []
    sources: list[str] = []
    keys: set[tuple[Any, ...]] = set()
    for cells in reader:
        if not cells:
            continue
        where = f"{path}, line {reader.line_num}"
        if len(cells) != len(spec.columns) + 1:
            raise InputError(
                f"{where}: {len(cells)} fields; expected {len(spec.columns) + 1}. Quote a field "
                "that holds a comma."
            )
        *given, source = cells
        pairs = zip(spec.columns, given, strict=True)
        row = {column.name: _value(column, text, where) for column, text in pairs}
        key = tuple(row[name] for name in spec.key)
        if key in keys:
            named = ", ".join(f"{name}={row[name]!r}" for name in spec.key)
            raise InputError(f"{where}: a second row with {named}; each may occur once")
        if not source.strip():
            raise InputError(f"{where}: no source; name the paper and the table")
        _check_sum(row, where)
        keys.add(key)
        rows.append(row)
        sources.append(source.strip())
    return rows, sources


def _value(column: Column, text: str, where: str) -> str | int | float | None:
    """Turn a field into its column's kind; an empty one is null where that is allowed."""
    if text == "" and column.nullable:
        return None
    if column.type == STRING and text:
        return text
    if column.type == INT64 and _WHOLE.fullmatch(text):
        return int(text)
    if column.type == FLOAT64 and _DECIMAL.fullmatch(text):
        number = float(text)
        if column.text != SHARE_TEXT or 0 <= number <= 1:
            return number
    kinds = {STRING: "text", INT64: "a whole number from 0 up", FLOAT64: "a number"}
    wanted = SHARE_TEXT if column.text == SHARE_TEXT else kinds[column.type]
    empty = ", or nothing" if column.nullable else ""
    raise InputError(f"{where}: column '{column.name}' is {text!r}; expected {wanted}{empty}")


def _check_sum(row: Mapping[str, Any], where: str) -> None:
    parts = [row.get(f"n_{name}") for name in POSITIONS]
    known = [part for part in parts if part is not None]
    if "n" in row and len(known) == len(parts) and sum(known) != row["n"]:
        raise InputError(
            f"{where}: n is {row['n']}, but the counts by position add up to {sum(known)}"
        )
