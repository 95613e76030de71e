"""The figures of probes as text for a terminal."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from psibench.commands.text_table import UNDEFINED, aligned, ends
from psibench.probes.comparison import contrasts
from psibench.probes.settings import PROBES
from psibench.report.wording import p_value
from psibench.tables.spec import POOLED

FIRST_PLACES = 3
MOST_COLUMNS = 20


def probe_lines(table: pl.DataFrame, *, every_domain: bool = False) -> Iterator[str]:
    """Yield the lines of PROBE_TABLE rows: about all domains, or about each too.

    Of sentences in places the first three, without ``every_domain``.

    Means by place, then the gap with its interval and p, then the range. A row about documents
    read whole is left out where these are all; the size of a mean over all sizes is ``-``.
    """
    shown = table if every_domain else table.filter(pl.col("domain") == POOLED)
    about = ("benchmark", "language", "probe", "domain")
    for (*place, probe, domain), part in shown.group_by(about, maintain_order=True):
        where = [*place, domain] if every_domain else place
        yield f"{probe} - {PROBES[probe]} ({', '.join(where)})"
        if part["n_places"].is_not_null().any():
            yield from _profiles(part)
        else:
            first = pl.col("place").is_null() | (pl.col("place") <= FIRST_PLACES)
            yield from _figures(part if every_domain else part.filter(first))
        yield ""


def comparison_lines(table: pl.DataFrame, *, every_row: bool = False) -> Iterator[str]:
    """Yield the lines of PROBE_COMPARISON rows: what sums each probe up, or all of them."""
    shown = table if every_row else contrasts(table.filter(domain=POOLED))
    head = ["probe", "model", "other", "measure", "condition", "size", "value", "other's"]
    head += ["difference", "interval", "p", "relative", "other's", "docs"]
    for place, part in shown.group_by("benchmark", "language", "domain", maintain_order=True):
        yield ", ".join(map(str, place))
        lines = [
            [
                *(row[name] for name in ("probe", "model", "other", "measure", "condition")),
                _share(row["size"]),
                *(f"{row[name]:.4f}" for name in ("value", "other_value")),
                *(f"{row['difference']:+.4f}", *_tested(row)),
                *(_relative(row[name]) for name in ("relative", "other_relative")),
                str(row["n_documents"]),
            ]
            for row in part.iter_rows(named=True)
        ]
        yield from aligned([head, *lines], n_text=6)
        yield ""


def _figures(part: pl.DataFrame) -> Iterator[str]:
    """Yield a line per figure."""
    part = part.with_columns(
        most=pl.col("n_documents").max().over("model", "measure", "condition")
    ).filter((pl.col("read") == "all") | (pl.col("n_documents") < pl.col("most")))
    head = ["model", "measure", "condition", "read", "value", "interval", "p", "docs", "out"]
    lines = [
        [
            *(row[name] for name in head[:4]),
            *(f"{row['value']:.4f}", *_tested(row)),
            *(str(row["n_documents"]), str(row["n_left_out"])),
        ]
        for row in part.iter_rows(named=True)
    ]
    yield from aligned([head, *lines], n_text=4)


def _profiles(part: pl.DataFrame) -> Iterator[str]:
    """Yield a line per profile: its means by place, then gap and range."""
    n_out: dict[tuple[Any, ...], int] = {}
    blocks: dict[tuple[str, ...], list[list[str]]] = {}
    rows = part.filter(
        ~pl.col("measure").str.contains(" (profile|gap|range|sd)$"),
        pl.col("n_places") <= MOST_COLUMNS,
    )
    keys = ["model", "measure", "read", "size", "n_places"]
    for key, means in rows.group_by(keys, maintain_order=True):
        same = (*key[:2], *key[3:])
        if means["n_left_out"][0] == n_out.get(same):
            continue  # whole: the same documents as all
        n_out.setdefault(same, means["n_left_out"][0])
        shown = ("model", *means["condition"].to_list())
        line = _profile(dict(zip(keys, key, strict=True)), means, part)
        blocks.setdefault(shown, []).append(line)
    for shown, lines in blocks.items():
        head = ["model", "measure", "read", "size", *shown[1:], "gap", "interval", "p", "relative"]
        yield from aligned([[*head, "range", "p flat", "docs", "out"], *lines], n_text=4)


def _profile(key: dict[str, Any], means: pl.DataFrame, part: pl.DataFrame) -> list[str]:
    same = pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(key[name])) for name in ("model", "read", "size", "n_places")
    )
    own = part.filter(same)
    gap, spread = (
        own.row(by_predicate=pl.col("measure") == f"{key['measure']} {name}", named=True)
        for name in ("gap", "range")
    )
    first = means.row(0, named=True)
    return [
        *(key["model"], key["measure"], key["read"], _share(key["size"])),
        *(f"{value:.4f}" for value in means["value"]),
        *(f"{gap['value']:+.4f}", *_tested(gap), _relative(gap["relative"])),
        *(f"{spread['value']:.4f}", _tested(spread)[1]),
        *(str(first["n_documents"]), str(first["n_left_out"])),
    ]


def _tested(row: dict[str, Any]) -> tuple[str, str]:
    """Write a figure's interval and p."""
    p = UNDEFINED if row["p"] is None else p_value(row["p"])
    return ends(row["low"], row["high"], "+.4f"), p


def _relative(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:+.3f}"


def _share(size: float | None) -> str:
    return UNDEFINED if size is None else f"{100 * size:g} %"
