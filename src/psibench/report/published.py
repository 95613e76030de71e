"""Figures of the papers beside a run's own: read, found again in a run, and shown on a page.

The CSV files of ``config/published`` are the papers' tables, with the digits they give; shares are
percentages divided by 100, and every row names its paper and table in the column ``source``.
``tables.yaml`` beside them says what each table is about. The comparison is one join: what a
published figure and a figure of a run share is model, data, languages, length, buckets and
quantity (`COUNTERPART`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench import __version__
from psibench.config.files import read_yaml
from psibench.config.paths import PUBLISHED
from psibench.errors import InputError
from psibench.generate.benchmarks import Benchmark
from psibench.report.published_facts import published_facts
from psibench.report.tables import TEMPLATES, Table, provenance_table, render
from psibench.tables import hash_file, read_provenance, read_table, write_csv, write_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import derived
from psibench.tables.provenance import now
from psibench.tables.published_schemas import PUBLISHED_COMPARISON
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE
from psibench.tables.spec import POOLED
from psibench.tables.stage import stage

# --- the papers' tables

SOURCE = "source"
INDEX = "tables.yaml"


@dataclass(frozen=True)
class Published:
    """A published table: its rows, the same as text with all printed digits, its place."""

    rows: pl.DataFrame
    texts: pl.DataFrame
    source: str


@cache
def read_published(name: str, folder: Path = PUBLISHED) -> Published:
    """Read a table of published figures by the name of its file.

    Raises
    ------
    InputError
        If the file cannot be read as CSV or has no column ``source``.
    """
    path = folder / f"{name}.csv"
    try:
        rows = pl.read_csv(path, infer_schema_length=None)
        texts = pl.read_csv(path, infer_schema=False).fill_null("")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: the published figures cannot be read ({error}); take the file of the "
            "repository again"
        ) from error
    if SOURCE not in rows.columns:
        raise InputError(f"{path}: no column {SOURCE!r}; found: {', '.join(rows.columns)}")
    sources = rows[SOURCE].unique(maintain_order=True).str.join("; ").item()
    return Published(rows.drop(SOURCE), texts.drop(SOURCE), sources)


def _place(source: str) -> tuple[str, str]:
    """Return paper and table."""
    paper, _, table = source.split(":")[0].partition(", ")
    return paper, table


# --- their figures one by one

ENGLISH, EVERY = "eng-Latn", "all"  # all, in place of a language: the mean over the paper's
SECTION_TEXTS = {
    "all": "all lengths",
    "q1": "Q1, up to 512 tokens",
    "q2": "Q2, up to 1,024 tokens",
    "q3": "Q3, up to 1,536 tokens",
    "q4": "Q4, longer",
}
DATA_TEXTS = {
    "squad_posq": "SQuAD-PosQ",
    "fineweb_posq": "FineWeb-PosQ, tagged as in PosQ",
    "fineweb_myopic": "FineWeb-PosQ, tagged as in Myopic",
    "posir": "PosIR",
}
SEED = 42
"""Of every model that Controlled trained (table 10)."""
TRAINED = {"squad_posq": ("SQuAD-PosQ", "squad"), "fineweb_posq": ("FineWeb-PosQ", "thirds")}
"""Panel and buckets of the benchmarks that Controlled trained models were run on."""
# queries of the full and of the tiny subset: PosQ, sections 3.1 and 3.2; Myopic, table 2
FULL = {"squad_posq": 92_749, "fineweb_posq": 25_775, "fineweb_myopic": 265_865}
TINY = {"squad_posq": 10_000, "fineweb_posq": 3_000, "fineweb_myopic": 6_620}
FULL_KINDS = ("sparse", "dense")
"""Kinds evaluated on the full subsets; the others on the tiny ones (PosQ, section 4.1)."""
SUBSET_UNKNOWN = "the paper does not say which subset it is about"
FIGURES: dict[str, Any] = {
    "spec": pl.String,  # name of the file
    "paper": pl.String,
    "table": pl.String,
    "panel": pl.String,  # place in the table as shown: panel, row (model_name), group, column
    "model_name": pl.String,  # as printed
    "group": pl.String,
    "column": pl.String,
    "model": pl.String,  # id; from here to quantity what the counterpart has to share
    "data": pl.String,  # as in `published_facts`; empty: psibench does not measure it
    "query_lang": pl.String,
    "corpus_lang": pl.String,
    "length_bucket": pl.String,
    "buckets": pl.String,
    "bucket": pl.String,
    "quantity": pl.String,
    "published": pl.Float64,  # in [0, 1]
    "scale": pl.Int64,  # printed = published x scale, with so many decimals
    "decimals": pl.Int64,
    "n_published": pl.Int64,  # queries of the paper's data; null if it does not say
    "caveat": pl.String,  # what the paper leaves open; mostly empty
}
PLACE = ("panel", "model_name", "group", "column")
COUNTERPART = (
    *("model", "data", "query_lang", "corpus_lang", "length_bucket", "buckets", "bucket"),
    "quantity",
)


@cache
def published_figures(folder: Path = PUBLISHED) -> pl.DataFrame:
    """Return the retrieval scores of the papers' tables, in their order, in columns `FIGURES`.

    A figure that a paper leaves out (a dash) has no row.

    Raises
    ------
    InputError
        If a file cannot be read, lacks a column that ``tables.yaml`` names, or names a model that
        models.csv has not.
    """
    ids = dict(read_published("models", folder).rows.iter_rows())
    sizes = read_published("posir_table4", folder).rows.select("language", "n_queries")
    n_queries = dict(sizes.iter_rows())
    # English and Chinese queries search no corpus of another language
    n_queries["crossed"] = n_queries[EVERY] - n_queries[ENGLISH] - n_queries["cmn-Hans"]
    found = []
    for name, about in read_yaml(folder / INDEX).items():
        if "figures" not in about:
            continue
        table = read_published(name, folder)
        lacking = [
            c for part in about["figures"] for c in part["of"] if c not in table.rows.columns
        ]
        unknown = set(table.rows["model"]) - set(ids)
        if lacking or unknown:
            raise InputError(
                f"{folder / name}.csv: columns {lacking} of {INDEX} are missing"
                if lacking
                else f"{folder / name}.csv: model {min(unknown)!r} is not in "
                f"{folder / 'models.csv'}; add a line with its name and its id"
            )
        paper, number = _place(table.source)
        base = {"spec": name, "paper": paper, "table": number}
        units = {column: _unit(table, column) for part in about["figures"] for column in part["of"]}
        for row in table.rows.iter_rows(named=True):
            known = base | {"model_name": row["model"], "model": ids[row["model"]]}
            for part in about["figures"]:
                for column, label in part["of"].items():
                    figure = _figure(row, part, column, label, about.get("language", ""), n_queries)
                    scale, decimals = units[column]
                    value = None if row[column] is None else row[column] / scale
                    unit = {"published": value, "scale": scale, "decimals": decimals}
                    found.append(known | figure | unit)
                    if "training" in row:  # a trained model's id: base, training, seed
                        found[-1]["model"] += f"-{row['training']}-s{SEED}"
    return pl.DataFrame(found, schema=FIGURES, orient="row").drop_nulls("published")


def _unit(table: Published, column: str) -> tuple[int, int]:
    """Return the unit of a column, percent (100) or 1, and its decimals as printed."""
    largest = table.rows[column].cast(pl.Float64).max()
    digits = [text.partition(".")[2] for text in table.texts[column]]
    return 100 if isinstance(largest, float) and largest > 1 else 1, max(map(len, digits))


def _figure(
    row: Mapping[str, Any],
    part: Mapping[str, Any],
    column: str,
    label: str,
    language: str,
    n_queries: Mapping[str, int],
) -> dict[str, Any]:
    """Return the place of a figure on the page, and what its counterpart has to share."""
    section = row.get("section") or (column if column in SECTION_TEXTS else "all")
    is_crossed = row.get("setting") == "cross-lingual"
    asked = row.get("language", language)
    shared = {
        "panel": "",
        "group": part.get("group", asked),
        "column": label,
        "data": part.get("data", ""),
        "query_lang": asked,
        "corpus_lang": ENGLISH if is_crossed else asked,
        "length_bucket": POOLED if section == "all" else section.upper(),
        "buckets": part.get("buckets", ""),
        "bucket": label if part["quantity"] == "bucket_mean" else "",
        "quantity": part["quantity"],
        "n_published": None,
        "caveat": "",
    }
    if "training" in row:
        panel, buckets = TRAINED[row["benchmark"]]
        own = {"panel": panel, "column": row["training"], "data": row["benchmark"]}
        return shared | own | {"buckets": buckets, "caveat": SUBSET_UNKNOWN}
    if "kind" in row:
        sizes = FULL if row["kind"] in FULL_KINDS else TINY
        return shared | {"n_published": sizes[part["data"]]}
    # PosIR's nDCG@10 is over queries for all lengths, over bin means within a length bucket
    if part["quantity"] == "mean" and section != "all":
        shared["quantity"] = "mean_of_buckets"
    parts = [row["setting"].capitalize()] if "setting" in row else []
    parts += [SECTION_TEXTS[section]] if "section" in row else []
    whole = "crossed" if is_crossed and asked == EVERY else asked
    return shared | {"panel": ", ".join(parts), "n_published": n_queries[whole]}


# --- a run's figures beside them

METRIC, TIES_AVERAGED = "ndcg@10", "ndcg-tie-averaged@10"
AVERAGES_TIES = ("squad_posq", "fineweb_posq", "fineweb_myopic")
"""Data whose authors' nDCG gives documents of equal score the mean of their places."""
_ROW = ("benchmark", "model", "query_lang", "corpus_lang", "length_bucket", "buckets")
Facts = Mapping[str, Mapping[str, str]]
"""Benchmark id -> ``data`` and ``differs``, as of `published_facts`."""


