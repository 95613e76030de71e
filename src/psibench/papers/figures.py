"""The papers' tables, their values one by one, and their use in the report's pages.

The CSV files of ``config/published`` have the papers' tables with all printed digits. Shares are
percentages divided by 100. The column ``source`` names paper and table. ``tables.yaml`` describes
each table.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

import polars as pl

from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.errors import InputError
from psibench.report.beside import PrintedTable, read_printed
from psibench.report.paper_tables import (
    KIND_TEXTS,
    Number,
    PaperColumn,
    PaperTable,
    label_of_names,
)
from psibench.tables.spec import ALL

PUBLISHED = CONFIG_FOLDER / "published"
INDEX_FILE = "tables.yaml"


def published_files() -> list[str]:
    """Return the paths of the published tables and their descriptions."""
    return sorted(str(path) for kind in ("*.csv", "*.yaml") for path in PUBLISHED.glob(kind))


@cache
def read_published(name: str) -> PrintedTable:
    """Read a published table by its file name without suffix."""
    return read_printed(PUBLISHED / f"{name}.csv")


@cache
def read_index() -> dict[str, Any]:
    """Read the descriptions of the tables, in the order of the page."""
    found: dict[str, Any] = read_yaml(PUBLISHED / INDEX_FILE)
    return found


# --- Published tables in the report and on the page of the probes


def report_references() -> list[dict[str, Any]]:
    """Return the entries of tables in panels of the report; see `beside.read_references`."""
    return [
        {"table": name, **about["beside"]}
        for name, about in read_index().items()
        if "beside" in about
    ]


def figure_files(references: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the paths of the tables of `report_references`."""
    return [str(PUBLISHED / f"{one['table']}.csv") for one in references]


def probe_figures(benchmarks: Collection[str]) -> list[dict[str, Any]]:
    """Return the published values of probes on the data of some benchmarks.

    The fields are from `psibench.report.probes.PrintedFigure`. Benchmarks are matched by the id in
    the preset of the table.
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


# --- Published values one by one

ENGLISH, EVERY = "eng-Latn", "all"  # "all" as a language: the mean over the paper's languages
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
TRAINING_SEED = 42
"""Seed of all models that Controlled trained (table 10)."""
EVERY_MODEL = "all"
"""As a model: the mean over Controlled's eight base models."""
FULL_KINDS = ("sparse", "dense")
"""Kinds of models evaluated on the full subsets; others use the tiny ones (PosQ, section 4.1)."""
CELL_COLUMNS = ("panel", "model_name", "group", "column")
COUNTERPART = (
    *("model", "data", "query_lang", "corpus_lang", "length_bucket", "buckets", "bucket"),
    "quantity",
)
_TEXTS = ("spec", "paper", "table", *CELL_COLUMNS, *COUNTERPART, "caveat")
_NUMBERS = ("scale", "decimals", "n_published")
PUBLISHED_SCHEMA: dict[str, Any] = dict.fromkeys(_TEXTS, pl.String) | {"published": pl.Float64}
PUBLISHED_SCHEMA |= dict.fromkeys(_NUMBERS, pl.Int64)
"""Columns of a published value: its file (``spec``); its cell in the table (`CELL_COLUMNS`, with
``model_name`` as printed); the keys of its counterpart in a run (`COUNTERPART`, with ``data`` as in
`published_facts`, empty if not measured here); ``caveat``, open questions of the paper; the value
in [0, 1], printed times ``scale`` with ``decimals``; and the paper's number of queries, or null."""


@cache
def published_figures() -> pl.DataFrame:
    """Return the retrieval scores of the papers' tables, with columns of `PUBLISHED_SCHEMA`.

    Keeps the order of the tables. A missing value (a dash) has no row.
    """
    ids = dict(read_published("models").rows.iter_rows())
    sizes = read_published("posir_table4").rows.select("language", "n_queries")
    n_queries = dict(sizes.iter_rows())
    # English and Chinese queries only search their language
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
                    language = row.get("language") or about["language"]
                    cell = _cell(row, part, column, label, language, n_queries)
                    found.append(known | unit | cell)
    return pl.DataFrame(found, schema=PUBLISHED_SCHEMA, orient="row")


def _trained(row: Mapping[str, Any]) -> str:
    """Return the id suffix of a trained base model; an empty text for other models."""
    return f"-{row['training']}-s{TRAINING_SEED}" if "training" in row else ""


