"""The papers' tables: their size, and that their figures fit together as the papers say."""

from statistics import fmean
from typing import Any

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
RENAMED = {
    "gte-reranker-base": "gte-multilingual-reranker",
    "bge-reranker-gemma": "bge-reranker-v2-gemma",
}
SECTIONS = ("all", "q1", "q2", "q3", "q4")
DIMENSIONS = ("fluency", "accuracy", "completeness", "style")
SHARES = ("share", "psi", "squad_psi", "fineweb_psi", "target_yes", "distractor_no", "exclusive")
SQUAD = ("0_100", "100_200", "200_300", "300_400", "400_500", "500_3120")
SQUAD_COLUMNS = [f"squad_{name}" for name in SQUAD]
THIRDS_COLUMNS = [f"fineweb_{name}" for name in POSITIONS]
PLACES = [f"p{i}" for i in range(1, 11)]


def rows_of(name: str) -> list[dict[str, Any]]:
    return read_published(name).rows.to_dicts()


def by_language() -> pl.DataFrame:
    return pl.concat([read_published(name).rows for name in ("posir_table10", "posir_table11")])


def spread(*columns: str) -> pl.Expr:
    return pl.max_horizontal(columns) - pl.min_horizontal(columns)


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


@pytest.mark.parametrize(
    ("name", "column", "follows", "rounding"),
    [
        ("posir_table7", "overall", pl.mean_horizontal(DIMENSIONS), 0.0101),
        ("posir_table8", "average", pl.mean_horizontal("french", "russian", "arabic"), 0.0051),
        # two decimals of the scores and three of PSI, rounded
        (
            "posq_table1",
            "squad_psi",
            spread(*SQUAD_COLUMNS) / pl.max_horizontal(SQUAD_COLUMNS),
            0.00065,
        ),
        (
            "posq_table1",
            "fineweb_psi",
            spread(*THIRDS_COLUMNS) / pl.max_horizontal(THIRDS_COLUMNS),
            0.00065,
        ),
        ("controlled_table6", "share", pl.col("n") / pl.col("n").first(), 0.51e-4),
        *(
            ("controlled_table6", f"share_{name}", pl.col(f"n_{name}") / pl.col("n"), 0.51e-4)
            for name in POSITIONS
        ),
        ("controlled_table12", "gap", pl.col("back_reversed") - pl.col("front_reversed"), 0.00151),
        ("controlled_table13", "range_x1000", 1000 * spread(*PLACES), 0.151),
    ],
)
def test_a_column_follows_from_others_as_printed(
    name: str, column: str, follows: pl.Expr, rounding: float
) -> None:
    rows = read_published(name).rows.with_columns(follows=follows).drop_nulls(column)
    assert rows[column].to_list() == pytest.approx(rows["follows"].to_list(), abs=rounding)


@pytest.mark.parametrize(
    ("section", "column"), zip(SECTIONS, ("posir", *SECTIONS[1:]), strict=True)
)
def test_tables_2_and_3_are_means_of_tables_10_and_11(section: str, column: str) -> None:
    for row in rows_of("posir_table2"):
        same = by_language().filter(setting="monolingual", section=section, model=row["model"])
        assert same.height == 10
        # half a unit of the second decimal, and of each of the ten rounded scores
        assert row[column] == pytest.approx(fmean(same["ndcg_at_10"]), abs=0.0051)
    for row in rows_of("posir_table3"):
        same = by_language().filter(setting=row["setting"], section=section, model=row["model"])
        assert same.height == (10 if row["setting"] == "monolingual" else 8)
        assert row[column] == pytest.approx(fmean(same["psi"]), abs=0.00051)


def test_only_translated_queries_cross_languages() -> None:
    crossed = by_language().filter(setting="cross-lingual")["language"]
    assert set(by_language()["language"]) - set(crossed) == {"cmn-Hans", "eng-Latn"}


@pytest.mark.parametrize("name", ["posir_table4", "posir_table5"], ids=["by language", "by domain"])
def test_corpora_add_up_to_the_totals(name: str) -> None:
    *parts, total = rows_of(name)
    for column in ("n_documents", "n_queries"):
        assert sum(part[column] for part in parts) == total[column]
    assert [total["n_documents"], total["n_queries"]] == [17_329_673, 421_708]
    whole = total["n_documents"] + total["n_queries"]  # the ratio is of both together
    for part in parts:
        share = (part["n_documents"] + part["n_queries"]) / whole
        assert part["share"] == pytest.approx(share, abs=0.6e-4)
    for column in ("min", "q1", "median", "q3", "max"):  # the paper cuts the decimals off
        assert total[f"tokens_{column}"] == int(fmean(part[f"tokens_{column}"] for part in parts))
    mean = fmean(part["tokens_mean"] for part in parts)
    assert total["tokens_mean"] == pytest.approx(mean, abs=0.051)


def test_squad_scores_of_myopic_are_those_of_posq() -> None:
    posq = {row["model"]: row for row in rows_of("posq_table1")}
    for row in rows_of("myopic_table1"):
        later = posq[RENAMED.get(row["model"], row["model"])]
        assert [row[name] for name in SQUAD_COLUMNS] == [later[name] for name in SQUAD_COLUMNS]
        assert row["kind"] == later["kind"]


def test_beir_means_are_those_of_the_datasets_and_models() -> None:
    rows = read_published("controlled_table14").rows
    for (_, _), group in rows.group_by("model", "training"):
        parts = group.filter(pl.col("dataset") != "all")["ndcg_at_10"]
        assert group.filter(dataset="all")["ndcg_at_10"].item() == pytest.approx(
            fmean(parts), abs=0.00076
        )
    for row in rows_of("controlled_table4"):
        same = rows.filter(pl.col("dataset") != "all", training=row["training"])
        if row["dataset"] != "all":
            same = same.filter(dataset=row["dataset"])
        assert row["ndcg_at_10"] == pytest.approx(fmean(same["ndcg_at_10"]), abs=0.00101)


def test_evidence_moved_has_the_printed_ends() -> None:
    full = {(row["model"], row["training"]): row for row in rows_of("controlled_table13")}
    for row in rows_of("controlled_table5"):
        other = full[row["model"], row["training"]]
        found = [other[place] for place in PLACES]
        assert row["peak"] == 1 + found.index(max(found))
        assert row["lowest"] == 1 + found.index(min(found))
        # as printed: 21.2 in table 5, 21.5 in table 13
        odd = (row["model"], row["training"]) == ("ModernBERT-base", "begin")
        assert row["difference_x1000"] == (21.2 if odd else other["range_x1000"])


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


def test_cells_add_up_to_the_pool_of_the_same_threshold() -> None:
    *bins, total = rows_of("controlled_table8")
    pools = rows_of("controlled_table6")
    # failed and the pool from 0 are all there is
    assert pools[1]["n"] + pools[2]["n"] == pools[0]["n"] == 2_948_006
    cells = [row[f"n_{name}"] for row in bins for name in POSITIONS]
    for name in POSITIONS:
        assert sum(row[f"n_{name}"] for row in bins) == total[f"n_{name}"] == pools[-1][f"n_{name}"]
    assert {row["budget"] for row in bins} == {min(cells)} == {8_189}
    assert total["budget"] == len(bins) * min(cells)
