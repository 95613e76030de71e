"""Figures of the papers beside a run's own: read, found again in a run, and shown on a page.

The CSV files of ``config/published`` are the papers' tables, with the digits they give; shares are
percentages divided by 100, and every row names its paper and table in the column ``source``.
``tables.yaml`` beside them says what each table is about. The comparison is one join: what a
published figure and a figure of a run share is model, data, languages, length, buckets and
quantity (`COUNTERPART`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from psibench.config.files import read_yaml
from psibench.config.paths import PUBLISHED
from psibench.generate.benchmarks import (
    TINY,
    Beir,
    Benchmark,
    FinewebPosq,
    FinewebPosqRelease,
    Posir,
    PosirRelease,
    SquadPosq,
    evaluated_views,
    view_id,
)
from psibench.report.tables import Table, each, render_page, text_rows
from psibench.report.wording import count
from psibench.tables import hash_file, read_provenance, read_table, write_csv, write_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import derived
from psibench.tables.provenance import now
from psibench.tables.published_schemas import PUBLISHED_COMPARISON
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE
from psibench.tables.spec import POOLED
from psibench.tables.stage import stage

# --- the papers' tables

INDEX = "tables.yaml"


@dataclass(frozen=True)
class Published:
    """A published table: its rows, the same as text with all printed digits, its place."""

    rows: pl.DataFrame
    texts: pl.DataFrame
    source: str

    @property
    def place(self) -> tuple[str, str]:
        """Paper and table."""
        paper, _, table = self.source.split(":")[0].partition(", ")
        return paper, table


@cache
def read_published(name: str) -> Published:
    """Read a table of published figures by the name of its file."""
    path = PUBLISHED / f"{name}.csv"
    rows = pl.read_csv(path, infer_schema_length=None)
    texts = pl.read_csv(path, infer_schema=False).fill_null("")
    sources = "; ".join(rows["source"].unique(maintain_order=True))
    return Published(rows.drop("source"), texts.drop("source"), sources)


# --- which benchmarks of a config are what the papers evaluated

OWN_TEXT = "documents and questions of its own"
NO_TITLES = "documents without their titles"
FOUR_DOMAINS = "posir_four_domains"
CONTROLLED_DOMAINS = {
    *("finance_economics", "law_judiciary", "news_media", "subject_education_education"),
}
"""Of PosIR, those that Controlled took (appendix E)."""
Facts = Mapping[str, Mapping[str, str]]
"""Benchmark id -> ``data`` and ``differs``, as of `published_facts`."""


def published_facts(benchmarks: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Map benchmark ids to the published data they stand for, and what is known to differ.

    Recipes that no paper has a table of retrieval scores for are left out; of PosIR's release, its
    data are those of Controlled if it has just their four domains; so is the view before
    false negatives were removed, which the papers do not evaluate. The view ``ID-tiny`` counts as
    a benchmark. ``data`` is squad_posq, fineweb_posq, fineweb_myopic or posir; ``differs`` says
    what differs from the paper's data whatever its size, empty if nothing does.
    """
    found: dict[str, dict[str, str]] = {}
    for name, section in benchmarks.items():
        data, differs = section.recipe.removesuffix("_release"), ""
        if isinstance(section, SquadPosq | FinewebPosqRelease):
            text = "context" if isinstance(section, SquadPosq) else "passage"
            if section.labels != "published":
                differs = f"every {text} with the question counts (labels: all)"
        elif isinstance(section, Posir | FinewebPosq):
            differs = OWN_TEXT
            if isinstance(section, FinewebPosq) and section.generate_questions.tagging == "myopic":
                data = "fineweb_myopic"
        elif isinstance(section, Beir):
            data, differs = f"beir-{section.evidence.layout}", "" if section.titles else NO_TITLES
            if data not in DATA_TEXTS:
                continue
        elif isinstance(section, PosirRelease):
            data = FOUR_DOMAINS if set(section.domains or ()) == CONTROLLED_DOMAINS else "posir"
        else:
            continue
        ids = [name, view_id(name, TINY)] if TINY in evaluated_views(section) else [name]
        found |= {one: {"data": data, "differs": differs} for one in ids}
    return found


