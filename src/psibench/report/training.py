"""What training on each distribution of positions did: two tables and the curves of a benchmark."""

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from psibench.report.plots import MARKERS, SERIES, LineStyle, draw_curves
from psibench.report.scores import bucket_axis, curve_numbers, curves_by
from psibench.report.tables import Block, FigureView, Panel, Table, each, slug, text_rows
from psibench.report.views import PAIR, BenchmarkInfo, Row, leading_rows
from psibench.report.wording import (
    MISSING,
    change,
    number,
    p_value,
    percent,
    with_interval,
)
from psibench.tables import read_table
from psibench.train.results import TABLES

TABLE_NOTE = (
    "Every base was trained on queries whose evidence lay where the second column says, with as "
    "many examples of every length. Scores are averaged over the seeds query by query; intervals "
    "take documents as independent. The last column is the mean and the standard deviation of the "
    "seeds’ own published PSIs: what another seed may give."
)
REDUCTION_NOTE = (
    "Each skewed distribution against the balanced one on the same queries; ▼ marks the largest "
    "PSI of a base. Reduction is 1 − PSI balanced / PSI skewed, as the Controlled paper has it: of "
    "two noisy figures, so read the interval of the difference beside it (at equal documents where "
    "they can tell, else of plain means). A lower PSI is claimed only where that interval leaves "
    "out 0 and the two profiles differ in shape on both scales (p ≤ 0.05, adjusted over the rows "
    "of a benchmark). The worst was picked by its figure, which makes its reduction look too large."
)


def read_training(paths: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Read the tables of `psibench.train.results` by their names; none: nothing was trained."""
    return {spec.name: read_table(paths[spec.name], spec) for spec in TABLES if paths}


def training_blocks(
    tables: Mapping[str, pl.DataFrame], benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> list[tuple[BenchmarkInfo, list[Block]]]:
    """Return each benchmark's tables and figures; those without trained models are left out."""
    found = []
    tested = set(tables["training_table"]["benchmark"]) if tables else set()
    for info in (one for one in benchmarks if one.id in tested):
        table, reduction, buckets = (
            leading_rows(tables[spec.name], info, metric).with_columns(PAIR) for spec in TABLES
        )
        blocks: list[Block] = [_table(table)]
        if reduction.height:
            blocks.append(_reductions(reduction))
        slices = buckets.group_by("training", "query_lang", "corpus_lang", maintain_order=True)
        blocks += [_curves(rows, info, metric) for _, rows in slices]
        found.append((info, blocks))
    return found


_SPACED = partial(with_interval, separator=" ")


def _table(table: pl.DataFrame) -> Table:
    def seeds(row: Row) -> str:
        sd = row["psi_seed_sd"]
        return number(row["psi_seed_mean"]) + (f" ± {number(sd)}" if sd is not None else "")

    rows = text_rows(
        table,
        *("base", "distribution", "pair"),
        *each(number, "mean"),
        *(partial(_SPACED, name=name) for name in ("psi", "psi_same")),
        *(lambda row, name=name: row[name] or MISSING for name in ("best_bucket", "worst_bucket")),
        *each(str, "n_seeds"),
        seeds,
    )
    scores = ("Mean", "Published PSI", "At equal documents", "Best", "Worst")
    header = ("Base", "Trained on", "Languages", *scores, "Seeds", "PSI of the seeds")
    return Table("By training distribution", header, rows, 3, note=TABLE_NOTE)


def _reductions(reduction: pl.DataFrame) -> Table:
    def difference(row: Row) -> str:
        if row["psi_same_difference"] is not None:
            return _SPACED(row, "psi_same_difference", shown=change)
        plain = _SPACED(row, "psi_difference", shown=change)
        return f"{plain} (plain)" if plain.endswith("]") else plain

    rows = text_rows(
        reduction,
        "base",
        lambda row: f"{row['distribution']}{' ▼' if row['worst'] else ''}",
        lambda row: f"{row['balanced']}: {row['verdict']}",
        *each(number, "psi", "psi_balanced"),
        *each(percent, "reduction", decimals=0),
        difference,
        *each(p_value, "p_adjusted"),
        lambda row: _SPACED(row, "mean_difference", shown=change),
        "pair",
    )
    psi = ("PSI", "PSI balanced", "Reduction", "Difference of PSIs", "p, profiles")
    names = ("Base", "Trained on", "PSI if balanced")
    header = (*names, *psi, "Difference of means", "Languages")
    return Table("Balanced against skewed", header, rows, 3, note=REDUCTION_NOTE)


def _curves(buckets: pl.DataFrame, info: BenchmarkInfo, metric: str) -> FigureView:
    """Return one panel a base, a line a distribution (Controlled, figures 1 and 2)."""
    first = buckets.row(0, named=True)
    axis = bucket_axis(buckets, first["buckets"])
    styles = {
        name: LineStyle(SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)])
        for place, name in enumerate(buckets["distribution"].unique(maintain_order=True))
    }
    # PSI is of plain means, and so are the papers' curves
    plain = buckets.with_columns(same_mean=None, same_low=None, same_high=None)
    anchor = slug("training", info.id, first["training"], first["query_lang"], first["corpus_lang"])
    title = f"{metric} by {axis.text}, {first['training']}"
    panels, numbers = list[Panel](), list[tuple[str, ...]]()
    n_bases = plain["base"].n_unique()
    for (base,), own in plain.group_by("base", maintain_order=True):
        lines = curves_by("distribution", own, axis, styles)
        told = f"{title}: {base} trained on {', '.join(lines)}."
        drawn = draw_curves(list(lines.values()), axis, y_text=metric)
        name = str(base) if n_bases > 1 else ""
        panels.append(Panel.drawn(drawn, slug(anchor, str(base)), title, told, name=name))
        numbers += [(f"{base}, {row[0]}", *row[1:]) for row in curve_numbers(lines)]
    return FigureView(
        anchor,
        title,
        "Plain means by where the evidence of the query lies, one line per training distribution; "
        "bands are intervals of each bucket, documents as units.",
        tuple(panels),
        tuple(styles.items()),
        ("base, trained on", *axis.labels),
        tuple(numbers),
    )
