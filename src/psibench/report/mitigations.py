"""Models that are meant to be less position-sensitive, beside what they start from."""

from collections.abc import Sequence

import polars as pl

from psibench.report.tables import Table
from psibench.report.views import BenchmarkInfo, Row, with_interval
from psibench.report.wording import MISSING, change, interval, number, pair_text, percent

NOTE = (
    "PSI at equal documents, noise taken out; where it is not to be told, the published PSI with "
    "its interval is in mitigations.csv. Given: queries whose evidence the model read. Cost per "
    "document: vectors that are kept and tokens that are encoded; pairs: what a reranker scores "
    "per query. Intervals are each one's own, not adjusted for the number of mitigations."
)
HEADER = ("before", "after", "difference") * 2 + ("before", "after", "vectors", "tokens", "pairs")
GROUPS = (("PSI at equal documents", 3), ("mean", 3), ("given", 2), ("cost, before → after", 3))


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
        pairs = mine.select("query_lang", "corpus_lang").n_unique() > 1
        schemes = mine["buckets"].n_unique() > 1
        header = ("model", "instead of", *["languages"] * pairs, *["buckets"] * schemes)
        rows = tuple(
            _cells(row, pairs=pairs, schemes=schemes) for row in mine.iter_rows(named=True)
        )
        last = len(header) + len(HEADER)
        groups = (("", len(header)), *GROUPS, ("", 1))
        header = (*header, *HEADER, "what it shows")
        title = f"{info.id}: before and after"
        found.append((info, Table(title, header, rows, 2, groups, NOTE, prose=(last,))))
    return found


def _cells(row: Row, *, pairs: bool, schemes: bool) -> tuple[str, ...]:
    names = [row["model"], row["base"]]
    names += [pair_text(row["query_lang"], row["corpus_lang"])] * pairs + [row["buckets"]] * schemes
    return (
        *names,
        with_interval(row, "psi_same_before"),
        with_interval(row, "psi_same_after"),
        _difference(row, "psi_same_difference"),
        number(row["mean_before"]),
        number(row["mean_after"]),
        _difference(row, "mean_difference"),
        percent(row["given_before"]),
        percent(row["given_after"]),
        *(_cost(row, name) for name in ("vectors", "tokens", "pairs")),
        row["verdict"],
    )


def _difference(row: Row, name: str) -> str:
    ends = interval(row[f"{name}_low"], row[f"{name}_high"])
    return f"{change(row[name])}\n{ends}" if ends else change(row[name])


def _cost(row: Row, name: str) -> str:
    ends = [row[f"{name}_{when}"] for when in ("before", "after")]
    shown = [MISSING if one is None else f"{one:,.1f}".removesuffix(".0") for one in ends]
    return " → ".join(shown)
