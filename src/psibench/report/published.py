"""Figures of the papers beside a run's own: read, found again in a run, and shown on a page.

The CSV files of ``config/published`` are the papers' tables, with the digits they give; shares are
percentages divided by 100, and every row names its paper and table in the column ``source``.
``tables.yaml`` beside them says what each table is about. The comparison is one join: what a
published figure and a figure of a run share is model, data, languages, length, buckets and
quantity (`COUNTERPART`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

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
from psibench.report.tables import Table, render_page, table_of
from psibench.report.views import Row
from psibench.tables import hash_file, read_provenance, read_table, write_csv, write_table
from psibench.tables.atomic import write_text
from psibench.tables.derived import derived
from psibench.tables.provenance import now
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, PUBLISHED_COMPARISON
from psibench.tables.spec import ALL
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

    Recipes that no paper has a table of retrieval scores for are left out, and so is the view
    before false negatives were removed; the view ``ID-tiny`` counts as a benchmark. ``data`` is one
    of `DATA_TEXTS`; ``differs`` says what differs from the paper's data whatever its size, empty if
    nothing does.
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
            data = FOUR_DOMAINS if set(section.named_domains()) == CONTROLLED_DOMAINS else "posir"
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
EVERY_MODEL = "all"
"""In place of a model: the mean over Controlled's eight bases."""
FULL_KINDS = ("sparse", "dense")
"""Kinds evaluated on the full subsets; the others on the tiny ones (PosQ, section 4.1)."""
PLACE = ("panel", "model_name", "group", "column")
COUNTERPART = (
    *("model", "data", "query_lang", "corpus_lang", "length_bucket", "buckets", "bucket"),
    "quantity",
)
_TEXTS = ("spec", "paper", "table", *PLACE, *COUNTERPART, "caveat")
_NUMBERS = ("scale", "decimals", "n_published")
FIGURES: dict[str, Any] = dict.fromkeys(_TEXTS, pl.String) | {"published": pl.Float64}
FIGURES |= dict.fromkeys(_NUMBERS, pl.Int64)
"""Columns of a published figure: its file, place in the table as shown (`PLACE`; model_name as
printed), what a counterpart has to share (`COUNTERPART`; data as in `published_facts`, empty: not
measured here), what the paper leaves open, the value in [0, 1], which is printed times scale with
so many decimals, and the queries of the paper's data, null if it does not say."""


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
                is_of_row = part.get("where", {}).items() <= row.items()
                for column, label in part["of"].items() if is_of_row else ():
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
        "panel": part.get("panel", ""),
        "group": part.get("group", asked),
        "column": row.get("training", label),
        "data": part.get("data", ""),
        "query_lang": asked,
        "corpus_lang": ENGLISH if is_crossed else asked,
        "length_bucket": ALL if section == "all" else section.upper(),
        "buckets": part.get("buckets", ""),
        "bucket": label if part["quantity"] == "bucket_mean" else "",
        "quantity": part["quantity"],
        "caveat": part.get("caveat", ""),
    }
    if "dataset" in row:  # BEIR; its mean over the datasets is no benchmark's
        of = row["dataset"]
        data = "" if of == ALL else f"beir-{of.lower()}"
        return shared | {"panel": of if "model" in row else "", "data": data}
    if "training" in row:
        return shared
    if "kind" in row:
        size = "full" if row["kind"] in FULL_KINDS else "tiny"
        return shared | {"n_published": part["queries"][size]}
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


def compare(
    figures: pl.DataFrame,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    facts: Facts,
) -> pl.DataFrame:
    """Join published figures, as `published_figures` has them, with their counterparts in a run.

    Of the run's PSI_TABLE and BUCKET_SCORES rows those over all domains and all queries count, of
    benchmarks with `Facts`, by the metric of `compared_metrics`.

    Returns the columns of PUBLISHED_COMPARISON, then place and printed form as in `FIGURES`: one
    row per figure and benchmark with a counterpart, in the figures' order. All values are in
    [0, 1]. ``inside`` grants the published figure half a unit of its last printed digit; it is
    null where the own figure has no interval.
    """
    measured = _run_figures(psi_table, bucket_scores, facts)
    means = (_language_means(measured, figures), _model_means(measured, figures))
    measured = pl.concat([measured, *means], how="diagonal_relaxed")
    found = figures.join(measured, on=COUNTERPART, how="inner", maintain_order="left_right")
    size = pl.format(
        "{} queries, the paper has {}", *(_thousands(n) for n in ("n_queries", "n_published"))
    )
    told = pl.concat_str(
        pl.col("own_differs", "caveat").replace("", None),
        pl.when(pl.col("n_queries") != pl.col("n_published")).then(size),
        separator="; ",
        ignore_nulls=True,
    )
    found = found.with_columns(
        difference=pl.col("own") - pl.col("published"),
        inside=_inside(),
        differs=told.replace("", None),
    )
    columns = dict.fromkeys([*PUBLISHED_COMPARISON.column_names, "spec", *PLACE])
    return found.select(*columns, "scale", "decimals")


