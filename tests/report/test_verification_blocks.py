"""Cells of the verification tables, with and without published values."""

import polars as pl
import pytest
from verification_tables import (
    INFOS,
    MARGIN_FACTS,
    POSQ_FACTS,
    REFERENCES,
    audit,
    cells,
    flow,
    margins,
    shifts,
)

from psibench.report.beside import beside_panel
from psibench.report.filters import (
    audit_page_table,
    cell_table,
    margin_table,
    shift_page_tables,
    stage_table,
    verification_tables,
)
from psibench.report.tables import Table

POOLS = ((0.0, (360, 300, 310)), (0.3, (180, 50, 70)))
EVEN = (400, 400, 400)
STAGES, MARGINS, CELLS, AUDIT = (
    beside_panel(REFERENCES, panel, "fineweb_posq")
    for panel in ("stages", "margins", "cells", "audit")
)


def rows_of(table: Table) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in table.rows}


def test_margin_table_has_counts_shares_and_the_published_ones_beside() -> None:
    table = margin_table(margins(*POOLS), MARGINS)
    kept = rows_of(table)["m>=0.3"]
    # 300 of 1,200 candidates: 180, 50, 70
    assert kept[:4] == ("300\n25.00 %", "180\n60.00 %", "50\n16.67 %", "70\n23.33 %")
    assert kept[4:6] == ("481,236\n16.32 %", "335,650\n69.75 %")
    assert rows_of(table)["failed"][4:] == ("945,845\n32.08 %", "–", "–", "–")
    assert table.groups[2] == ("published: Controlled, table 6", 4)
    assert sum(width for _, width in table.groups) == len(table.header)
    assert table.edges == {1, 5}


def test_missing_values_have_dashes_or_no_row() -> None:
    table = margin_table(margins((-0.1, (380, 380, 380)), (0.25, (0, 0, 0))), MARGINS)
    assert rows_of(table)["m>=0.25"] == ("0\n0.00 %", *("0\n–",) * 3, *("–",) * 4)
    # failed means below -0.1 here, below 0 in the paper
    assert rows_of(table)["failed: m<-0.1"][4:] == ("–",) * 4
    assert "no_margin" in rows_of(table)
    none = pl.col("condition") == "no_margin"
    without = margins(*POOLS).with_columns(pl.when(none).then(0).otherwise("n").alias("n"))
    assert "no_margin" not in rows_of(margin_table(without))


def test_cells_of_the_same_bins_have_the_published_ones_beside() -> None:
    (table,) = cell_table(cells(0.3), CELLS, threshold=0.3, unit="chars")
    published = ("105,652", "13,934", "21,405", "8,189")
    assert rows_of(table)["256-512"] == ("chars", "0.300", *("10", "4", "5", "4"), *published)
    assert rows_of(table)["all"][5] == "20"  # 4 in each of five bins
    (table,) = cell_table(cells(0.3), CELLS, threshold=0.3, unit="words")
    assert {row[-4:] for row in table.rows} == {("–",) * 4}


@pytest.mark.parametrize(("wanted", "shown"), [(0.1, "0.100"), (None, "0.300")])
def test_pool_shown_is_that_of_the_run_else_the_highest(wanted, shown) -> None:
    pools = pl.concat([cells(0.1), cells(0.3)])
    (table,) = cell_table(pools, threshold=wanted, unit="chars")
    assert {row[2] for row in table.rows} == {shown}
    failed = cells(0.3).with_columns(threshold=pl.lit(None, pl.Float64))
    assert cell_table(failed, threshold=0.3, unit="chars") == []


def test_audit_has_intervals_and_published_shares() -> None:
    table = audit_page_table(
        audit(
            (None, None, 0, 0.0), (None, 0.0, 100, 0.5), (0.3, 0.5, 0, 0.9), (0.3, None, 20, 0.9)
        ),
        AUDIT,
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
    found = rows_of(stage_table(facts, STAGES))
    assert found["agreement"][1:5] == ("500", "100\n20.00 %", "260\n52.00 %", "140\n28.00 %")
    assert found["agreement"][5:7] == ("117,008", "13,061\n11.16 %")
    assert found["majority_of_judges"] == ("pairs", "11", "–", "–", "–", "661", "–", "–", "–")
    assert found["balance"][1:5] == ("–",) * 4


def shift_rows(*stages):
    (table,) = shift_page_tables(shifts(*stages))
    return table.rows


def test_a_stage_has_shares_shift_and_p() -> None:
    third = ("33.33 %",) * 3
    # half of |60.00 - 33.33| + |16.67 - 33.33| + |23.33 - 33.33|
    after = ("300", "60.00 %", "16.67 %", "23.33 %", "26.67 %", "<0.001", "100.0")
    assert shift_rows(("margin", EVEN, (180, 50, 70))) == (("margin", "1,200", *third, *after),)
    # chi-square with 2 degrees of freedom: 6.92, p = 0.031 for one stage, 0.063 of two
    weak = ("first", (100, 100, 100), (42, 55, 60))
    assert shift_rows(weak)[0][-2] == "0.031"
    assert shift_rows(weak, ("second", (42, 55, 60), (21, 28, 30)))[0][-2] == "0.063"


@pytest.mark.parametrize(
    "stage",
    [
        ("balance", (100, 260, 140), (100, 100, 100)),  # evens the positions on purpose
        ("margin", EVEN, (0, 0, 0)),  # keeps nothing
    ],
)
def test_what_is_no_test_has_no_p(stage) -> None:
    assert shift_rows(stage)[0][-2] == "–"
    assert shift_page_tables(shifts(("margin", (0, 0, 0), (0, 0, 0)))) == []


def test_tables_name_their_domain() -> None:
    names = [
        table.name
        for table in verification_tables((MARGIN_FACTS, POSQ_FACTS), INFOS[0], REFERENCES)
    ]
    assert [name.split()[0] for name in names] == ["Do", "Margin:", "Queries", "Audit"]
    two = verification_tables(
        (MARGIN_FACTS, MARGIN_FACTS | {"domain": "news"}), INFOS[0], REFERENCES
    )
    assert len({table.name for table in two}) == 8
    assert two[-1].name.endswith(" · eng-Latn · news")
    posq = [table.name for table in verification_tables((POSQ_FACTS,), INFOS[1], REFERENCES)]
    assert posq == ["Stages and published counts", names[0]]
    (alone,) = verification_tables((POSQ_FACTS,), INFOS[1])
    assert alone.name == names[0]


def test_the_page_has_tables_by_benchmark_without_views(verified_page) -> None:
    first, second = verified_page.split('<h3 id="data-fineweb"')
    order = ["From documents to queries", "Do the filters", "Margin: queries kept", "Audit of"]
    places = [first.index(name) for name in order]
    assert places == sorted(places)
    assert "Stages and published counts" in second
    assert "Margin: queries kept" not in second
    assert "fineweb-raw" not in verified_page
    assert "6 PSI rows" in verified_page  # three models, two benchmarks
