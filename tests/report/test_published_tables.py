"""The papers' tables: their size, and that their figures fit together as the papers say."""

from collections.abc import Iterable, Sequence
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
    "posq_table4": 2 * 6,
    "myopic_table1": 1 + 6 + 2 + 3,
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
STATISTICS = ("min", "q1", "median", "q3", "max")


def rows_of(name: str) -> list[dict[str, Any]]:
    return read_published(name).rows.to_dicts()


def by_language() -> pl.DataFrame:
    return pl.concat([read_published(name).rows for name in ("posir_table10", "posir_table11")])


def psi_of(scores: Iterable[float]) -> float:
    known = list(scores)
    return 1 - min(known) / max(known)


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
    known = set(read_published("models").rows["name"])
    tables = {name: read_published(name).rows for name in N_ROWS if name != "models"}
    named = [table["model"] for table in tables.values() if "model" in table.columns]
    assert {model for models in named for model in models} == known


def test_ids_of_the_models_are_ids() -> None:
    ids = read_published("models").rows["model"]
    assert ids.str.contains(r"^[a-z0-9][a-z0-9._-]*$").all()


@pytest.mark.parametrize(
    ("section", "column"), zip(SECTIONS, ("posir", *SECTIONS[1:]), strict=True)
)
def test_table_2_is_the_mean_of_tables_10_and_11(section: str, column: str) -> None:
    mono = by_language().filter(setting="monolingual", section=section)
    for row in rows_of("posir_table2"):
        scores = mono.filter(model=row["model"])["ndcg_at_10"].to_list()
        assert len(scores) == 10
        # half a unit of the second decimal, and of each of the ten rounded scores
        assert row[column] == pytest.approx(fmean(scores), abs=0.0051)


@pytest.mark.parametrize("setting", ["monolingual", "cross-lingual"])
def test_table_3_is_the_mean_of_tables_10_and_11(setting: str) -> None:
    rows = [row for row in rows_of("posir_table3") if row["setting"] == setting]
    for row in rows:
        for section, column in zip(SECTIONS, ("posir", *SECTIONS[1:]), strict=True):
            same = by_language().filter(setting=setting, section=section, model=row["model"])
            assert same.height == (10 if setting == "monolingual" else 8)
            assert row[column] == pytest.approx(fmean(same["psi"]), abs=0.00051)


def test_only_translated_queries_cross_languages() -> None:
    crossed = by_language().filter(setting="cross-lingual")["language"]
    every = by_language()["language"]
    assert set(every) - set(crossed) == {"cmn-Hans", "eng-Latn"}


@pytest.mark.parametrize("name", ["posir_table4", "posir_table5"], ids=["by language", "by domain"])
def test_corpora_add_up_to_the_totals(name: str) -> None:
    *parts, total = rows_of(name)
    for name in ("n_documents", "n_queries"):
        assert sum(part[name] for part in parts) == total[name]
    assert [total["n_documents"], total["n_queries"]] == [17_329_673, 421_708]
    whole = total["n_documents"] + total["n_queries"]  # the ratio is of both together
    assert sum(part["share"] for part in parts) == pytest.approx(1)  # two are rounded up for it
    for part in parts:
        share = (part["n_documents"] + part["n_queries"]) / whole
        assert part["share"] == pytest.approx(share, abs=0.6e-4)
    for name in STATISTICS:  # the paper cuts the decimals off
        assert total[f"tokens_{name}"] == int(fmean(part[f"tokens_{name}"] for part in parts))
    mean = fmean(part["tokens_mean"] for part in parts)
    assert total["tokens_mean"] == pytest.approx(mean, abs=0.051)


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_query_types_add_up(language: str) -> None:
    *parts, total = rows_of("posir_table6")
    assert total[language] == 1
    assert sum(part[language] for part in parts) == pytest.approx(1, abs=9 * 0.5e-4)


def test_translation_grades_average_as_printed() -> None:
    rows = read_published("posir_table7").rows
    for (system,), graded in rows.group_by("system"):
        languages, mean = graded.filter(pl.col("language") != "all"), graded.row(-1, named=True)
        for name in (*DIMENSIONS, "overall"):
            assert mean[name] == pytest.approx(fmean(languages[name]), abs=0.0051), system
    for row in rows.iter_rows(named=True):
        overall = fmean(row[name] for name in DIMENSIONS)
        assert row["overall"] == pytest.approx(overall, abs=0.0101)


def test_grades_by_people_average_as_printed() -> None:
    *rows, overall = rows_of("posir_table8")
    assert tuple(row["dimension"] for row in rows) == DIMENSIONS
    for row in rows:
        mean = fmean(row[name] for name in ("french", "russian", "arabic"))
        assert row["average"] == pytest.approx(mean, abs=0.0051)
    for name in ("french", "russian", "arabic", "average"):
        assert overall[name] == pytest.approx(fmean(row[name] for row in rows), abs=0.0051)


@pytest.mark.parametrize(
    ("columns", "psi"), [(SQUAD_COLUMNS, "squad_psi"), (THIRDS_COLUMNS, "fineweb_psi")]
)
def test_psi_of_posq_is_that_of_its_buckets(columns: Sequence[str], psi: str) -> None:
    rows = [row for row in rows_of("posq_table1") if row[psi] is not None]
    assert len(rows) == (20 if psi == "squad_psi" else 19)  # colbertv2.0: 512 tokens only
    for row in rows:
        # two decimals of the scores and three of PSI, rounded
        assert row[psi] == pytest.approx(psi_of(row[name] for name in columns), abs=0.00065)