def has_counterparts(facts: Facts, runs: Iterable[Mapping[str, str]]) -> bool:
    """Return whether any figure of the papers can have a counterpart.

    ``runs``: benchmark, query_lang, corpus_lang and model of everything that is evaluated.
    """
    names = ("query_lang", "corpus_lang", "model")
    known = set(published_figures().select("data", *names).rows()) if facts else set()
    return any(
        (facts[run["benchmark"]]["data"], *(run[name] for name in names)) in known
        for run in runs
        if run["benchmark"] in facts
    )


def compare(
    figures: pl.DataFrame,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    facts: Facts,
) -> pl.DataFrame:
    """Join published figures with their counterparts in a run.

    Parameters
    ----------
    figures
        As `published_figures` returns them.
    psi_table, bucket_scores
        PSI_TABLE and BUCKET_SCORES rows of a run, any metrics and views; those over all domains
        and all queries with ndcg@10 count, or with ndcg-tie-averaged@10 where the benchmark has it
        and its data are of `AVERAGES_TIES`.
    facts
        Benchmarks without an entry are left out.

    Returns
    -------
    frame
        The columns of PUBLISHED_COMPARISON, then place and printed form as in `FIGURES`. One row
        per figure and benchmark with a counterpart, in the figures' order. All values are in
        [0, 1]. ``inside`` grants the published figure half a unit of its last printed digit; it
        is null where the own figure has no interval.
    """
    own = _own_figures(psi_table, bucket_scores, facts)
    own = pl.concat([own, _language_means(own, figures)], how="diagonal_relaxed")
    found = figures.join(own, on=COUNTERPART, how="inner", maintain_order="left_right")
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    other_size = pl.format(
        "{} queries, the paper has {}", *map(_thousands, ("n_queries", "n_published"))
    )
    size = pl.when(pl.col("n_queries") != pl.col("n_published")).then(other_size)
    told = pl.concat_str(
        [pl.col("own_differs").replace("", None), pl.col("caveat").replace("", None), size],
        separator="; ",
        ignore_nulls=True,
    )
    found = found.with_columns(
        difference=pl.col("own") - published,
        inside=(published + half >= pl.col("low")) & (published - half <= pl.col("high")),
        differs=told.replace("", None),
    )
    printed = ("spec", *PLACE, "scale", "decimals")
    rest = [name for name in printed if name not in PUBLISHED_COMPARISON.column_names]
    return found.select(*PUBLISHED_COMPARISON.column_names, *rest)


