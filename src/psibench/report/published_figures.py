"""The papers' retrieval scores one by one, each with what names its counterpart in a run."""

from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.paths import PUBLISHED
from psibench.errors import InputError
from psibench.report.published import read_published
from psibench.report.published_posir import language_figures, mean_figures
from psibench.report.published_posq import posq_figures, trained_figures
from psibench.report.published_tables import (
    CONTROLLED_3,
    MODELS,
    MYOPIC_1,
    POSIR_2,
    POSIR_3,
    POSIR_4,
    POSIR_10,
    POSIR_11,
    POSQ_1,
)
from psibench.tables.spec import TableSpec

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
    "model",
    "data",
    "query_lang",
    "corpus_lang",
    "length_bucket",
    "buckets",
    "bucket",
    "quantity",
)
DATA_TEXTS = {
    "squad_posq": "SQuAD-PosQ",
    "fineweb_posq": "FineWeb-PosQ, tagged as in PosQ",
    "fineweb_myopic": "FineWeb-PosQ, tagged as in Myopic",
    "posir": "PosIR",
}


def published_figures(folder: Path = PUBLISHED) -> pl.DataFrame:
    """Return the retrieval scores of the papers' tables, in their order, in columns `FIGURES`.

    A figure that a paper leaves out (a dash) has no row.

    Raises
    ------
    InputError
        If a file cannot be read (see `read_published`) or names a model that models.csv has not.
    """
    queries = dict(read_published(POSIR_4, folder).rows.select("language", "n_queries").iter_rows())
    rows = {spec.name: _rows(spec, folder) for spec in _RETRIEVAL}
    found = [
        *mean_figures(rows[POSIR_2.name], rows[POSIR_3.name], queries),
        *language_figures(rows[POSIR_10.name] + rows[POSIR_11.name], queries),
        *posq_figures(rows[POSQ_1.name], fineweb="fineweb_posq"),
        *posq_figures(rows[MYOPIC_1.name], fineweb="fineweb_myopic"),
        *trained_figures(rows[CONTROLLED_3.name]),
    ]
    frame = pl.DataFrame(found, schema=FIGURES, orient="row")
    return frame.filter(pl.col("published").is_not_null())


_RETRIEVAL = (POSIR_2, POSIR_3, POSIR_10, POSIR_11, POSQ_1, MYOPIC_1, CONTROLLED_3)


def _rows(spec: TableSpec, folder: Path) -> list[dict[str, Any]]:
    """Rows of a table under `row`, each with its place in the paper and its model's id."""
    ids = dict(read_published(MODELS, folder).rows.select("name", "model").iter_rows())
    found = read_published(spec, folder)
    paper, _, table = found.source.split(":")[0].partition(", ")
    rows = []
    for row in found.rows.iter_rows(named=True):
        name = row["model"]
        if name not in ids:
            raise InputError(
                f"{folder / spec.name}.csv: model {name!r} is not in {folder / MODELS.name}.csv; "
                "add a line with its name and its id"
            )
        labels = {"spec": spec.name, "paper": paper, "table": table}
        rows.append(labels | {"model_name": name, "model": ids[name], "row": row})
    return rows
