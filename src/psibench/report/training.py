"""What training on each distribution of positions did: two tables and the curves of a benchmark."""

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from psibench.report.plots import MARKERS, SERIES, LineStyle, draw_curves, of_lines
from psibench.report.scores import bucket_axis, plain_lines
from psibench.report.tables import (
    Block,
    Columns,
    FigureView,
    Form,
    Table,
    panel,
    table_of,
    with_ends,
)
from psibench.report.views import PAIR, BenchmarkInfo, leading_rows
from psibench.report.wording import change, number, p_value, percent
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
        blocks += [_curves(rows, metric) for _, rows in slices]
        found.append((info, blocks))
    return found


def _table(table: pl.DataFrame) -> Table:
    seeds = [
        number(mean) + (f" ± {number(sd)}" if sd is not None else "")
        for mean, sd in table.select("psi_seed_mean", "psi_seed_sd").iter_rows()
    ]
    shown: Columns = {
        "Base": "base",
        "Trained on": "distribution",
        "Languages": "pair",
        "Mean": "mean",
        "Published PSI": with_ends("psi"),
        "At equal documents": with_ends("psi_same"),
        "Best": "best_bucket",
        "Worst": "worst_bucket",
        "Seeds": "n_seeds",
        "PSI of the seeds": pl.Series(seeds, dtype=pl.String),
    }
    return table_of("By training distribution", table, shown, gap=" ", n_names=3, note=TABLE_NOTE)


def _reductions(reduction: pl.DataFrame) -> Table:
    is_same = pl.col("psi_same_difference").is_not_null()
    difference = pl.struct(
        pl.when(is_same)
        .then(f"psi_same_difference{end}")
        .otherwise(f"psi_difference{end}")
        .alias(end)
        for end in ("", "_low", "_high")
    )
    mark = pl.col("worst").replace_strict({0: "", 1: " ▼"})
    shown: Columns = {
        "Base": "base",
        "Trained on": pl.col("distribution") + mark,
        "PSI if balanced": pl.format("{}: {}", "balanced", "verdict"),
        "PSI": "psi",
        "PSI balanced": "psi_balanced",
        "Reduction": "reduction",
        "Difference of PSIs": difference,
        "Of": pl.when(is_same).then(pl.lit("equal documents")).otherwise(pl.lit("plain means")),
        "p, profiles": "p_adjusted",
        "Difference of means": with_ends("mean_difference"),
        "Languages": "pair",
    }
    forms: dict[str, Form] = {"Reduction": partial(percent, decimals=0), "p, profiles": p_value}
    forms |= dict.fromkeys(("Difference of means", "Difference of PSIs"), change)
    more = {"n_names": 3, "note": REDUCTION_NOTE}
    return table_of("Balanced against skewed", reduction, shown, forms=forms, gap=" ", **more)


def _curves(buckets: pl.DataFrame, metric: str) -> FigureView:
    """Return one panel a base, a line a distribution (Controlled, figures 1 and 2).

    Of plain means, as PSI and the papers' curves are.
    """
    first = buckets.row(0, named=True)
    axis = bucket_axis(buckets, first["buckets"])
    styles = {
        name: LineStyle(SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)])
        for place, name in enumerate(buckets["distribution"].unique(maintain_order=True))
    }
    title = f"{metric} by {axis.text}, {first['training']}"
    panels = []
    for (base,), rows in buckets.group_by("base", maintain_order=True):
        lines = plain_lines(rows, "distribution")
        drawn = draw_curves(lines, axis, of_lines(styles, lines), y_text=metric)
        panels.append(panel(drawn, f"{title}: {base}.", name=str(base)))
    caption = (
        "Plain means by where the evidence of the query lies, one line per training distribution; "
        "bands are intervals of each bucket, documents as units."
    )
    return FigureView(title, caption, tuple(panels))