def _thousands(name: str) -> pl.Expr:
    """Return whole numbers as text, with commas."""
    return pl.col(name).map_elements(lambda n: f"{int(n):,}" if n else "", return_dtype=pl.String)


def _own_figures(
    psi_table: pl.DataFrame, bucket_scores: pl.DataFrame, facts: Facts
) -> pl.DataFrame:
    """Return a run's figures one by one, in the terms of `FIGURES`; see `compare`.

    Undefined values have no row. Columns: COUNTERPART, benchmark, own, low, high, n_queries (of
    the benchmark in that language pair, any length), metric and own_differs.
    """
    known = pl.DataFrame(
        [(name, fact["data"], fact["differs"]) for name, fact in facts.items()],
        schema=dict.fromkeys(("benchmark", "data", "own_differs"), pl.String),
        orient="row",
    )
    table, scores = (
        rows.filter(domain=POOLED, evidence="all").join(
            _metrics(psi_table, facts), on=["benchmark", "metric"], how="semi"
        )
        for rows in (psi_table, bucket_scores)
    )
    table = table.join(mean_intervals(table, scores), on=_ROW, how="left")
    columns = (*_ROW, "metric", "bucket", "quantity", "own", "low", "high")
    parts = [
        table.with_columns(
            pl.lit("").alias("bucket"),
            pl.lit(quantity).alias("quantity"),
            pl.col(quantity).alias("own"),
            *(pl.col(f"{quantity}_{end}").alias(end) for end in ("low", "high")),
        ).select(columns)
        for quantity in ("mean", "mean_of_buckets", "psi")
    ]
    own = {"quantity": pl.lit("bucket_mean"), "own": pl.col("mean")}
    parts.append(scores.with_columns(**own).select(columns))
    pair = ["benchmark", "model", "query_lang", "corpus_lang"]
    sizes = table.filter(length_bucket=POOLED).group_by(pair).agg(pl.col("n_queries").max())
    every = pl.concat(parts).filter(pl.col("own").is_not_null())
    return every.join(known, on="benchmark").join(sizes, on=pair, how="left")


