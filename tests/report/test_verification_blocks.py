"""Tables of verification: what stands in a cell, and when published figures stand beside."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from report_tables import by_title, frame, psi_row
from verification_tables import (
    INFOS,
    MARGIN_FACTS,
    POSQ_FACTS,
    audit,
    cells,
    flow,
    margins,
    shifts,
)

from psibench.report.filters import (
    Facts,
    audit_table,
    cell_table,
    margin_table,
    stage_table,
    verification_blocks,
    view_tables,
)
from psibench.report.tables import Table
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import change, p_text, percent
from psibench.tables.schemas import PSI_TABLE

POOLS = ((0.0, (360, 300, 310)), (0.3, (180, 50, 70)))
INFO = INFOS[1]


def rows_of(table: Table) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def blocks(*facts: Facts, info: BenchmarkInfo) -> list[str]:
    return list(by_title(verification_blocks(facts, info)))


def test_margin_table_has_counts_shares_and_the_published_ones_beside() -> None:
    table = margin_table(margins(*POOLS))
    kept = rows_of(table)["m>=0.3"]
    # of 1,200 candidates 300; of these 180, 50, 70
    assert kept[:4] == ("300\n25.00 %", "180\n60.00 %", "50\n16.67 %", "70\n23.33 %")
    assert kept[4:6] == ("481,236\n16.32 %", "335,650\n69.75 %")
    assert rows_of(table)["failed"][4:] == ("945,845\n32.08 %", "–", "–", "–")
    assert table.groups[2] == ("published: Controlled, table 6", 4)
    assert sum(width for _, width in table.groups) == len(table.header)
    assert table.edges == {1, 5}


def test_thresholds_that_are_not_published_have_dashes() -> None:
    table = margin_table(margins((-0.1, (380, 380, 380)), (0.25, (180, 50, 70))))
    assert rows_of(table)["m>=0.25"][4:] == ("–",) * 4
    # failed means below -0.1 here, below 0 in the paper
    assert rows_of(table)["failed: m<-0.1"][4:] == ("–",) * 4


def test_row_without_a_margin_is_shown_only_where_there_is_one() -> None:
    table = margins(*POOLS)
    none = pl.col("condition") == "no_margin"
    without = table.with_columns(pl.when(none).then(0).otherwise("n").alias("n"))
    assert "no_margin" in rows_of(margin_table(table))
    assert "no_margin" not in rows_of(margin_table(without))


def test_pool_without_queries_has_no_shares() -> None:
    kept = rows_of(margin_table(margins((0.0, (1, 0, 0)), (0.9, (0, 0, 0)))))
    assert kept["m>=0.9"][:2] == ("0\n0.00 %", "0\n–")


def test_cells_of_the_same_bins_have_the_published_ones_beside() -> None:
    (table,) = cell_table(cells(0.3), threshold=0.3, unit="chars")
    published = ("105,652", "13,934", "21,405", "8,189")
    assert rows_of(table)["256-512"] == ("chars", "0.300", *("10", "4", "5", "4"), *published)
    assert rows_of(table)["all"][5] == "20"  # 4 in each of five bins


def test_other_units_have_no_published_ones_beside() -> None:
    (table,) = cell_table(cells(0.3), threshold=0.3, unit="words")
    assert {row[-4:] for row in table.rows} == {("–",) * 4}


@pytest.mark.parametrize(("wanted", "shown"), [(0.1, "0.100"), (None, "0.300")])
def test_pool_shown_is_that_of_the_run_else_the_highest(wanted, shown) -> None:
    pools = pl.concat([cells(0.1), cells(0.3)])
    (table,) = cell_table(pools, threshold=wanted, unit="chars")
    assert {row[2] for row in table.rows} == {shown}


def test_table_without_a_pool_gives_no_cells() -> None:
    failed = cells(0.3).with_columns(threshold=pl.lit(None, pl.Float64))
    assert cell_table(failed, threshold=0.3, unit="chars") == []


def test_audit_has_intervals_and_the_published_shares_of_the_same_stratum() -> None:
    table = audit_table(
        audit((None, None, 0, 0.0), (None, 0.0, 100, 0.5), (0.3, 0.5, 0, 0.9), (0.3, None, 20, 0.9))
    )
    rows = rows_of(table)
    assert rows["m<0"][:3] == ("100", "2", "0.500\n[0.460, 0.530]")
    assert rows["m<0"][5:] == ("0.877", "0.738", "0.514")
    assert rows["0.3<=m<0.5"] == ("0", "0", *("–",) * 6)
    assert rows["m>=0.3"][5:] == ("0.954", "0.970", "0.904")
    assert "no_margin" not in rows


def test_stages_stand_beside_the_published_counts() -> None:
    facts = POSQ_FACTS | {
        "flow": flow(("agreement", "questions", 600, 500)),
        "shift": shifts(("agreement", (150, 300, 150), (100, 260, 140)), unit="questions"),
    }
    found = rows_of(stage_table(facts))
    assert found["agreement"][1:5] == ("500", "100\n20.00 %", "260\n52.00 %", "140\n28.00 %")
    assert found["agreement"][5:7] == ("117,008", "13,061\n11.16 %")
    assert found["majority_of_judges"] == ("pairs", "11", "–", "–", "–", "661", "–", "–", "–")
    assert found["balance"][1:5] == ("–",) * 4


def views_of(*rows: dict[str, Any], facts: Sequence[Facts] = (), **views: str) -> list[Table]:
    models = list(dict.fromkeys(row["model"] for row in rows))
    return view_tables(
        frame(PSI_TABLE, list(rows)),
        INFO,
        views,
        facts,
        metric="ndcg@10",
        models=models,
        languages=(),
    )


def test_raw_and_clean_labels_stand_side_by_side() -> None:
    (table,) = views_of(
        psi_row("a", benchmark="fineweb", mean=0.52, psi=0.2, psi_same=0.21, n_queries=231),
        psi_row("a", benchmark="fineweb-raw", mean=0.5, psi=0.25, n_queries=240),
        psi_row("a", benchmark="fineweb", mean=0.9, evidence="visible"),
        psi_row("a", benchmark="fineweb", mean=0.9, metric="mrr@10"),
        psi_row("a", benchmark="fineweb", mean=0.9, length_bucket="Q1"),
        raw="fineweb-raw",
    )
    equal = "[0.170, 0.270]"
    assert table.rows == (
        ("a", "raw", "240", "0.500", "0.250\n[0.200, 0.300]", f"0.220\n{equal}"),
        ("a", "clean", "231", "0.520", "0.200\n[0.200, 0.300]", f"0.210\n{equal}"),
    )


def test_view_without_psi_rows_gives_a_table_without_rows() -> None:
    assert [table.rows for table in views_of(tiny="fineweb-tiny")] == [()]
    assert views_of() == []


def test_removed_queries_and_documents_are_counted_over_domains() -> None:
    counts = flow(
        ("agreement", "questions", 100, 50),
        ("above_positive", "documents", 400, 399),
        ("above_positive", "questions", 50, 48),
    )
    (table,) = views_of(facts=[{"benchmark": "fineweb", "flow": counts}] * 2, raw="fineweb-raw")
    assert table.note.startswith(
        "Removed: 2 of 800 documents (0.25 %); 4 of 100 questions (4.00 %). Raw:"
    )
    (table,) = views_of(raw="fineweb-raw")
    assert table.note.startswith("Raw:")


SHIFTED = ["Do the filters shift where the evidence is?", "Shares of the positions by stage"]


def test_blocks_are_those_a_benchmark_has() -> None:
    assert blocks(MARGIN_FACTS, POSQ_FACTS, info=INFOS[0]) == [
        *SHIFTED,
        "Margin: queries kept by threshold",
        "Queries kept by length and position",
        "Audit of the margin by a language model",
    ]
    assert blocks(POSQ_FACTS, info=INFOS[1]) == ["Stages beside the published ones", *SHIFTED]
    assert blocks(MARGIN_FACTS, info=INFOS[1]) == []


def test_several_domains_are_told_apart() -> None:
    names = blocks(MARGIN_FACTS, MARGIN_FACTS | {"domain": "news"}, info=INFOS[0])
    assert len(names) == len(set(names)) == 10
    assert "Margin: queries kept by threshold · eng-Latn · news" in names


@pytest.mark.parametrize(
    ("value", "text"), [(0.0104, "+0.010"), (-0.5, "−0.500"), (-0.0004, "0.000"), (None, "–")]
)
def test_changes_have_a_sign_unless_they_round_to_nothing(value, text) -> None:
    assert change(value) == text


def test_shares_and_p_values_in_words() -> None:
    assert percent(0.12345, 2) == "12.35 %"
    assert percent(None) == "–"
    assert p_text(0.0001) == "p < 0.001"
    assert p_text(0.25) == "p = 0.250"