def test_squad_scores_of_myopic_are_those_of_posq() -> None:
    posq = {row["model"]: row for row in rows_of("posq_table1")}
    for row in rows_of("myopic_table1"):
        later = posq[RENAMED.get(row["model"], row["model"])]
        assert [row[name] for name in SQUAD_COLUMNS] == [later[name] for name in SQUAD_COLUMNS]
        assert row["kind"] == later["kind"]


def test_uniform_training_has_the_lowest_psi_throughout() -> None:
    rows = read_published("controlled_table3").rows
    for (_, _), group in rows.group_by("benchmark", "model"):
        assert group.sort("psi")["training"][0] == "uniform"


def test_beir_means_are_those_of_the_datasets_and_models() -> None:
    rows = read_published("controlled_table14").rows
    single = rows.filter(pl.col("dataset") != "all")
    for (_, _), group in rows.group_by("model", "training"):
        parts = group.filter(pl.col("dataset") != "all")["ndcg_at_10"]
        mean = group.filter(dataset="all")["ndcg_at_10"].item()
        assert mean == pytest.approx(fmean(parts), abs=0.00076)
    for row in rows_of("controlled_table4"):
        same = single.filter(training=row["training"])
        if row["dataset"] != "all":
            same = same.filter(dataset=row["dataset"])
        assert row["ndcg_at_10"] == pytest.approx(fmean(same["ndcg_at_10"]), abs=0.00101)


def test_gap_of_the_mirror_reversal_is_back_minus_front() -> None:
    for row in rows_of("controlled_table12"):
        gap = row["back_reversed"] - row["front_reversed"]
        assert row["gap"] == pytest.approx(gap, abs=0.00151)


def test_evidence_moved_has_the_printed_range_and_ends() -> None:
    rows = rows_of("controlled_table13")
    places = [f"p{i}" for i in range(1, 11)]
    for row in rows:
        found = [row[place] for place in places]
        assert row["range_x1000"] == pytest.approx(1000 * (max(found) - min(found)), abs=0.151)
    full = {(row["model"], row["training"]): row for row in rows}
    for row in rows_of("controlled_table5"):
        other = full[row["model"], row["training"]]
        found = [other[place] for place in places]
        assert row["peak"] == 1 + found.index(max(found))
        assert row["lowest"] == 1 + found.index(min(found))
        # as printed: 21.2 in table 5, 21.5 in table 13
        odd = (row["model"], row["training"]) == ("ModernBERT-base", "begin")
        assert row["difference_x1000"] == (21.2 if odd else other["range_x1000"])


def test_improvement_of_needles_is_a_difference() -> None:
    rows = {(row["datasets"], row["variant"]): row for row in rows_of("needles_table1")}
    for datasets in ("own", "external"):
        for place in ("beginning", "middle", "end"):
            original, finetuned, gain = (
                rows[datasets, variant][place]
                for variant in ("original", "finetuned", "improvement")
            )
            assert gain == pytest.approx(finetuned - original, abs=1e-9)


def test_figures_are_all_in_zero_to_one_and_print_as_in_the_file() -> None:
    figures = published_figures()
    assert figures["published"].is_between(0, 1).all()
    # table 2 (with MMTEB), 3, 10 and 11; PosQ less four dashes; Myopic; Controlled
    counts = figures.group_by("spec", maintain_order=True).len()["len"].to_list()
    assert counts == [10 * 6, 20 * 5, 720 * 2, 180 * 2, 20 * 11 - 4, 12 * 9, 44 * 2]
    row = figures.filter(
        spec="posir_table10", model="bge-m3", group="fra-Latn", column="nDCG@10"
    ).row(0, named=True)
    assert (row["published"], row["quantity"]) == (pytest.approx(0.4407), "mean")
    assert f"{row['published'] * row['scale']:.{row['decimals']}f}" == "44.07"


def test_pool_of_the_paper_is_the_published_one() -> None:
    row = read_published("controlled_table6").rows.row(-1, named=True)
    assert [row["threshold"], row["n"]] == [0.3, 481_236]
    assert [row[f"n_{name}"] for name in POSITIONS] == [335_650, 62_904, 82_682]


def test_shares_by_threshold_are_the_counts_rounded_to_the_printed_digits() -> None:
    rows = read_published("controlled_table6").rows.to_dicts()
    for row in rows:
        assert row["share"] == pytest.approx(row["n"] / rows[0]["n"], abs=0.51e-4)
        for name in POSITIONS if row["n_end"] is not None else ():
            assert row[f"share_{name}"] == pytest.approx(row[f"n_{name}"] / row["n"], abs=0.51e-4)
    # failed and the pool from 0 are all there is
    assert rows[1]["n"] + rows[2]["n"] == rows[0]["n"] == 2_948_006


def test_exclusive_rate_of_the_audit_rises_as_published() -> None:
    rows = read_published("controlled_table7").rows
    assert list(rows["exclusive"]) == [0.514, 0.670, 0.777, 0.853, 0.904]


def test_cells_add_up_to_the_pool_of_the_same_threshold() -> None:
    *bins, total = read_published("controlled_table8").rows.to_dicts()
    pool = read_published("controlled_table6").rows.row(-1, named=True)
    cells = [row[f"n_{name}"] for row in bins for name in POSITIONS]
    for name in POSITIONS:
        assert sum(row[f"n_{name}"] for row in bins) == total[f"n_{name}"] == pool[f"n_{name}"]
    assert {row["budget"] for row in bins} == {min(cells)} == {8_189}
    assert total["budget"] == len(bins) * min(cells)


def test_stages_of_fineweb_posq_only_ever_lose_questions() -> None:
    rows = read_published("fineweb_posq_counts").rows.filter(unit="questions")
    assert list(rows["n"]) == [265_865, 117_008, 39_183, 26_356, 25_775]
    assert list(rows["n"]) == sorted(rows["n"], reverse=True)
