"""Means, groups and position profiles of systems on the same queries, for `psibench compare`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any

import polars as pl

from psibench.metrics.comparison import groups_without_difference
from psibench.metrics.constants import FEWEST_CLUSTERS, SIGNIFICANCE_LEVEL
from psibench.report.scores import bucket_axis, small_multiples
from psibench.report.tables import FigureView, Form, render_page, slug, table_of, with_ends
from psibench.report.views import simulation_note
from psibench.report.wording import (
    MISSING,
    SCHEME_TEXTS,
    change,
    isolate,
    p_text,
    p_value,
    pair_text,
)
from psibench.tables import Provenance
from psibench.tables.provenance import now

PSI_HEAD = "PSI at equal documents, noise removed"
MEANS_NOTE = (
    "Above the diagonal: mean of the row's system minus mean of the column's system. Below: p of "
    "that difference, family-wise over all pairs (step-down max-T, flipping the signs of documents "
    "or of clusters)."
)
PROFILES_NOTE = (
    "Above the diagonal: p that two profiles differ in hits and in misses, adjusted over all pairs "
    "by Holm's method. Below: p of that pair only."
)
PAIR_NOTE = "The p of profiles is the larger of the p for hits and the p for misses."
SystemPair = tuple[int, int]
PairRows = Mapping[SystemPair, Mapping[str, Any]]
"""COMPARED row of two systems, by their ranks from 0; the better system is first."""


@dataclass(frozen=True)
class Ranked:
    """Systems in one metric and bucket scheme, ordered by mean, the highest first.

    Attributes
    ----------
    names : names of the systems, as in the tables.
    systems : frame of system, mean and psi with their intervals, and group. Two systems share a
        letter of their groups unless their means differ significantly; null if not tested.
    means, profiles : frames of text, a row and a column per system: `MEANS_NOTE`, `PROFILES_NOTE`.
    buckets : frame of bucket, queries and a column of means per system.
    kind : "at equal documents", or "plain" if some system has no means at equal documents.
    means_text, profiles_text : a sentence about the differences of means, and of profiles.
    """

    names: list[str]
    systems: pl.DataFrame
    means: pl.DataFrame
    profiles: pl.DataFrame
    buckets: pl.DataFrame
    kind: str
    means_text: str
    profiles_text: str
    pair_text: str = ""
    """For two systems: the differences with intervals and p; else empty."""


def ranked(
    compared: pl.DataFrame,
    psi: pl.DataFrame,
    buckets: pl.DataFrame,
    intervals: Mapping[str, tuple[float, float]],
) -> Ranked:
    """Order systems by their means, and describe how they differ.

    Parameters
    ----------
    compared, psi, buckets
        Rows of COMPARED, PSI_TABLE and BUCKET_SCORES of one metric and scheme, all evidence.
    intervals
        Ends of the interval of each system's mean.
    """
    psi = psi.sort("mean", descending=True, maintain_order=True)
    names = psi["model"].to_list()
    rows: dict[SystemPair, Mapping[str, Any]] = {}
    for row in compared.iter_rows(named=True):
        one, other = names.index(row["model"]), names.index(row["other"])
        gain = abs(row["mean"] - row["other_mean"])
        rows[min(one, other), max(one, other)] = row | {"difference": gain}
    numbers = [str(number) for number in range(1, len(names) + 1)]
    numbered = pl.Series("System", [f"{n} {name}" for n, name in zip(numbers, names, strict=True)])
    kind, column = "at equal documents", "same_mean"
    if psi["psi_same"].null_count():
        kind, column = "plain", "mean"
    by_bucket = buckets.filter(model=names[0]).select("bucket", queries="n_queries")
    means = {n: buckets.filter(model=m)[column] for n, m in zip(numbers, names, strict=True)}
    low, high = zip(*(intervals[name] for name in names), strict=True)
    return Ranked(
        names,
        psi.select(
            system=numbered,
            mean="mean",
            mean_low=pl.Series(low).fill_nan(None),
            mean_high=pl.Series(high).fill_nan(None),
            group=pl.Series(group_letters(len(names), rows), dtype=pl.String),
            psi="psi_same_corrected",
            psi_low="psi_same_low",
            psi_high="psi_same_high",
        ),
        _matrix(numbered, rows, ("difference", change), ("p_difference_adjusted", p_value)),
        _matrix(numbered, rows, ("p_profile_adjusted", p_value), ("p_profile", p_value)),
        by_bucket.with_columns(**means).filter(pl.col("queries") > 0),
        kind,
        _means_text(rows),
        _profiles_text(rows, psi["test"][0]),
        _pair_text(next(compared.iter_rows(named=True))) if len(names) == 2 else "",
    )


def _pair_text(row: Mapping[str, Any]) -> str:
    """Return a sentence on the difference of two systems, which names both."""
    parts = [f"mean {row['metric']} {_difference(row, 'difference')}"]
    parts[0] += f" ({p_text(row['p_difference'])})"
    if row["psi_difference"] is not None:
        parts.append(f"PSI by {row['buckets']} {_difference(row, 'psi_difference')}")
    if row["p_profile"] is not None:
        differ = row["p_profile"] <= SIGNIFICANCE_LEVEL
        finding = "profiles" if differ else "no evidence that profiles"
        parts.append(f"{finding} over positions differ ({p_text(row['p_profile'])})")
    return f"{isolate(row['model'])} minus {isolate(row['other'])}: {'; '.join(parts)}."


def _difference(row: Mapping[str, Any], name: str) -> str:
    ends = [change(row[f"{name}{end}"]) for end in ("_low", "_high")]
    shown = change(row[name])
    return shown if MISSING in ends else f"{shown} [{', '.join(ends)}]"


def _differ(rows: PairRows, column: str) -> list[SystemPair]:
    return [
        pair
        for pair, row in rows.items()
        if row[column] is not None and row[column] <= SIGNIFICANCE_LEVEL
    ]


def _n_untested(rows: PairRows, column: str) -> int:
    return sum(row[column] is None for row in rows.values())


def group_letters(n: int, rows: PairRows) -> list[str | None]:
    """Return each system's groups as letters, "a" for the highest mean; null if not tested."""
    if _n_untested(rows, "p_difference_adjusted"):
        return [None] * n
    found = [""] * n
    for number, group in enumerate(
        groups_without_difference(n, _differ(rows, "p_difference_adjusted"))
    ):
        turn, letter = divmod(number, len(ascii_lowercase))
        for system in group:
            found[system] += f"{ascii_lowercase[letter]}{turn or ''}"
    return [*found]