def _thousands(name: str) -> pl.Expr:
    """Return whole numbers as text, with commas."""
    return pl.col(name).map_elements(lambda n: f"{int(n):,}" if n else "", return_dtype=pl.String)


def _run_figures(
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
        rows.filter(domain=ALL, evidence="all").join(known, on=["benchmark", "metric"])
        for rows in (psi_table, bucket_scores)
    )
    none = pl.lit(None, pl.Float64)  # of a mean there is no interval in the tables
    columns = [*_PAIR, "length_bucket", "buckets", "bucket", "data", "own_differs", "metric"]
    columns += ["quantity", "own", "low", "high"]
    parts = [
        table.with_columns(
            bucket=pl.lit(""),
            quantity=pl.lit(quantity),
            own=quantity,
            low="psi_low" if quantity == "psi" else none,
            high="psi_high" if quantity == "psi" else none,
        ).select(columns)
        for quantity in ("mean", "mean_of_buckets", "psi")
    ]
    parts.append(scores.with_columns(quantity=pl.lit("bucket_mean"), own="mean").select(columns))
    sizes = table.filter(length_bucket=ALL).group_by(_PAIR).agg(pl.col("n_queries").max())
    return pl.concat(parts).drop_nulls("own").join(sizes, on=_PAIR, how="left")


def compared_metrics(psi_table: pl.DataFrame, facts: Facts) -> dict[str, str]:
    """Return which metric of each benchmark stands beside the papers' figures."""
    averaged = set(psi_table.filter(metric=TIES_AVERAGED)["benchmark"])
    return {
        name: TIES_AVERAGED if name in averaged and fact["data"] in AVERAGES_TIES else METRIC
        for name, fact in facts.items()
    }


