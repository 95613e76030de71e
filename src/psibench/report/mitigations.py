"""Models that are meant to be less position-sensitive, beside what they start from."""

from collections.abc import Sequence

import polars as pl

from psibench.report.tables import Table
from psibench.report.views import BenchmarkInfo, Row
from psibench.report.wording import MISSING, change, number, pair_text, percent, with_interval

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
        pairs = mine.select("query_lang", "corpus_lang").n_unique() > 1
        schemes = mine["buckets"].n_unique() > 1
        names = ("model", "instead of", *["languages"] * pairs, *["buckets"] * schemes)
        rows = tuple(
            _cells(row, pairs=pairs, schemes=schemes) for row in mine.iter_rows(named=True)
        )
        verdict = len(names)
        groups = (("", verdict + 1), *GROUPS)
        header = (*names, "what it shows", *HEADER, "pairs")
        title = f"{info.id}: before and after"
        found.append((info, Table(title, header, rows, 2, groups, NOTE, prose=(verdict,))))
    return found


def _cells(row: Row, *, pairs: bool, schemes: bool) -> tuple[str, ...]:
    names = [row["model"], row["base"]]
    names += [pair_text(row["query_lang"], row["corpus_lang"])] * pairs + [row["buckets"]] * schemes
    return (
        *names,
        row["verdict"] + (f" ({row['flags']})" if row["flags"] else ""),
        with_interval(row, "psi_same_before"),
        with_interval(row, "psi_same_after"),
        with_interval(row, "psi_same_difference", shown=change),
        _both(number(row["mean_before"]), number(row["mean_after"])),
        with_interval(row, "mean_difference", shown=change),
        _both(percent(row["given_before"]), percent(row["given_after"])),
        _cost(row, "vectors", decimals=1),
        _cost(row, "tokens"),
        _cost(row, "pairs"),
    )


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before}\n→ {after}"


def _cost(row: Row, name: str, *, decimals: int = 0) -> str:
    ends = [row[f"{name}_{when}"] for when in ("before", "after")]
    return _both(*(MISSING if one is None else f"{one:,.{decimals}f}" for one in ends))