def _matrix(
    numbered: pl.Series, rows: PairRows, above: tuple[str, Form], below: tuple[str, Form]
) -> pl.DataFrame:
    cells = [["·"] * len(numbered) for _ in numbered]
    for (i, j), row in rows.items():
        cells[i][j], cells[j][i] = (form(row[column]) for column, form in (above, below))
    columns = {str(n): column for n, column in enumerate(zip(*cells, strict=True), start=1)}
    return pl.DataFrame([numbered]).with_columns(**{n: pl.Series(c) for n, c in columns.items()})


def _means_text(rows: PairRows) -> str:
    if _n_untested(rows, "p_difference_adjusted"):
        n_documents = next(iter(rows.values()))["n_documents"]
        return (
            f"Too few documents or clusters to test whether means differ ({n_documents} documents; "
            f"{FEWEST_CLUSTERS} of each are needed): use queries on more documents."
        )
    n_differ = len(_differ(rows, "p_difference_adjusted"))
    if len(rows) == 1:
        return "The means differ (p ≤ 0.05)." if n_differ else "No evidence that the means differ."
    return (
        f"Means differ in {n_differ} of {len(rows)} pairs (family-wise p ≤ 0.05). For two systems "
        "that share a letter, there is no evidence that their means differ."
    )


def _profiles_text(rows: PairRows, test: str | None) -> str:
    differ = _differ(rows, "p_profile_adjusted")
    n_untested = _n_untested(rows, "p_profile_adjusted")
    why = "too few documents can show a difference, or a system finds nothing or everything"
    if len(rows) > 1:
        text = f"profiles differ in {len(differ)} of {len(rows)} pairs"
        text += " (p ≤ 0.05 by Holm's method)"
        text += ": " * bool(differ) + ", ".join(f"{i + 1} and {j + 1}" for i, j in sorted(differ))
        pairs = "1 pair was" if n_untested == 1 else f"{n_untested} pairs were"
        text += f"; {pairs} not tested: {why}" if n_untested else ""
    elif n_untested:
        text = f"profiles were not tested: {why}"
    else:
        text = "profiles differ (p ≤ 0.05)" if differ else "no evidence that profiles differ"
    if test == "between":
        text = f"compared between documents, adjusted for length only: {text}"
    return f"{text[0].upper()}{text[1:]}."


# --- The page


def comparison_section(
    found: Ranked, buckets: pl.DataFrame, *, metric: str, scheme: str
) -> dict[str, Any]:
    """Return the template's values for one metric and scheme; ``buckets`` as in `ranked`."""
    more: dict[str, Any] = {"n_names": 1, "css": "compact"}
    systems = table_of(
        "Systems",
        found.systems,
        {
            "System": "system",
            "Mean": with_ends("mean"),
            "Group": "group",
            PSI_HEAD: with_ends("psi"),
        },
        note=found.means_text,
        **more,
    )
    tables = [systems]
    if len(found.names) == 2:
        note = f"{found.means_text} {found.profiles_text} {PAIR_NOTE}"
        tables = [replace(systems, note=note)]
    else:
        profiles_note = f"{found.profiles_text} {PROFILES_NOTE}"
        tables += [
            table_of("Differences of means", found.means, note=MEANS_NOTE, **more),
            table_of("Profiles over positions", found.profiles, note=profiles_note, **more),
        ]
    prefix = "same_" if found.kind != "plain" else ""
    columns = {name: f"{prefix}{name}" for name in ("mean", "low", "high")}
    lines = buckets.select("bucket", line="model", **columns)
    panels = small_multiples(lines, bucket_axis(buckets, scheme), found.names, metric=metric)
    caption = f"Means by bucket, {found.kind}, with intervals; the other systems are faint."
    return {
        "id": slug(metric, scheme),
        "lead": found.pair_text,
        "title": f"{metric} by {SCHEME_TEXTS.get(scheme, scheme)}",
        "tables": tables,
        "curves": FigureView("Curves by position", caption, panels),
    }


def render_comparison(
    sections: Sequence[Mapping[str, Any]], row: Mapping[str, Any], *, provenance: Provenance
) -> str:
    """Return the page as HTML; ``row`` is a row of COMPARED over all evidence."""
    author = str(provenance.queries_by)
    return render_page(
        "comparison.html",
        title="Systems compared",
        created=now(),
        made_of={"queries by": author, **provenance.inputs},
        run_title="",
        n_systems=len(provenance.params["systems"]),
        row=row,
        pair=pair_text(row["query_lang"], row["corpus_lang"]),
        note=simulation_note(author),
        sections=sections,
    )