# --- the papers' figures one by one

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
    FOUR_DOMAINS: "four domains of PosIR",
    "beir-scifact": "SciFact of BEIR",
    "beir-hotpotqa": "HotpotQA of BEIR",
    "beir-fever": "FEVER of BEIR",
    "beir-climate-fever": "Climate-FEVER of BEIR",
}
SEED = 42
"""Of every model that Controlled trained (table 10)."""
TRAINED = {
    "squad_posq": ("SQuAD-PosQ", "squad_posq", "squad"),
    "fineweb_posq": ("FineWeb-PosQ", "fineweb_posq", "thirds"),
    "posir": ("PosIR, four domains", FOUR_DOMAINS, "relative-20"),
}
"""Panel, data and buckets of the benchmarks that Controlled trained models were run on."""
EVERY_MODEL = "all"
"""In place of a model: the mean over Controlled's eight bases."""
# queries of the full and of the tiny subset: PosQ, sections 3.1 and 3.2; Myopic, table 2
FULL_SIZES = {"squad_posq": 92_749, "fineweb_posq": 25_775, "fineweb_myopic": 265_865}
TINY_SIZES = {"squad_posq": 10_000, "fineweb_posq": 3_000, "fineweb_myopic": 6_620}
FULL_KINDS = ("sparse", "dense")
"""Kinds evaluated on the full subsets; the others on the tiny ones (PosQ, section 4.1)."""
SUBSET_UNKNOWN = "the paper does not say which subset it is about"
BUCKETS_UNKNOWN = "the paper does not say which buckets and language it is about"
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
def published_figures() -> pl.DataFrame:
    """Return the retrieval scores of the papers' tables, in their order, in columns `FIGURES`.

    A figure that a paper leaves out (a dash) has no row.
    """
    ids = dict(read_published("models").rows.iter_rows())
    sizes = read_published("posir_table4").rows.select("language", "n_queries")
    n_queries = dict(sizes.iter_rows())
    # English and Chinese queries search no corpus of another language
    n_queries["crossed"] = n_queries[EVERY] - n_queries[ENGLISH] - n_queries["cmn-Hans"]
    found = []
    for name, about in read_yaml(PUBLISHED / INDEX).items():
        table, parts = read_published(name), about.get("figures", [])
        paper, number = table.place
        units = {column: _unit(table, column) for part in parts for column in part["of"]}
        for row in table.rows.iter_rows(named=True) if parts else ():
            printed = row.get("model") or f"{row['dataset']}, mean over models"
            known = {"spec": name, "paper": paper, "table": number, "model_name": printed}
            known["model"] = ids.get(printed, EVERY_MODEL) + _trained(row)
            for part in parts:
                for column, label in part["of"].items():
                    if row[column] is None:
                        continue
                    scale, decimals = units[column]
                    unit = {"published": row[column] / scale, "scale": scale, "decimals": decimals}
                    asked = row.get("language") or about["language"]
                    figure = _figure(row, part, column, label, asked, n_queries)
                    found.append(known | unit | figure)
    return pl.DataFrame(found, schema=FIGURES, orient="row")


