"""The papers' tables: their size, that they are sound, and their figures one by one."""

import polars as pl
import pytest

from psibench.config.files import read_yaml
from psibench.config.paths import PUBLISHED
from psibench.report.published import INDEX, published_figures, read_published
from psibench.text.segments import POSITIONS

N_ROWS = {
    "posir_table2": 10,
    "posir_table2_correlations": 5,
    "posir_table3": 2 * 10,
    "posir_table4": 10 + 1,
    "posir_table5": 31 + 1,
    "posir_table6": 9 + 1,
    "posir_table7": (8 + 1) * 4,
    "posir_table8": 5,
    "posir_table9": 4,
    "posir_table10": 4 * 10 * (10 + 8),  # sections x models x languages of both settings
    "posir_table11": 1 * 10 * (10 + 8),
    "posq_table1": 1 + 10 + 3 + 6,
    "posq_table2": 8 + 6 + 3,
    "posq_table4": 2 * 6,
    "myopic_table1": 1 + 6 + 2 + 3,
    "myopic_table2": 8 + 6 + 3,
    "controlled_table3": (8 + 3) * 4,
    "controlled_table4": (4 + 1) * 4,
    "controlled_table5": 2 * 4,
    "controlled_table6": 6,
    "controlled_table7": 5,
    "controlled_table8": 5 + 1,
    "controlled_table9": 8,
    "controlled_table10": 9,
    "controlled_table11": 3 * 4,
    "controlled_table12": 3 * 4,
    "controlled_table13": 8 * 4,
    "controlled_table14": 8 * (4 + 1) * 4,
    "needles_table1": 2 * 3,
    "fineweb_posq_counts": 8,
    "models": 38,
}
SHARES = ("share", "psi", "squad_psi", "fineweb_psi", "target_yes", "distractor_no", "exclusive")


def test_every_table_has_the_rows_of_the_paper_and_its_words_on_the_page() -> None:
    assert {path.stem for path in PUBLISHED.glob("*.csv")} == set(N_ROWS)
    for name, n_rows in N_ROWS.items():
        assert read_published(name).rows.height == n_rows, name
    assert set(read_yaml(PUBLISHED / INDEX)) == set(N_ROWS) - {"models", "fineweb_posq_counts"}


@pytest.mark.parametrize("name", N_ROWS)
def test_a_table_is_sound(name: str) -> None:
    table = read_published(name)
    if name != "models":  # one paper, one table
        place = "appendix" if name == "fineweb_posq_counts" else "table"
        assert table.source.split(", ")[1].startswith(place)
        assert "; " not in table.source
    names = [column for column, kind in table.rows.schema.items() if not kind.is_float()]
    assert not table.rows.select(names).is_duplicated().any()
    for column in table.rows.columns:
        if column in SHARES or column.startswith("share_"):
            assert table.rows[column].drop_nulls().is_between(0, 1).all(), column
    parts = [f"n_{position}" for position in POSITIONS]
    if {"n", *parts} <= set(table.rows.columns):
        known = table.rows.drop_nulls(parts)
        assert (known.select(pl.sum_horizontal(parts)).to_series() == known["n"]).all()


def test_models_of_all_tables_have_an_id() -> None:
    models = read_published("models").rows
    assert models["model"].str.contains(r"^[a-z0-9][a-z0-9._-]*$").all()
    tables = [read_published(name).rows for name in N_ROWS if name != "models"]
    named = {model for table in tables if "model" in table.columns for model in table["model"]}
    assert named == set(models["name"])


def test_figures_are_all_in_zero_to_one_and_print_as_in_the_file() -> None:
    figures = published_figures()
    assert figures["published"].is_between(0, 1).all()
    # table 2 (with MMTEB), 3, 10 and 11; PosQ less four dashes; Myopic; Controlled 3, 4, 11, 14
    counts = figures.group_by("spec", maintain_order=True).len()["len"].to_list()
    posir, posq, controlled = [60, 100, 1440, 360], [20 * 11 - 4, 12 * 9], [44 * 2, 20, 12 * 2, 160]
    assert counts == [*posir, *posq, *controlled]
    row = figures.filter(
        spec="posir_table10", model="bge-m3", group="fra-Latn", column="nDCG@10"
    ).row(0, named=True)
    assert (row["published"], row["quantity"]) == (pytest.approx(0.4407), "mean")
    assert f"{row['published'] * row['scale']:.{row['decimals']}f}" == "44.07"
