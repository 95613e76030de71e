"""Stage ``published``: a run's results compared with the papers', as a table and a page.

The comparison is one join on model, data, languages, length, buckets and quantity (`COUNTERPART`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.generate.benchmarks import (
    TINY_VIEW,
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
from psibench.papers.figures import (
    CELL_COLUMNS,
    COUNTERPART,
    DATA_TEXTS,
    ENGLISH,
    EVERY,
    EVERY_MODEL,
    FOUR_DOMAINS,
    TRAINING_SEED,
    published_figures,
    read_index,
)
from psibench.report.beside import grid, inside
from psibench.report.tables import render_page
from psibench.tables import hash_file, read_provenance, write_csv
from psibench.tables.atomic import write_text
from psibench.tables.job import Job
from psibench.tables.provenance import now
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, PUBLISHED_COMPARISON
from psibench.tables.spec import ALL
from psibench.tables.stage import stage

PAGE_TEMPLATE = Path(__file__).with_name("published.html")

# --- Benchmarks of a config and the data of the papers

OWN_TEXT = "other documents and questions than the paper's"
NO_TITLES = "documents without titles"
CONTROLLED_DOMAINS = {
    *("finance_economics", "law_judiciary", "news_media", "subject_education_education"),
}
"""The domains of PosIR that Controlled used (appendix E)."""
PublishedFacts = Mapping[str, Mapping[str, str]]
"""``data`` and ``differs`` by benchmark id, see `published_facts`."""


def published_facts(benchmarks: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the published data of each benchmark, and its known differences.

    Leaves out recipes without published retrieval scores, and views except ``ID-tiny``. ``data`` is
    one of `DATA_TEXTS`; ``differs`` describes differences from the paper's data other than size,
    and is empty without differences.
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
        ids = [name, view_id(name, TINY_VIEW)] if TINY_VIEW in evaluated_views(section) else [name]
        found |= {one: {"data": data, "differs": differs} for one in ids}
    return found


# --- Published values and a run's values

METRIC, TIES_AVERAGED = "ndcg@10", "ndcg-tie-averaged@10"
AVERAGES_TIES = ("squad_posq", "fineweb_posq", "fineweb_myopic")
"""Data whose authors compute nDCG with the mean rank for documents of equal score."""
_PAIR = ("benchmark", "model", "query_lang", "corpus_lang")


def compare_with_published(
    figures: pl.DataFrame,
    *,
    psi_table: pl.DataFrame,
    bucket_scores: pl.DataFrame,
    facts: PublishedFacts,
) -> pl.DataFrame:
    """Join the values of `published_figures` with their counterparts in a run.

    Uses PSI_TABLE and BUCKET_SCORES rows over all domains and all evidence, of benchmarks with
    `PublishedFacts`, in the metric of `compared_metrics`.

    Returns the columns of PUBLISHED_COMPARISON, then cell and printed form as in
    `PUBLISHED_SCHEMA`: one row per published value and benchmark with a counterpart. All values are
    in [0, 1]. ``inside`` allows for half a unit of the last printed digit; it is null if the run's
    value has no interval.
    """
    measured = _run_figures(psi_table, bucket_scores, facts)
    means = (_language_means(measured, figures), _model_means(measured, figures))
    measured = pl.concat([measured, *means], how="diagonal_relaxed")
    found = figures.join(measured, on=COUNTERPART, how="inner", maintain_order="left_right")
    size = pl.format(
        "{} queries, the paper has {}", *(_thousands(n) for n in ("n_queries", "n_published"))
    )
    differences = pl.concat_str(
        pl.col("own_differs", "caveat").replace("", None),
        pl.when(pl.col("n_queries") != pl.col("n_published")).then(size),
        separator="; ",
        ignore_nulls=True,
    )
    found = found.with_columns(
        difference=pl.col("own") - pl.col("published"),
        inside=inside(),
        differs=differences.replace("", None),
    )
    columns = dict.fromkeys([*PUBLISHED_COMPARISON.column_names, "spec", *CELL_COLUMNS])
    return found.select(*columns, "scale", "decimals")


def _thousands(name: str) -> pl.Expr:
    return pl.col(name).map_elements(lambda n: f"{int(n):,}" if n else "", return_dtype=pl.String)


def _run_figures(
    psi_table: pl.DataFrame, bucket_scores: pl.DataFrame, facts: PublishedFacts
) -> pl.DataFrame:
    """Return a run's values one by one, see `compare_with_published`.

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
    none = pl.lit(None, pl.Float64)  # the tables have no interval of a mean
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


