"""The papers' tables: read, their figures one by one, and what the report's pages have of them.

The CSV files of ``config/published`` are the papers' tables, with the digits they give; shares are
percentages divided by 100, and every row names its paper and table in the column ``source``.
``tables.yaml`` beside them says what each table is about.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import polars as pl

from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.report.beside import PrintedTable, read_printed
from psibench.tables.spec import ALL

PUBLISHED = CONFIG_FOLDER / "published"
INDEX = "tables.yaml"


def published_files() -> list[str]:
    """List the papers' figures that stand beside one's own, and what is said of them."""
    return sorted(str(path) for kind in ("*.csv", "*.yaml") for path in PUBLISHED.glob(kind))


@cache
def read_published(name: str) -> PrintedTable:
    """Read a table of published figures by the name of its file."""
    return read_printed(PUBLISHED / f"{name}.csv")


@cache
def read_index() -> dict[str, Any]:
    """Read what is said of each table, in the page's order."""
    found: dict[str, Any] = read_yaml(PUBLISHED / INDEX)
    return found


# --- what the report and the page of the probes have beside a run's own


def report_references() -> list[dict[str, Any]]:
    """List the tables that stand in panels of the report; see `beside.read_references`."""
    return [
        {"table": name, **about["beside"]}
        for name, about in read_index().items()
        if "beside" in about
    ]


def figure_files(references: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the files of `report_references`."""
    return [str(PUBLISHED / f"{one['table']}.csv") for one in references]


def probe_figures(benchmarks: Collection[str]) -> list[dict[str, Any]]:
    """List the figures of probes on the data that some benchmarks stand for.

    Fields of `psibench.report.probes.PrintedFigure`. A benchmark stands for data if it has the id
    that the preset of the table gives to it.
    """
    ids = dict(read_published("models").rows.iter_rows())
    found = []
    for name, about in read_index().items():
        if "probe" not in about:
            continue
        table = read_published(name)
        for row in table.rows.iter_rows(named=True):
            benchmark = about["benchmarks"][row.get("dataset", EVERY)]
            if benchmark not in benchmarks:
                continue
            names = [row[n] for n in ("dataset", "model", "training") if row.get(n)]
            shared = {
                "title": f"{', '.join(table.place)}: {about['title']}",
                "note": about["text"],
                "benchmark": benchmark,
                "probe": about["probe"],
                "n_places": about.get("places"),
                "model": ids[row["model"]] + _trained(row),
                "model_name": ", ".join(names),
            }
            for column, figure in about["of"].items():
                scale = 1000 if column.endswith("_x1000") else 1
                found.append(
                    shared
                    | {
                        "figure": figure,
                        "column": column.replace("_x1000", " × 1000").replace("_", " "),
                        "published": row[column] / scale,
                        "scale": scale,
                        "decimals": _unit(table, column)[1],
                    }
                )
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
FOUR_DOMAINS = "posir_four_domains"
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
    for name, about in read_index().items():
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


def _unit(table: PrintedTable, column: str) -> tuple[int, int]:
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