def _unit(table: PrintedTable, column: str) -> tuple[int, int]:
    """Return the scale of a column, 100 (percent) or 1, and its printed decimals."""
    largest = table.rows[column].cast(pl.Float64).max()
    digits = [text.partition(".")[2] for text in table.texts[column]]
    return 100 if isinstance(largest, float) and largest > 1 else 1, max(map(len, digits))


def _cell(
    row: Mapping[str, Any],
    part: Mapping[str, Any],
    column: str,
    label: str,
    language: str,
    n_queries: Mapping[str, int],
) -> dict[str, Any]:
    """Return the cell of a value on the page, and the keys of its counterpart in a run."""
    section = row.get("section") or (column if column in SECTION_TEXTS else "all")
    is_crossed = row.get("setting") == "cross-lingual"
    shared = {
        "panel": part.get("panel", ""),
        "group": part.get("group", language),
        "column": row.get("training", label),
        "data": part.get("data", ""),
        "query_lang": language,
        "corpus_lang": ENGLISH if is_crossed else language,
        "length_bucket": ALL if section == "all" else section.upper(),
        "buckets": part.get("buckets", ""),
        "bucket": label if part["quantity"] == "bucket_mean" else "",
        "quantity": part["quantity"],
        "caveat": part.get("caveat", ""),
    }
    if "dataset" in row:  # BEIR; the mean over datasets has no benchmark
        dataset = row["dataset"]
        data = "" if dataset == ALL else f"beir-{dataset.lower()}"
        return shared | {"panel": dataset if "model" in row else "", "data": data}
    if "training" in row:
        return shared
    if "kind" in row:
        size = "full" if row["kind"] in FULL_KINDS else "tiny"
        return shared | {"n_published": part["queries"][size]}
    # PosIR's nDCG@10 averages queries over all lengths, and bin means within a length bucket.
    if part["quantity"] == "mean" and section != "all":
        shared["quantity"] = "mean_of_buckets"
    parts = [row["setting"].capitalize()] if "setting" in row else []
    parts += [SECTION_TEXTS[section]] if "section" in row else []
    whole = "crossed" if is_crossed and language == EVERY else language
    return shared | {"panel": ", ".join(parts), "n_published": n_queries[whole]}


# --- A published table in the layout of papers


def published_tables(name: str) -> tuple[pl.DataFrame, list[PaperTable]]:
    """Return a published table's values, and the same as a table of a paper for each panel.

    ``name`` is the file name without suffix, e.g. ``posq_table1``. Raises InputError if the table
    is unknown or has no retrieval scores.
    """
    figures = published_figures()
    allowed = figures["spec"].unique(maintain_order=True).to_list()
    if name not in allowed:
        raise InputError(f"published table {name!r}; allowed: {', '.join(allowed)}")
    about, mine = read_index()[name], figures.filter(spec=name)
    rows = read_published(name).rows
    kinds = dict(rows.select("model", "kind").iter_rows()) if "kind" in rows.columns else {}
    tables = []
    for (panel,), part in mine.group_by("panel", maintain_order=True):
        of_column = part.unique(["group", "column"], maintain_order=True)
        columns = tuple(
            PaperColumn(
                row["group"] if row["group"] != row["query_lang"] else "",
                row["column"],
                "lowest" if row["quantity"] == "psi" else "highest",
                100 if row["quantity"] != "psi" else 1,
                row["decimals"] if row["scale"] == 100 or row["quantity"] == "psi" else 2,
            )
            for row in of_column.iter_rows(named=True)
        )
        values = {
            (row["model_name"], row["group"], row["column"]): row["published"]
            for row in part.iter_rows(named=True)
        }
        places = [*of_column.select("group", "column").iter_rows()]
        found = [
            (
                KIND_TEXTS.get(kind := kinds.get(model, ""), kind.capitalize()),
                model,
                tuple(Number(values.get((model, *place))) for place in places),
            )
            for model in part["model_name"].unique(maintain_order=True)
        ]
        parts = (f"{about['title']}{f', {panel}' if panel else ''}.", about["text"])
        source = ", ".join(part.select("paper", "table").row(0))
        caption = f"{' '.join(parts)} Values of {source}. Bold: the best of a column."
        tables.append(PaperTable(caption, label_of_names(name, str(panel)), columns, tuple(found)))
    return mine, tables