def _trained(row: Mapping[str, Any]) -> str:
    """Return what stands behind the id of a base that was trained; nothing of a model as it is."""
    return f"-{row['training']}-s{SEED}" if "training" in row else ""


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
    asked: str,
    n_queries: Mapping[str, int],
) -> dict[str, Any]:
    """Return the place of a figure on the page, and what its counterpart has to share."""
    section = row.get("section") or (column if column in SECTION_TEXTS else "all")
    is_crossed = row.get("setting") == "cross-lingual"
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
        "caveat": "",
    }
    if "dataset" in row:  # BEIR; its mean over the datasets is no benchmark's
        of = row["dataset"]
        own = {"panel": of if "model" in row else "", "column": row["training"]}
        return shared | own | {"data": "" if of == POOLED else f"beir-{of.lower()}"}
    if "training" in row:
        panel, data, buckets = TRAINED[row["benchmark"]]
        own = {"panel": panel, "column": row["training"], "data": data, "buckets": buckets}
        return (
            shared | own | {"caveat": BUCKETS_UNKNOWN if data == FOUR_DOMAINS else SUBSET_UNKNOWN}
        )
    if "kind" in row:
        sizes = FULL_SIZES if row["kind"] in FULL_KINDS else TINY_SIZES
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
_PAIR = ("benchmark", "model", "query_lang", "corpus_lang")
_ROW = (*_PAIR, "length_bucket", "buckets")


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
    means = (_language_means(own, figures), _model_means(own, figures))
    own = pl.concat([own, *means], how="diagonal_relaxed")
    found = figures.join(own, on=COUNTERPART, how="inner", maintain_order="left_right")
    published, sizes = pl.col("published"), ("n_queries", "n_published")
    size = pl.format("{} queries, the paper has {}", *map(_thousands, sizes))
    told = pl.concat_str(
        pl.col("own_differs", "caveat").replace("", None),
        pl.when(pl.col("n_queries") != pl.col("n_published")).then(size),
        separator="; ",
        ignore_nulls=True,
    )
    found = found.with_columns(
        difference=pl.col("own") - published,
        inside=_inside(),
        differs=told.replace("", None),
    )
    columns = dict.fromkeys([*PUBLISHED_COMPARISON.column_names, "spec", *PLACE])
    return found.select(*columns, "scale", "decimals")


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
    metrics = compared_metrics(psi_table, facts)
    known = pl.DataFrame(
        [(name, fact["data"], fact["differs"], metrics[name]) for name, fact in facts.items()],
        schema=dict.fromkeys(("benchmark", "data", "own_differs", "metric"), pl.String),
        orient="row",
    )
    table, scores = (
        rows.filter(domain=POOLED, evidence="all").join(known, on=["benchmark", "metric"])
        for rows in (psi_table, bucket_scores)
    )
    table = table.join(mean_intervals(table, scores), on=_ROW, how="left")
    columns = (*_ROW, "data", "own_differs", "metric", "bucket", "quantity", "own", "low", "high")
    parts = [
        table.with_columns(
            bucket=pl.lit(""),
            quantity=pl.lit(quantity),
            own=quantity,
            low=f"{quantity}_low",
            high=f"{quantity}_high",
        ).select(columns)
        for quantity in ("mean", "mean_of_buckets", "psi")
    ]
    parts.append(scores.with_columns(quantity=pl.lit("bucket_mean"), own="mean").select(columns))
    sizes = table.filter(length_bucket=POOLED).group_by(_PAIR).agg(pl.col("n_queries").max())
    return pl.concat(parts).drop_nulls("own").join(sizes, on=_PAIR, how="left")


def compared_metrics(psi_table: pl.DataFrame, facts: Facts) -> dict[str, str]:
    """Return which metric of each benchmark stands beside the papers' figures."""
    averaged = set(psi_table.filter(metric=TIES_AVERAGED)["benchmark"])
    return {
        name: TIES_AVERAGED if name in averaged and fact["data"] in AVERAGES_TIES else METRIC
        for name, fact in facts.items()
    }