def _metrics(psi_table: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """Return which metric of a benchmark stands beside the papers' figures: benchmark, metric."""
    averaged = set(psi_table.filter(metric=TIES_AVERAGED)["benchmark"])
    rows = [
        (name, TIES_AVERAGED if name in averaged and fact["data"] in AVERAGES_TIES else METRIC)
        for name, fact in facts.items()
    ]
    schema = {"benchmark": pl.String, "metric": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def mean_intervals(table: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Combine bucket intervals into those of the mean over queries and over buckets.

    The buckets hold different queries, and are taken as independent, though queries of one
    document may sit in several: the half-widths of a weighted sum of bucket means add up in
    squares: ``low = mean - sqrt(sum (w_i (mean_i - low_i))**2)``, and ``high`` likewise.
    Weights are shares of the queries for the mean over queries, equal for the mean over buckets.

    Parameters
    ----------
    table, scores
        PSI_TABLE and BUCKET_SCORES rows, one per `_ROW` (and bucket).

    Returns
    -------
    frame
        `_ROW`, mean_low, mean_high, mean_of_buckets_low, mean_of_buckets_high. Rows of schemes
        whose buckets share or leave out queries have none, nor has a mean over buckets that
        leaves out buckets with queries.
    """
    filled = scores.filter(pl.col("n_queries") > 0)
    n = pl.col("n_queries")
    weights = {"mean": n / n.sum().over(_ROW), "mean_of_buckets": 1 / pl.len().over(_ROW)}
    sides = {"low": pl.col("mean") - pl.col("low"), "high": pl.col("high") - pl.col("mean")}
    sizes = filled.group_by(_ROW).agg(n_filled=pl.len(), n_in_buckets=n.sum())
    weighted = filled.select(
        *_ROW,
        *(
            (w * s).alias(f"{mean}_{end}")
            for mean, w in weights.items()
            for end, s in sides.items()
        ),
    )
    summed = weighted.group_by(_ROW).agg(pl.all().pow(2).sum().sqrt())
    is_disjoint = pl.col("n_in_buckets") == n
    holds = {
        "mean": is_disjoint,
        "mean_of_buckets": is_disjoint & (pl.col("n_filled") == pl.col("n_buckets")),
    }
    return (
        table.join(sizes, on=_ROW)
        .join(summed, on=_ROW)
        .select(
            *_ROW,
            *(
                pl.when(condition)
                .then(pl.col(mean) + sign * pl.col(f"{mean}_{end}"))
                .alias(f"{mean}_{end}")
                for mean, condition in holds.items()
                for end, sign in (("low", -1), ("high", 1))
            ),
        )
    )


def _language_means(own: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average own figures over PosIR's languages, as tables 2 and 3 do.

    Only a benchmark with all of the paper's languages has a mean: one over others is no
    counterpart. It has no interval: the languages' queries are translations of one another, so
    their errors are not independent.
    """
    posir = figures.filter(pl.col("data") == "posir", pl.col("query_lang") != EVERY)
    pairs = posir.select("query_lang", "corpus_lang").unique()
    is_crossed = (pl.col("query_lang") != pl.col("corpus_lang")).alias("is_crossed")
    wanted = dict(pairs.group_by(is_crossed).len().iter_rows())
    keys = ["benchmark", *(n for n in COUNTERPART if n not in ("query_lang", "corpus_lang"))]
    return (
        own.filter(data="posir")
        .join(pairs, on=["query_lang", "corpus_lang"], how="semi")
        .group_by(*keys, "metric", "own_differs", is_crossed, maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("own").mean(), pl.col("n_queries").sum())
        .filter(pl.col("n") == pl.col("is_crossed").replace_strict(wanted, default=None))
        .with_columns(
            query_lang=pl.lit(EVERY),
            corpus_lang=pl.when("is_crossed").then(pl.lit(ENGLISH)).otherwise(pl.lit(EVERY)),
        )
        .drop("is_crossed", "n")
    )


# --- the page

STYLES = ("report.css", "published.css")
SUMMARY_HEADER = (
    *("Table", "What", "Published figures", "Run here", "Not run here", "Comparisons"),
    *("With an interval", "Published inside it"),
)


@dataclass(frozen=True)
class Section:
    """A published table: what it is, its grids, and how many of its figures a run has.

    With several benchmarks there are more comparisons than figures compared. ``missing`` are the
    models none of whose figures has a counterpart; ``differs`` is, per benchmark that has some,
    what differs from the paper's data. ``panels``: grids, and whether a run's rows are in them.
    """

    id: str
    source: str
    title: str
    text: str
    panels: tuple[tuple[Table, bool], ...]
    n_figures: int
    n_compared: int
    n_comparisons: int
    n_with_interval: int
    n_inside: int
    missing: tuple[str, ...]
    differs: tuple[tuple[str, str], ...]


def sections(figures: pl.DataFrame, found: pl.DataFrame, folder: Path = PUBLISHED) -> list[Section]:
    """Return a section per table of `published_figures`; ``found`` as `compare` returns it."""
    index, shown = read_yaml(folder / INDEX), []
    for name in figures["spec"].unique(maintain_order=True):
        printed, own = figures.filter(spec=name), found.filter(spec=name)
        measured = printed.filter(pl.col("data") != "")
        ran = set(own["model_name"])
        names = measured["model_name"].unique(maintain_order=True)
        known = own.drop_nulls("inside")
        source = ", ".join(printed.select("paper", "table").row(0))
        shown.append(
            Section(
                name,
                source,
                title=index[name]["title"],
                text=index[name]["text"],
                panels=tuple(
                    _grid(source, panel, printed.filter(panel=panel), own.filter(panel=panel))
                    for panel in printed["panel"].unique(maintain_order=True)
                ),
                n_figures=measured.height,
                n_compared=own.select(PLACE).n_unique(),
                n_comparisons=own.height,
                n_with_interval=known.height,
                n_inside=int(known["inside"].sum()),
                missing=tuple(model for model in names if model not in ran),
                differs=_differences(own),
            )
        )
    return shown


def _differences(found: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    """Per benchmark what differs, its two most frequent wordings; empty if nothing is known.

    The number of queries may differ by language.
    """
    counted = found.group_by("benchmark", "differs", maintain_order=True).len()
    ordered = counted.sort("benchmark", "len", descending=[False, True], maintain_order=True)
    told = []
    for (benchmark,), rows in ordered.group_by("benchmark", maintain_order=True):
        texts = rows["differs"].drop_nulls().to_list()
        more = f"; and {len(texts) - 2} more such" if len(texts) > 2 else ""
        only_some = " (of some figures)" if texts and len(texts) < rows.height else ""
        told.append((str(benchmark), " / ".join(texts[:2]) + more + only_some))
    return tuple(told)


def _grid(source: str, panel: str, printed: pl.DataFrame, own: pl.DataFrame) -> tuple[Table, bool]:
    """Return a paper's grid with a run's rows beneath each model, and whether it has any."""
    places = printed.select("group", "column").unique(maintain_order=True).rows()
    widths: dict[str, int] = {}
    for group, _ in places:
        widths[group] = widths.get(group, 0) + 1
    rows: list[tuple[str, ...]] = []
    looks: list[str] = []

    def add(name: str, figures: pl.DataFrame, *, is_own: bool) -> None:
        known = {(row["group"], row["column"]): row for row in figures.iter_rows(named=True)}
        cells = (_cell(known.get(place), is_own=is_own) for place in places)
        rows.append((name, *cells))
        looks.append("own" if is_own else "")

    for model in printed["model_name"].unique(maintain_order=True):
        add(model, printed.filter(model_name=model), is_own=False)
        mine = own.filter(model_name=model)
        for benchmark in mine["benchmark"].unique(maintain_order=True):
            name = Markup("run here: <bdi>{}</bdi>").format(benchmark)
            add(name, mine.filter(benchmark=benchmark), is_own=True)
    table = Table(
        f"{source}: {panel}" if panel else source,
        ("Model", *(column for _, column in places)),
        tuple(rows),
        n_names=1,
        groups=(("", 1), *widths.items()),
        looks=tuple(looks),
        css="beside",
    )
    return table, own.height > 0


def _cell(row: Mapping[str, Any] | None, *, is_own: bool) -> str:
    """Return a figure in the paper's unit; a run's with its difference, starred if outside."""
    if row is None:
        return "" if is_own else "–"
    if not is_own:
        return _text(row, row["published"])
    is_outside = row["inside"] is False
    return Markup("<b>{}</b><small{}>{}</small>").format(
        _text(row, row["own"]),
        Markup(' class="outside"') if is_outside else "",
        _text(row, row["difference"], sign="+") + ("*" if is_outside else ""),
    )


def _text(row: Mapping[str, Any], value: float, sign: str = "") -> str:
    """Print a value in [0, 1] as the paper's table does, with a true minus."""
    digits = row["decimals"]
    scaled = round(value * row["scale"], digits)
    text = f"{scaled:{sign}.{digits}f}" if scaled else f"{0:.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def printed_tables(folder: Path = PUBLISHED) -> list[Table]:
    """Return the tables without rows in the result tables: digits as printed, wide where long."""
    shown = []
    for name, about in read_yaml(folder / INDEX).items():
        if "figures" in about:
            continue
        table = read_published(name, folder)
        types = table.rows.schema
        whole = [column for column, kind in types.items() if kind.is_integer()]
        texts = table.texts.with_columns(map(_thousands, whole))
        title, note = f"{', '.join(_place(table.source))}: {about['title']}", about.get("text", "")
        if "wide" in about:
            keys, by = about["wide"]["rows"], about["wide"]["groups"]
            values = [c for c, kind in types.items() if kind.is_numeric() and c not in (*keys, by)]
            shown.append(_wide(texts, keys=keys, by=by, values=values, title=title, note=note))
            continue
        names = list(takewhile(lambda kind: kind == pl.String, types.dtypes()))
        header = tuple(map(_heading, texts.columns))
        shown.append(Table(title, header, tuple(texts.rows()), max(1, len(names)), note=note))
    return shown


def _heading(column: str) -> str:
    special = {"ndcg_at_10": "nDCG@10", "psi": "PSI", "mae": "MAE"}
    return special.get(column, column.replace("_x1000", " × 1000").replace("_", " "))


def _wide(
    texts: pl.DataFrame, *, keys: list[str], by: str, values: list[str], title: str, note: str
) -> Table:
    """Put the rows that differ in ``by`` alone side by side, as the paper does.

    One or two values make a block of columns each, as in nDCG, then PSI; more are together under
    the group they are of.
    """
    cells = {
        (*(row[key] for key in keys), row[by], value): row[value]
        for row in texts.iter_rows(named=True)
        for value in values
    }
    groups = texts[by].unique(maintain_order=True).to_list()
    if len(values) < 3:
        blocks, outer, width = [(g, value) for value in values for g in groups], values, len(groups)
        columns = [g for g, _ in blocks]
    else:
        blocks, outer, width = [(g, value) for g in groups for value in values], groups, len(values)
        columns = [value for _, value in blocks]
    rows = [
        (*head, *(cells[*head, *block] for block in blocks))
        for head in texts.select(keys).unique(maintain_order=True).iter_rows()
    ]
    headings = (("", len(keys)), *((_heading(text), width) for text in outer))
    header = tuple(map(_heading, (*keys, *columns)))
    return Table(title, header, tuple(rows), len(keys), headings, note)


@stage("published", version=3)
def run_published(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    benchmarks: Mapping[str, Benchmark],
    published: Sequence[str | Path],
    parquet: str | Path,
    csv: str | Path,
    html: str | Path,
) -> None:
    """Write the comparison as table and CSV, and the page; ``published``: the files of one folder.

    Raises
    ------
    InputError
        If the files lie in several folders or cannot be read.
    """
    facts = published_facts(benchmarks)
    folders = {Path(path).parent for path in published}
    if len(folders) != 1:
        raise InputError(
            f"the published tables lie in {len(folders)} folders "
            f"({', '.join(sorted(map(str, folders))) or 'none given'}); expected: all in one"
        )
    (folder,) = folders
    figures = published_figures(folder)
    own = read_table(psi_table, PSI_TABLE)
    metrics = dict(_metrics(own, facts).iter_rows())
    found = compare(
        figures,
        psi_table=own,
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        facts=facts,
    )
    files = {str(path): hash_file(path) for path in published}
    params = {"benchmarks": {name: dict(fact) for name, fact in facts.items()}}
    source = derived("published", [psi_table, bucket_scores], params=params, files=files)
    table = found.select(PUBLISHED_COMPARISON.column_names)
    write_table(table, parquet, PUBLISHED_COMPARISON, provenance=source)
    write_csv(table, csv)
    record = read_provenance(psi_table) or {}
    made_of = {"psibench": __version__, "rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of |= {f"published {Path(name).name}": text for name, text in sorted(files.items())}
    shown = sections(figures, found, folder)
    counts = ("n_comparisons", "n_with_interval", "n_inside")
    summary = tuple(
        (
            *(one.source, one.title),
            *(f"{n:,}" for n in (one.n_figures, one.n_compared, one.n_figures - one.n_compared)),
            *(f"{getattr(one, name):,}" for name in counts),
        )
        for one in shown
    )
    page = render(
        "published.html",
        title="Published figures and this run's",
        created=now(),
        version=__version__,
        style=Markup("\n".join((TEMPLATES / n).read_text(encoding="utf-8") for n in STYLES)),
        sections=shown,
        benchmarks=[
            (name, DATA_TEXTS[fact["data"]], metrics[name], fact["differs"])
            for name, fact in facts.items()
        ],
        summary=Table("What was run here", SUMMARY_HEADER, summary),
        tables=printed_tables(folder),
        provenance=provenance_table(made_of),
    )
    write_text(page, html)