def _language_means(measured: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average a run's figures over PosIR's languages, as tables 2 and 3 do.

    It has no interval: the languages' queries are translations of one another, so their errors are
    not independent.
    """
    posir = figures.filter(pl.col("data") == "posir", pl.col("query_lang") != EVERY)
    is_crossed = pl.col("query_lang") != pl.col("corpus_lang")
    pairs = posir.select("query_lang", "corpus_lang", "data", group=is_crossed).unique()
    means = _means_of_all(measured, pairs, pl.col("n_queries").sum())
    corpus = pl.when("group").then(pl.lit(ENGLISH)).otherwise(pl.lit(EVERY))
    return means.with_columns(query_lang=pl.lit(EVERY), corpus_lang=corpus).drop("group")


def _model_means(measured: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average a run's figures over Controlled's eight bases of a training, as its Table 4 does."""
    table = figures.filter(spec="controlled_table14")
    bases = table.select("model", "data", group="column").unique()
    means = _means_of_all(measured, bases, pl.col("n_queries").max())
    model = pl.format("{}-{}-s{}", pl.lit(EVERY_MODEL), "group", pl.lit(SEED))
    return means.with_columns(model=model).drop("group")


def _means_of_all(measured: pl.DataFrame, wanted: pl.DataFrame, n_queries: pl.Expr) -> pl.DataFrame:
    """Average a run's figures over all that is ``wanted`` of one data and group; no interval.

    ``wanted``: data, group, and the columns averaged over. A benchmark that lacks one of them has
    no mean: one over others is no counterpart.
    """
    over = [name for name in wanted.columns if name != "group"]
    keys = ["benchmark", "data", *(name for name in COUNTERPART if name not in over)]
    sizes = wanted.group_by("data", "group").agg(n=pl.len())
    return (
        measured.join(wanted, on=over)
        .group_by(*keys, "metric", "own_differs", "group", maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("own").mean(), n_queries)
        .join(sizes, on=["data", "group", "n"], how="semi", maintain_order="left")
        .drop("n")
    )


# --- probes beside them


def probes_beside(rows: pl.DataFrame, benchmark: str) -> list[Table]:
    """Return the papers' tables of probes with a run's figures beneath the models that it has.

    ``rows`` are PROBE_TABLE rows of one benchmark and language, over all domains and documents. A
    figure is compared if the benchmark has the id that the preset of the table gives to its data.
    """
    ids = dict(read_published("models").rows.iter_rows())
    found = []
    for name, about in read_yaml(PUBLISHED / INDEX).items():
        if "probe" not in about:
            continue
        table, figures = read_published(name), list[dict[str, Any]]()
        for row in table.rows.iter_rows(named=True):
            if about["benchmarks"][row.get("dataset", EVERY)] != benchmark:
                continue
            mine = rows.filter(probe=about["probe"], model=ids[row["model"]] + _trained(row))
            if "places" in about:
                mine = mine.filter(n_places=about["places"])
            if mine.is_empty():
                continue
            names = [row[n] for n in ("dataset", "model", "training") if row.get(n)]
            for column, figure in about["of"].items():
                scale = 1000 if column.endswith("_x1000") else 1
                heading = column.replace("_x1000", " × 1000").replace("_", " ")
                place = {"group": "", "column": heading, "model_name": ", ".join(names)}
                unit = {"scale": scale, "decimals": _unit(table, column)[1]}
                value = {"published": row[column] / scale, **_probed(mine, figure)}
                figures.append(place | {"benchmark": benchmark} | unit | value)
        every = pl.DataFrame(figures, infer_schema_length=None)
        if figures and every["own"].count():
            measured = every.drop_nulls("own").with_columns(
                difference=pl.col("own") - pl.col("published"), inside=_inside()
            )
            title = f"{', '.join(table.place)}: {about['title']}"
            found.append(replace(_grid(title, every, measured), note=about["text"]))
    return found


def _probed(rows: pl.DataFrame, figure: str | Sequence[str]) -> dict[str, Any]:
    """Return a figure of a model's probe: own, low, high; null where it has none.

    ``figure``: measure and, where it matters, condition; or highest or lowest, the place where the
    cosine with the query is.
    """
    nothing = dict.fromkeys(("own", "low", "high"))
    if isinstance(figure, str):
        places = rows.filter(pl.col("place") > 0, measure="cosine").sort(
            "value", descending=figure == "highest", maintain_order=True
        )
        return nothing | ({"own": float(places["place"][0])} if places.height else {})
    measure, *condition = figure
    mine = rows.filter(pl.col("measure") == measure, *(pl.col("condition") == c for c in condition))
    if mine.height != 1:
        return nothing
    return mine.select(own="value", low="low", high="high").row(0, named=True)


def _inside() -> pl.Expr:
    """Whether a published figure lies in the own one's interval, granting it its rounding."""
    half = 0.5 / (pl.col("scale") * 10.0 ** pl.col("decimals")) + 1e-9
    published = pl.col("published")
    low, high = (pl.col(name).cast(pl.Float64) for name in ("low", "high"))
    return (published + half >= low) & (published - half <= high)


# --- the page


def sections(figures: pl.DataFrame, found: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a section per table of a paper that has a counterpart in ``found``.

    ``panels``: those grids of the table that a run's rows are in.
    """
    index, shown = read_yaml(PUBLISHED / INDEX), []
    for (name,), rows in found.group_by("spec", maintain_order=True):
        printed = figures.filter(spec=name)
        source = ", ".join(printed.select("paper", "table").row(0))
        panels = [
            _grid(str(panel) or source, printed.filter(panel=panel), mine)
            for (panel,), mine in rows.group_by("panel", maintain_order=True)
        ]
        about = {"title": index[name]["title"], "text": index[name]["text"]}
        shown.append({"id": name, "source": source, "panels": panels, **about})
    return shown


def _grid(name: str, printed: pl.DataFrame, measured: pl.DataFrame) -> Table:
    """Return a paper's grid with a run's rows beneath each model, starred outside the interval."""
    star = pl.when(pl.col("inside").eq_missing(False)).then(pl.lit("*")).otherwise(pl.lit(""))
    texts = {"the paper": printed.with_columns(text=_printed("published"))}
    for (benchmark,), mine in measured.group_by("benchmark", maintain_order=True):
        told = pl.format("{}\n{}{}", _printed("own"), _printed("difference", "+"), star)
        texts[f"run here: {benchmark}"] = mine.with_columns(text=told)
    models = printed.select(Model="model_name").unique(maintain_order=True).with_row_index()
    cells = pl.concat(
        rows.select(
            "text",
            Model="model_name",
            Figures=pl.lit(who),
            place=pl.format("{}|{}", "group", "column"),
        )
        for who, rows in texts.items()
    )
    ordered = cells.join(models, on="Model").sort("index", maintain_order=True)
    places = (
        printed.select(pl.format("{}|{}", "group", "column"))
        .to_series()
        .unique(maintain_order=True)
    )
    wide = ordered.pivot("place", on_columns=places, index=["Model", "Figures"], values="text")
    return table_of(name, wide)


def _printed(name: str, sign: str = "") -> pl.Expr:
    """Print a column of values in [0, 1] as the paper's table does, with a true minus."""

    def text(row: Row) -> str:
        digits = row["decimals"]
        scaled = round(row[name] * row["scale"], digits)
        said = f"{scaled:{sign}.{digits}f}" if scaled else f"{0:.{digits}f}"
        return said.replace("-", "\N{MINUS SIGN}")

    return pl.struct(name, "scale", "decimals").map_elements(text, pl.String)


@stage("published", version=5)
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
    psi = read_table(psi_table, PSI_TABLE)
    found = compare(
        figures,
        psi_table=psi,
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
    metrics = compared_metrics(psi, facts)
    page = render_page(
        "published.html",
        title="Published figures and this run's",
        created=now(),
        made_of=made_of,
        run_title=run_title,
        sections=sections(figures, found),
        benchmarks=[
            (name, DATA_TEXTS[fact["data"]], metrics[name], fact["differs"])
            for name, fact in facts.items()
        ],
    )
    write_text(page, html)
