"""The papers' tables: their size, that they are sound, and their figures one by one."""

import polars as pl
import pytest

from psibench.papers.figures import PUBLISHED, published_figures, read_index, read_published
from psibench.text.segments import POSITIONS

TABLES = {
    "posir_table": {2: 10, 3: 20, 4: 11, 5: 32, 6: 10, 7: 36, 8: 5, 9: 4, 10: 720, 11: 180},
    "posq_table": {1: 20, 2: 17, 4: 12},
    "myopic_table": {1: 12, 2: 17},
    "controlled_table": {3: 44, 4: 20, 5: 8, 6: 6, 7: 5, 8: 6, 9: 8, 10: 9}
    | {11: 12, 12: 12, 13: 32, 14: 160},
    "needles_table": {1: 6},
    "posir_table2_": {"correlations": 5},
    "": {"fineweb_posq_counts": 8, "models": 38},
}
"""Beginning of a file's name -> its end -> the rows that the paper's table has."""
N_ROWS = {f"{start}{end}": n for start, ends in TABLES.items() for end, n in ends.items()}
SHARES = ("share", "psi", "squad_psi", "fineweb_psi", "target_yes", "distractor_no", "exclusive")


def test_every_published_table_has_all_rows_and_texts() -> None:
    files = [path.stem for path in PUBLISHED.glob("*.csv")]
    assert {name: read_published(name).rows.height for name in files} == N_ROWS
    assert set(read_index()) == set(N_ROWS) - {"models"}


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


def test_published_values_are_shares_and_print_like_the_file() -> None:
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
