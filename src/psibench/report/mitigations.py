"""Models that are meant to be less position-sensitive, beside what they start from."""

from collections.abc import Callable, Sequence
from functools import partial

import polars as pl

from psibench.report.tables import Cell, Table, text_rows
from psibench.report.views import PAIR, BenchmarkInfo, Row
from psibench.report.wording import MISSING, change, number, percent, with_interval

NOTE = (
    "PSI at equal documents, noise taken out; where it is not to be told, the published PSI with "
    "its interval is in mitigations.csv. Given: queries whose evidence the model read. Cost per "
    "document: vectors that are kept and tokens that are encoded; pairs: what a reranker scores "
    "per query. Intervals are each one's own, not adjusted for the number of mitigations. In "
    "brackets: flags of the two models' rows of the PSI table."
)
HEADER = ("before", "after", "difference", "mean", "difference", "given", "vectors", "tokens")
GROUPS = (("PSI at equal documents", 3), ("mean", 2), ("", 1), ("cost", 3))


def mitigation_tables(
    table: pl.DataFrame | None, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> list[tuple[BenchmarkInfo, Table]]:
    """Return each benchmark's mitigations by the headline metric; nothing where there are none.

    ``table`` are MITIGATIONS rows. Languages and bucket schemes are named where there are several.
    """
    found = []
    for info in benchmarks if table is not None else ():
        mine = table.filter(benchmark=info.id, metric=metric)  # type: ignore[union-attr]
        if mine.is_empty():
            continue
        rows = mine.with_columns(PAIR)
        named = {"languages": "pair", "buckets": "buckets"}
        shown = {name: of for name, of in named.items() if rows[of].n_unique() > 1}
        changed = partial(with_interval, shown=change)
        cells = text_rows(
            rows,
            *("model", "base", *shown.values()),
            lambda row: row["verdict"] + (f" ({row['flags']})" if row["flags"] else ""),
            partial(with_interval, name="psi_same_before"),
            partial(with_interval, name="psi_same_after"),
            partial(changed, name="psi_same_difference"),
            _both("mean", number),
            partial(changed, name="mean_difference"),
            _both("given", percent),
            _both("vectors", "{:,.1f}".format),
            _both("tokens", "{:,.0f}".format),
            _both("pairs", "{:,.0f}".format),
        )
        names = ("model", "instead of", *shown)
        groups = (("", len(names) + 1), *GROUPS)
        header = (*names, "what it shows", *HEADER, "pairs")
        title = f"{info.id}: before and after"
        found.append((info, Table(title, header, cells, 2, groups, NOTE, prose=(len(names),))))
    return found


def _both(name: str, form: Callable[[float], str]) -> Cell:
    """Return a cell that has a figure before and after, once where they are the same."""

    def shown(row: Row) -> str:
        ends = (row[f"{name}_before"], row[f"{name}_after"])
        before, after = (MISSING if end is None else form(end) for end in ends)
        return before if before == after else f"{before}\n→ {after}"

    return shown
