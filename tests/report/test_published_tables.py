"""The papers' tables: their size, and that their figures fit together as the papers say."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.report.published import PUBLISHED, read_published
from psibench.report.published_figures import published_figures
from psibench.report.published_others import (
    CONTROLLED_4,
    CONTROLLED_5,
    CONTROLLED_12,
    CONTROLLED_13,
    CONTROLLED_14,
    NEEDLES_1,
    OTHER_SPECS,
    PUBLISHED_FILES,
)
from psibench.report.published_tables import (
    CONTROLLED_3,
    DIMENSIONS,
    MODELS,
    MYOPIC_1,
    POSIR_2,
    POSIR_3,
    POSIR_4,
    POSIR_5,
    POSIR_6,
    POSIR_7,
    POSIR_8,
    POSIR_10,
    POSIR_11,
    POSQ_1,
    RETRIEVAL_SPECS,
    SECTIONS,
    SQUAD_COLUMNS,
    THIRDS_COLUMNS,
)
from psibench.report.published_wording import AS_PRINTED, COMPARABLE
from psibench.tables.spec import TableSpec

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
STATISTICS = ("min", "q1", "median", "q3", "max")


def rows_of(spec: TableSpec) -> list[dict[str, Any]]:
    return read_published(spec).rows.to_dicts()


def by_language() -> pl.DataFrame:
    return pl.concat([read_published(spec).rows for spec in (POSIR_10, POSIR_11)])


def psi_of(scores: Iterable[float]) -> float:
    known = list(scores)
    return 1 - min(known) / max(known)


@pytest.mark.parametrize("spec", PUBLISHED_FILES, ids=lambda spec: spec.name)
def test_a_table_has_the_rows_of_the_paper(spec: TableSpec) -> None:
    assert read_published(spec).rows.height == N_ROWS[spec.name]


@pytest.mark.parametrize("spec", PUBLISHED_FILES, ids=lambda spec: spec.name)
def test_every_row_names_one_paper_and_its_table(spec: TableSpec) -> None:
    source = read_published(spec).source
    if spec is not MODELS:
        place = "appendix" if spec.name == "fineweb_posq_counts" else "table"
        assert source.split(", ")[1].startswith(place)
        assert "; " not in source


def test_every_table_has_its_words_on_the_page() -> None:
    assert set(COMPARABLE) == {spec.name for spec in RETRIEVAL_SPECS}
    assert set(AS_PRINTED) == {spec.name for spec in OTHER_SPECS}


def test_models_of_all_tables_have_an_id() -> None:
    known = set(read_published(MODELS).rows["name"])
    named = {
        name
        for spec in PUBLISHED_FILES
        if "model" in spec.column_names and spec is not MODELS
        for name in read_published(spec).rows["model"]
    }
    assert named == known


def test_ids_of_the_models_are_ids() -> None:
    ids = read_published(MODELS).rows["model"]
    assert ids.str.contains(r"^[a-z0-9][a-z0-9._-]*$").all()


@pytest.mark.parametrize(
    ("section", "column"), zip(SECTIONS, ("posir", *SECTIONS[1:]), strict=True)
)
def test_table_2_is_the_mean_of_tables_10_and_11(section: str, column: str) -> None:
    mono = by_language().filter(setting="monolingual", section=section)
    for row in rows_of(POSIR_2):
        scores = mono.filter(model=row["model"])["ndcg_at_10"].to_list()
        assert len(scores) == 10
        # half a unit of the second decimal, and of each of the ten rounded scores
        assert row[column] == pytest.approx(fmean(scores), abs=0.0051)


@pytest.mark.parametrize("setting", ["monolingual", "cross-lingual"])
def test_table_3_is_the_mean_of_tables_10_and_11(setting: str) -> None:
    rows = [row for row in rows_of(POSIR_3) if row["setting"] == setting]
    for row in rows:
        for section, column in zip(SECTIONS, ("posir", *SECTIONS[1:]), strict=True):
            same = by_language().filter(setting=setting, section=section, model=row["model"])
            assert same.height == (10 if setting == "monolingual" else 8)
            assert row[column] == pytest.approx(fmean(same["psi"]), abs=0.00051)


def test_only_translated_queries_cross_languages() -> None:
    crossed = by_language().filter(setting="cross-lingual")["language"]
    every = by_language()["language"]
    assert set(every) - set(crossed) == {"cmn-Hans", "eng-Latn"}


@pytest.mark.parametrize("spec", [POSIR_4, POSIR_5], ids=["by language", "by domain"])
def test_corpora_add_up_to_the_totals(spec: TableSpec) -> None:
    *parts, total = rows_of(spec)
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
    *parts, total = rows_of(POSIR_6)
    assert total[language] == 1
    assert sum(part[language] for part in parts) == pytest.approx(1, abs=9 * 0.5e-4)


def test_translation_grades_average_as_printed() -> None:
    rows = read_published(POSIR_7).rows
    for (system,), graded in rows.group_by("system"):
        languages, mean = graded.filter(pl.col("language") != "all"), graded.row(-1, named=True)
        for name in (*DIMENSIONS, "overall"):
            assert mean[name] == pytest.approx(fmean(languages[name]), abs=0.0051), system
    for row in rows.iter_rows(named=True):
        overall = fmean(row[name] for name in DIMENSIONS)
        assert row["overall"] == pytest.approx(overall, abs=0.0101)


def test_grades_by_people_average_as_printed() -> None:
    *rows, overall = rows_of(POSIR_8)
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
    rows = [row for row in rows_of(POSQ_1) if row[psi] is not None]
    assert len(rows) == (20 if psi == "squad_psi" else 19)  # colbertv2.0: 512 tokens only
    for row in rows:
        # two decimals of the scores and three of PSI, rounded
        assert row[psi] == pytest.approx(psi_of(row[name] for name in columns), abs=0.00065)


def test_squad_scores_of_myopic_are_those_of_posq() -> None:
    posq = {row["model"]: row for row in rows_of(POSQ_1)}
    for row in rows_of(MYOPIC_1):
        later = posq[RENAMED.get(row["model"], row["model"])]
        assert [row[name] for name in SQUAD_COLUMNS] == [later[name] for name in SQUAD_COLUMNS]
        assert row["kind"] == later["kind"]


def test_uniform_training_has_the_lowest_psi_throughout() -> None:
    rows = read_published(CONTROLLED_3).rows
    for (_, _), group in rows.group_by("benchmark", "model"):
        assert group.sort("psi")["training"][0] == "uniform"


def test_beir_means_are_those_of_the_datasets_and_models() -> None:
    rows = read_published(CONTROLLED_14).rows
    single = rows.filter(pl.col("dataset") != "all")
    for (_, _), group in rows.group_by("model", "training"):
        parts = group.filter(pl.col("dataset") != "all")["ndcg_at_10"]
        mean = group.filter(dataset="all")["ndcg_at_10"].item()
        assert mean == pytest.approx(fmean(parts), abs=0.00076)
    for row in rows_of(CONTROLLED_4):
        same = single.filter(training=row["training"])
        if row["dataset"] != "all":
            same = same.filter(dataset=row["dataset"])
        assert row["ndcg_at_10"] == pytest.approx(fmean(same["ndcg_at_10"]), abs=0.00101)


def test_gap_of_the_mirror_reversal_is_back_minus_front() -> None:
    for row in rows_of(CONTROLLED_12):
        gap = row["back_reversed"] - row["front_reversed"]
        assert row["gap"] == pytest.approx(gap, abs=0.00151)


def test_evidence_moved_has_the_printed_range_and_ends() -> None:
    rows = rows_of(CONTROLLED_13)
    places = [f"p{i}" for i in range(1, 11)]
    for row in rows:
        found = [row[place] for place in places]
        assert row["range_x1000"] == pytest.approx(1000 * (max(found) - min(found)), abs=0.151)
    full = {(row["model"], row["training"]): row for row in rows}
    for row in rows_of(CONTROLLED_5):
        other = full[row["model"], row["training"]]
        found = [other[place] for place in places]
        assert row["peak"] == 1 + found.index(max(found))
        assert row["lowest"] == 1 + found.index(min(found))
        # as printed: 21.2 in table 5, 21.5 in table 13
        odd = (row["model"], row["training"]) == ("ModernBERT-base", "begin")
        assert row["difference_x1000"] == (21.2 if odd else other["range_x1000"])


def test_improvement_of_needles_is_a_difference() -> None:
    rows = {(row["datasets"], row["variant"]): row for row in rows_of(NEEDLES_1)}
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


def test_a_model_that_models_csv_lacks_is_named(tmp_path: Path) -> None:
    for path in PUBLISHED.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        if path.stem == "models":
            text = text.replace('BM25,bm25,"PosQ, table 1; Myopic, table 1"\n', "")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"posq_table1.csv: model 'BM25' is not in .*models.csv"):
        published_figures(tmp_path)