def mean_intervals(table: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Combine bucket intervals into those of the mean over queries and over buckets.

    The buckets hold different queries, and are taken as independent, though queries of one
    document may sit in several: the half-widths of a weighted sum of bucket means add up in
    squares: ``low = mean - sqrt(sum (w_i (mean_i - low_i))**2)``, and ``high`` likewise.
    Weights are shares of the queries for the mean over queries, equal for the mean over buckets.

    ``table`` and ``scores`` are PSI_TABLE and BUCKET_SCORES rows, one per `_ROW` (and bucket).
    Returns `_ROW`, mean_low, mean_high, mean_of_buckets_low, mean_of_buckets_high. Rows of schemes
    whose buckets share or leave out queries have none, nor has a mean over buckets that leaves out
    buckets with queries.
    """
    n = pl.col("n_queries")
    weights = {"mean": n / n.sum(), "mean_of_buckets": 1 / pl.len()}
    ends = {"low": -1, "high": 1}
    sums = scores.filter(n > 0).group_by(_ROW)
    summed = sums.agg(
        pl.len().alias("n_filled"),
        n.sum().alias("n_in_buckets"),
        *(
            (weight * (pl.col(end) - pl.col("mean"))).pow(2).sum().sqrt().alias(f"{mean}_{end}")
            for mean, weight in weights.items()
            for end in ends
        ),
    )
    is_disjoint = pl.col("n_in_buckets") == n
    is_full = pl.col("n_filled") == pl.col("n_buckets")
    holds = {"mean": is_disjoint, "mean_of_buckets": is_disjoint & is_full}
    intervals = (
        pl.when(condition)
        .then(pl.col(mean) + sign * pl.col(f"{mean}_{end}"))
        .alias(f"{mean}_{end}")
        for mean, condition in holds.items()
        for end, sign in ends.items()
    )
    return table.join(summed, on=_ROW).select(*_ROW, *intervals)


def _language_means(own: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average own figures over PosIR's languages, as tables 2 and 3 do.

    Only a benchmark with all of the paper's languages has a mean: one over others is no
    counterpart. It has no interval: the languages' queries are translations of one another, so
    their errors are not independent.
    """
    posir = figures.filter(pl.col("data") == "posir", pl.col("query_lang") != EVERY)
    pairs = posir.select("query_lang", "corpus_lang").unique()
    is_crossed = (pl.col("query_lang") != pl.col("corpus_lang")).alias("is_crossed")
    wanted = pairs.group_by(is_crossed).len("n")
    keys = ["benchmark", *(n for n in COUNTERPART if n not in pairs.columns)]
    return (
        own.filter(data="posir")
        .join(pairs, on=pairs.columns, how="semi")
        .group_by(*keys, "metric", "own_differs", is_crossed, maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("own").mean(), pl.col("n_queries").sum())
        .join(wanted, on=["is_crossed", "n"], how="semi", maintain_order="left")
        .with_columns(
            query_lang=pl.lit(EVERY),
            corpus_lang=pl.when("is_crossed").then(pl.lit(ENGLISH)).otherwise(pl.lit(EVERY)),
        )
        .drop("is_crossed", "n")
    )


def _model_means(own: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average own figures over Controlled's eight bases of one training, as its Table 4 does.

    Only a benchmark that all of them were run on has a mean. It has no interval.
    """
    of_model = figures.filter(spec="controlled_table14").select("model", "data", "column").unique()
    wanted = of_model.group_by("data", "column").agg(n=pl.len())
    keys = ["benchmark", *(name for name in COUNTERPART if name != "model")]
    return (
        own.join(of_model, on=["model", "data"])
        .group_by(*keys, "metric", "own_differs", "column", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("own").mean(), pl.col("n_queries").max())
        .join(wanted, on=["data", "column", "n"], how="semi", maintain_order="left")
        .with_columns(model=pl.format("{}-{}-s{}", pl.lit(EVERY_MODEL), "column", pl.lit(SEED)))
        .drop("column", "n")
    )


# --- probes beside them


def probes_beside(rows: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return the papers' tables of probes with a run's figures beneath the models that it has.

    ``rows`` are PROBE_TABLE rows of one benchmark and language, over all domains and documents.
    """
    index, ids = read_yaml(PUBLISHED / INDEX), dict(read_published("models").rows.iter_rows())
    found = []
    for name, about in index.items():
        if "probe" not in about:
            continue
        table, printed, own = read_published(name), list[dict[str, Any]](), list[dict[str, Any]]()
        for row in table.rows.iter_rows(named=True):
            mine = rows.filter(probe=about["probe"], model=ids[row["model"]] + _trained(row))
            if "places" in about:
                mine = mine.filter(n_places=about["places"])
            names = [row[n] for n in ("dataset", "model", "training") if row.get(n)]
            for column, figure in about["of"].items():
                scale = 1000 if column.endswith("_x1000") else 1
                place: dict[str, Any] = {"group": "", "column": _heading(column)}
                place |= {"model_name": ", ".join(names), "benchmark": benchmark}
                place |= {"scale": scale, "decimals": _unit(table, column)[1]}
                place["published"] = row[column] / scale
                value = _probed(mine, figure)
                printed += [] if mine.is_empty() else [place]
                own += [] if value is None else [place | value]
        if own:
            own_rows = pl.DataFrame(own, infer_schema_length=None).with_columns(
                difference=pl.col("own") - pl.col("published"), inside=_inside()
            )
            grid = _grid(", ".join(table.place), "", pl.DataFrame(printed), own_rows)
            found.append(replace(grid, name=f"{grid.name}: {about['title']}", note=about["text"]))
    return found


def _probed(rows: pl.DataFrame, figure: str | Sequence[str]) -> dict[str, Any] | None:
    """Return a figure of a model's probe: own, low, high; None where it has none.

    ``figure``: measure and, where it matters, condition; or highest or lowest, the place where the
    cosine with the query is.
    """
    if isinstance(figure, str):
        places = rows.filter(pl.col("place") > 0, measure="cosine").sort(
            "value", descending=figure == "highest", maintain_order=True
        )
        if places.is_empty():
            return None
        return {"own": float(places["place"][0]), "low": None, "high": None}
    measure, *condition = figure
    mine = rows.filter(pl.col("measure") == measure, *(pl.col("condition") == c for c in condition))
    if mine.height != 1:
        return None
    return mine.select(own="value", low="low", high="high").row(0, named=True)


def _inside() -> pl.Expr:
    """Whether a published figure lies in the own one's interval, granting it its rounding."""
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    low, high = (pl.col(name).cast(pl.Float64) for name in ("low", "high"))
    return (published + half >= low) & (published - half <= high)


# --- the page

SUMMARY_HEADER = (
    *("Table", "What", "Published figures", "Run here", "Not run here", "Comparisons"),
    *("With an interval", "Published inside it"),
)


def sections(figures: pl.DataFrame, found: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a section per table of `published_figures`; ``found`` as `compare` returns it.

    With several benchmarks there are more comparisons than figures compared. ``missing`` are the
    models none of whose figures has a counterpart; ``differs`` is, per benchmark that has some,
    what differs from the paper's data. ``panels``: grids, and whether a run's rows are in them.
    """
    index, shown = read_yaml(PUBLISHED / INDEX), []
    for (name,), printed in figures.group_by("spec", maintain_order=True):
        own, measured = found.filter(spec=name), printed.filter(pl.col("data") != "")
        ran, known = set(own["model_name"]), own["inside"].drop_nulls()
        source = ", ".join(printed.select("paper", "table").row(0))
        panels = [
            (_grid(source, str(panel), part, mine), mine.height > 0)
            for (panel,), part in printed.group_by("panel", maintain_order=True)
            for mine in [own.filter(panel=panel)]
        ]
        shown.append(
            {
                "id": name,
                "source": source,
                "title": index[name]["title"],
                "text": index[name]["text"],
                "panels": panels,
                "n_figures": measured.height,
                "n_compared": own.select(PLACE).n_unique(),
                "n_comparisons": own.height,
                "n_with_interval": known.len(),
                "n_inside": int(known.sum()),
                "missing": [m for m in dict.fromkeys(measured["model_name"]) if m not in ran],
                "differs": _differences(own),
            }
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


def _grid(source: str, panel: str, printed: pl.DataFrame, own: pl.DataFrame) -> Table:
    """Return a paper's grid with a run's rows beneath each model."""
    places = printed.select("group", "column").unique(maintain_order=True).rows()
    rows: list[tuple[str, ...]] = []
    looks: list[str] = []

    def add(name: str, figures: pl.DataFrame, *, is_own: bool) -> None:
        known = {(row["group"], row["column"]): row for row in figures.iter_rows(named=True)}
        rows.append((name, *(_cell(known.get(place), is_own=is_own) for place in places)))
        looks.append("own" if is_own else "")

    for (model,), theirs in printed.group_by("model_name", maintain_order=True):
        add(str(model), theirs, is_own=False)
        mine = own.filter(model_name=model).group_by("benchmark", maintain_order=True)
        for (benchmark,), ours in mine:
            add(Markup("run here: <bdi>{}</bdi>").format(benchmark), ours, is_own=True)
    widths = Counter(group for group, _ in places)
    return Table(
        f"{source}: {panel}" if panel else source,
        ("Model", *(column for _, column in places)),
        tuple(rows),
        n_names=1,
        groups=(("", 1), *widths.items()),
        looks=tuple(looks),
        css="beside",
    )


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


def printed_tables() -> list[Table]:
    """Return the tables without rows in the result tables: digits as printed, wide where long."""
    shown = []
    for name, about in read_yaml(PUBLISHED / INDEX).items():
        if "figures" in about:
            continue
        table, types = read_published(name), read_published(name).rows.schema
        whole = [column for column, kind in types.items() if kind.is_integer()]
        texts = table.texts.with_columns(map(_thousands, whole))
        n_names = max(1, len(list(takewhile(lambda kind: kind == pl.String, types.dtypes()))))
        groups: tuple[tuple[str, int], ...] = ()
        header = [*map(_heading, texts.columns)]
        if "wide" in about:
            keys, by = about["wide"]["rows"], about["wide"]["groups"]
            values = [c for c, kind in types.items() if kind.is_numeric() and c not in (*keys, by)]
            texts, header, groups = _wide(texts, keys, by, values)
            n_names = len(keys)
        title = f"{', '.join(table.place)}: {about['title']}"
        note = about.get("text", "")
        shown.append(Table(title, tuple(header), tuple(texts.rows()), n_names, groups, note))
    return shown


def _heading(column: str) -> str:
    special = {"ndcg_at_10": "nDCG@10", "psi": "PSI", "mae": "MAE"}
    return special.get(column, column.replace("_x1000", " × 1000").replace("_", " "))


def _wide(
    texts: pl.DataFrame, keys: list[str], by: str, values: list[str]
) -> tuple[pl.DataFrame, list[str], tuple[tuple[str, int], ...]]:
    """Put the rows that differ in ``by`` alone side by side, as the paper does, with headings.

    One or two values make a block of columns each, as in nDCG, then PSI; more are together under
    the group they are of.
    """
    groups = texts[by].unique(maintain_order=True).to_list()
    wide = texts.pivot(by, index=keys, values=values)
    outer, inner = (values, groups) if len(values) < 3 else (groups, values)
    columns = groups if len(values) == 1 else [f"{v}_{g}" for v in values for g in groups]
    if outer is groups:
        columns = [f"{value}_{group}" for group in groups for value in values]
    header = [_heading(name) for name in (*keys, *inner * len(outer))]
    headings = (("", len(keys)), *((_heading(name), len(inner)) for name in outer))
    return wide.select(*keys, *columns), header, headings


@stage("published", version=4)
def run_published(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    benchmarks: Mapping[str, Benchmark],
    published: Sequence[str | Path],
    run_title: str,
    parquet: str | Path,
    csv: str | Path,
    html: str | Path,
) -> None:
    """Write the comparison as table and CSV, and the page.

    Parameters
    ----------
    published
        The papers' files.
    run_title
        What the config calls its report.
    """
    facts, figures = published_facts(benchmarks), published_figures()
    own = read_table(psi_table, PSI_TABLE)
    found = compare(
        figures,
        psi_table=own,
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        facts=facts,
    )
    files = {str(path): hash_file(path) for path in published}
    source = derived(
        "published", [psi_table, bucket_scores], params={"benchmarks": facts}, files=files
    )
    table = found.select(PUBLISHED_COMPARISON.column_names)
    write_table(table, parquet, PUBLISHED_COMPARISON, provenance=source)
    write_csv(table, csv)
    record = read_provenance(psi_table) or {}
    made_of = {"rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of |= {f"published {Path(name).name}": text for name, text in sorted(files.items())}
    shown, metrics = sections(figures, found), compared_metrics(own, facts)
    summary = text_rows(
        shown,
        *("source", "title"),
        *each(count, "n_figures", "n_compared"),
        lambda row: count(row["n_figures"] - row["n_compared"]),
        *each(count, "n_comparisons", "n_with_interval", "n_inside"),
    )
    page = render_page(
        "published.html",
        title="Published figures and this run's",
        created=now(),
        made_of=made_of,
        run_title=run_title,
        styles=("report.css", "published.css"),
        sections=shown,
        benchmarks=[
            (name, DATA_TEXTS[fact["data"]], metrics[name], fact["differs"])
            for name, fact in facts.items()
        ],
        summary=Table("What was run here", SUMMARY_HEADER, summary),
        tables=printed_tables(),
    )
    write_text(page, html)