def compared_metrics(psi_table: pl.DataFrame, facts: PublishedFacts) -> dict[str, str]:
    """Return the metric of each benchmark for the comparison with the papers."""
    averaged = set(psi_table.filter(metric=TIES_AVERAGED)["benchmark"])
    return {
        name: TIES_AVERAGED if name in averaged and fact["data"] in AVERAGES_TIES else METRIC
        for name, fact in facts.items()
    }


def _language_means(measured: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average a run's values over PosIR's languages, like its tables 2 and 3.

    The means have no interval: the queries are translations of each other, so their errors are not
    independent.
    """
    posir = figures.filter(pl.col("data") == "posir", pl.col("query_lang") != EVERY)
    is_crossed = pl.col("query_lang") != pl.col("corpus_lang")
    pairs = posir.select("query_lang", "corpus_lang", "data", group=is_crossed).unique()
    means = _means_of_all(measured, pairs, pl.col("n_queries").sum())
    corpus = pl.when("group").then(pl.lit(ENGLISH)).otherwise(pl.lit(EVERY))
    return means.with_columns(query_lang=pl.lit(EVERY), corpus_lang=corpus).drop("group")


def _model_means(measured: pl.DataFrame, figures: pl.DataFrame) -> pl.DataFrame:
    """Average a run's values over Controlled's eight base models, like its Table 4."""
    table = figures.filter(spec="controlled_table14")
    bases = table.select("model", "data", group="column").unique()
    means = _means_of_all(measured, bases, pl.col("n_queries").max())
    model = pl.format("{}-{}-s{}", pl.lit(EVERY_MODEL), "group", pl.lit(TRAINING_SEED))
    return means.with_columns(model=model).drop("group")


def _means_of_all(measured: pl.DataFrame, wanted: pl.DataFrame, n_queries: pl.Expr) -> pl.DataFrame:
    """Average a run's values over the rows of ``wanted`` per data and group, without interval.

    ``wanted`` has data, group, and the columns to average over. A benchmark that lacks a row of its
    group has no mean.
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


# --- The page


def sections(figures: pl.DataFrame, found: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a section per published table with a counterpart in ``found``.

    Its ``panels`` are the grids of the table with rows of the run.
    """
    index, shown = read_index(), []
    for (name,), rows in found.group_by("spec", maintain_order=True):
        printed = figures.filter(spec=name)
        source = ", ".join(printed.select("paper", "table").row(0))
        panels = [
            grid(str(panel) or source, printed.filter(panel=panel), mine)
            for (panel,), mine in rows.group_by("panel", maintain_order=True)
        ]
        about = {"title": index[name]["title"], "text": index[name]["text"]}
        shown.append({"id": name, "source": source, "panels": panels, **about})
    return shown


@stage("published", version=5)
def run_published(job: Job) -> None:
    """Write the comparison as table, CSV and page.

    Inputs: ``psi_table``, ``bucket_scores``, and ``published``, the papers' files. ``benchmarks``
    are the sections to compare, ``run_title`` is the title of the report in the config.
    """
    facts = published_facts(job.value("benchmarks", Mapping[str, Benchmark]))
    figures, psi = published_figures(), job.read("psi_table", PSI_TABLE)
    found = compare_with_published(
        figures,
        psi_table=psi,
        bucket_scores=job.read("bucket_scores", BUCKET_SCORES),
        facts=facts,
    )
    files = {path: hash_file(path) for path in job.paths("published")}
    table = found.select(PUBLISHED_COMPARISON.column_names)
    params = {"benchmarks": facts}
    job.write("parquet", table, PUBLISHED_COMPARISON, params=params, files=files)
    write_csv(table, str(job.outputs["csv"]))
    record = read_provenance(job.path("psi_table")) or {}
    made_of = {"rows of the PSI table": str(record.get("rows_hash", ""))}
    made_of |= {f"published {Path(name).name}": text for name, text in sorted(files.items())}
    metrics = compared_metrics(psi, facts)
    page = render_page(
        PAGE_TEMPLATE,
        title="Published results and this run's",
        created=now(),
        made_of=made_of,
        run_title=job.value("run_title"),
        sections=sections(figures, found),
        benchmarks=[
            (name, DATA_TEXTS[fact["data"]], metrics[name], fact["differs"])
            for name, fact in facts.items()
        ],
    )
    write_text(page, str(job.outputs["html"]))
