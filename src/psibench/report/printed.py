"""A published table as the page shows it: the digits of the file."""

import csv
from itertools import takewhile
from pathlib import Path

from psibench.report.plain import Table
from psibench.report.published import read_published
from psibench.report.published_wording import AS_PRINTED, PIVOTS
from psibench.tables.spec import INT64, STRING, TableSpec

Rows = list[tuple[str, ...]]
THOUSANDS = 1_000


def printed_table(spec: TableSpec, folder: Path) -> Table:
    """Return a table of ``config/published`` as text, wide where the file is long.

    Raises
    ------
    InputError
        If the file is no such table (see `read_published`).
    """
    source = read_published(spec, folder).source.split(":")[0]
    rows = _texts(spec, folder)
    title, note = AS_PRINTED[spec.name]
    name = f"{source}: {title}"
    if spec.name in PIVOTS:
        keys, group = PIVOTS[spec.name]
        return _wide(spec, rows, keys=keys, group=group, name=name, note=note)
    n_names = len(list(takewhile(lambda column: column.type == STRING, spec.columns)))
    header = tuple(map(_heading, spec.column_names))
    return Table(name, header, tuple(rows), n_names=max(1, n_names), note=note)


def _heading(column: str) -> str:
    special = {"ndcg_at_10": "nDCG@10", "psi": "PSI", "mae": "MAE"}
    return special.get(column, column.replace("_x1000", " × 1000").replace("_", " "))


def _texts(spec: TableSpec, folder: Path) -> Rows:
    """Read the fields as they stand, with commas in large counts and without the source."""
    with (folder / f"{spec.name}.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.reader(file) if line][1:]
    return [
        tuple(
            f"{int(text):,}" if column.type == INT64 and len(text) >= len(str(THOUSANDS)) else text
            for column, text in zip(spec.columns, line, strict=False)
        )
        for line in lines
    ]


def _wide(
    spec: TableSpec, rows: Rows, *, keys: tuple[str, ...], group: str, name: str, note: str
) -> Table:
    """Put the rows that differ in ``group`` alone side by side, as the paper does.

    One or two values make a block of columns each, as in nDCG, then PSI; more stand together
    under the group they are of.
    """
    names = spec.column_names
    values = [c for c in names if c not in (*spec.key, group)]
    at = {column: place for place, column in enumerate(names)}
    groups = list(dict.fromkeys(row[at[group]] for row in rows))
    cells = {(tuple(row[at[key]] for key in keys), row[at[group]]): row for row in rows}
    heads = list(dict.fromkeys(head for head, _ in cells))
    by_value = len(values) < 3
    if by_value:
        blocks = [(g, value) for value in values for g in groups]
        outer, width, columns = values, len(groups), [g for g, _ in blocks]
    else:
        blocks = [(g, value) for g in groups for value in values]
        outer, width, columns = groups, len(values), [value for _, value in blocks]
    table_rows = tuple(
        (*head, *(cells[head, g][at[value]] for g, value in blocks)) for head in heads
    )
    headings = (("", len(keys)), *((_heading(text), width) for text in outer))
    header = tuple(map(_heading, (*keys, *columns)))
    return Table(name, header, table_rows, n_names=len(keys), groups=headings, note=note)
