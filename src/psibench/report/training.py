"""What training on each distribution of positions did: two tables and the curves of a benchmark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from psibench.report.plots import SERIES, LineStyle, draw_curves, inline_svg
from psibench.report.scores import bucket_axis, curve, curve_numbers
from psibench.report.tables import Block, FigureView, Panel, Table, slug
from psibench.report.views import BenchmarkInfo, leading_rows
from psibench.report.wording import MISSING, change, interval, number, p_value, pair_text, percent
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


@dataclass(frozen=True)
class TrainingTables:
    """The tables of `psibench.train.results`, or empty frames where nothing was trained."""

    table: pl.DataFrame = field(default_factory=pl.DataFrame)
    reduction: pl.DataFrame = field(default_factory=pl.DataFrame)
    buckets: pl.DataFrame = field(default_factory=pl.DataFrame)


def read_training(paths: Mapping[str, str]) -> TrainingTables:
    """Read the tables by their names; none: nothing was trained."""
    if not paths:
        return TrainingTables()
    return TrainingTables(*(read_table(paths[spec.name], spec) for spec in TABLES))


def training_blocks(
    facts: TrainingTables, benchmarks: Sequence[BenchmarkInfo], *, metric: str
) -> list[tuple[BenchmarkInfo, list[Block]]]:
    """Return each benchmark's tables and figures; those without trained models are left out."""
    if not facts.table.height:
        return []
    found, tested = [], set(facts.table["benchmark"])
    for info in (one for one in benchmarks if one.id in tested):
        table, reduction, buckets = (
            leading_rows(frame, info, metric) if frame.height else frame
            for frame in (facts.table, facts.reduction, facts.buckets)
        )
        blocks: list[Block] = [_table(table)]
        if reduction.height:
            blocks.append(_reductions(reduction))
        pairs = buckets.select("training", "query_lang", "corpus_lang").unique(maintain_order=True)
        for training, queries, documents in pairs.iter_rows():
            own = {"training": training, "query_lang": queries, "corpus_lang": documents}
            blocks.append(_curves(buckets.filter(**own), info, metric))
        found.append((info, blocks))
    return found


def _table(table: pl.DataFrame) -> Table:
    rows = []
    for row in table.iter_rows(named=True):
        seeds = number(row["psi_seed_mean"])
        if row["psi_seed_sd"] is not None:
            seeds += f" ± {number(row['psi_seed_sd'])}"
        rows.append(
            (
                row["base"],
                row["distribution"],
                pair_text(row["query_lang"], row["corpus_lang"]),
                number(row["mean"]),
                f"{number(row['psi'])} {interval(row['psi_low'], row['psi_high'])}".strip(),
                f"{number(row['psi_same'])} "
                f"{interval(row['psi_same_low'], row['psi_same_high'])}".strip(),
                row["best_bucket"] or MISSING,
                row["worst_bucket"] or MISSING,
                str(row["n_seeds"]),
                seeds,
            )
        )
    scores = ("Mean", "Published PSI", "At equal documents", "Best", "Worst")
    header = ("Base", "Trained on", "Languages", *scores, "Seeds", "PSI of the seeds")
    return Table("By training distribution", header, tuple(rows), 3, note=TABLE_NOTE)


def _reductions(reduction: pl.DataFrame) -> Table:
    rows = []
    for row in reduction.iter_rows(named=True):
        same = row["psi_same_difference"] is not None
        kind = "psi_same_difference" if same else "psi_difference"
        ends = interval(row[f"{kind}_low"], row[f"{kind}_high"])
        means = interval(row["mean_difference_low"], row["mean_difference_high"])
        rows.append(
            (
                row["base"],
                f"{row['distribution']}{' ▼' if row['worst'] else ''}",
                f"{row['balanced']}: {row['verdict']}",
                number(row["psi"]),
                number(row["psi_balanced"]),
                percent(row["reduction"], 0),
                f"{change(row[kind])} {ends}{'' if same or not ends else ' (plain)'}".strip(),
                p_value(row["p_adjusted"]),
                f"{change(row['mean_difference'])} {means}".strip(),
                pair_text(row["query_lang"], row["corpus_lang"]),
            )
        )
    psi = ("PSI", "PSI balanced", "Reduction", "Difference of PSIs", "p, profiles")
    names = ("Base", "Trained on", "PSI if balanced")
    header = (*names, *psi, "Difference of means", "Languages")
    return Table("Balanced against skewed", header, tuple(rows), 3, note=REDUCTION_NOTE)


def _curves(buckets: pl.DataFrame, info: BenchmarkInfo, metric: str) -> FigureView:
    """Return one panel a base, a line a distribution (Controlled, figures 1 and 2)."""
    first = buckets.row(0, named=True)
    axis = bucket_axis(buckets, first["buckets"])
    names = buckets["distribution"].unique(maintain_order=True).to_list()
    markers = ("o", "s", "^", "D", "v", "P")
    styles = {
        name: LineStyle(SERIES[place % len(SERIES)], markers[place % len(markers)])
        for place, name in enumerate(names)
    }
    # PSI is of plain means, and so are the papers' curves
    plain = buckets.with_columns(same_mean=None, same_low=None, same_high=None)
    anchor = slug("training", info.id, first["training"], first["query_lang"], first["corpus_lang"])
    title = f"{metric} by {axis.text}, {first['training']}"
    panels, numbers = list[Panel](), list[tuple[str, ...]]()
    n_bases = plain["base"].n_unique()
    for base, own in plain.group_by("base", maintain_order=True):
        parts = own.partition_by("distribution", as_dict=True)
        lines = {
            name: curve(
                {row["bucket"]: row for row in rows.iter_rows(named=True)}, axis, styles[name]
            )
            for (name,), rows in parts.items()
        }
        told = f"{title}: {base[0]} trained on {', '.join(lines)}."
        drawn = draw_curves(list(lines.values()), axis, y_text=metric)
        svg = inline_svg(drawn, name=slug(anchor, base[0]), title=title, description=told)
        panels.append(Panel(svg, name=base[0] if n_bases > 1 else ""))
        numbers += [(f"{base[0]}, {row[0]}", *row[1:]) for row in curve_numbers(lines)]
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
