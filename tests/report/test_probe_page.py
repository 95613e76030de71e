"""The page of the probes: every model's figures beside its PSI."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jobs import run
from report_tables import frame, psi_row

from psibench.papers.figures import probe_figures
from psibench.probes.tables import PROBE_TABLE, profile_rows
from psibench.report.probes import PrintedFigure, agreement, beside_printed, run_probe_page
from psibench.report.tables import Table
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import PSI_TABLE

ABOUT = {"benchmark": "squad", "language": "eng-Latn", "domain": "all", "read": "all"}
ABOUT |= {"n_left_out": 0}


def probes_beside(found: pl.DataFrame, benchmark: str) -> list[Table]:
    figures = [PrintedFigure(**one) for one in probe_figures([benchmark])]
    return beside_printed(found, benchmark, figures)


def rows(model: str, gap: float) -> list[dict[str, Any]]:
    """Insertion at two sizes, moved evidence at 3 places and two figures, of 40 documents."""
    noise = [0.001 * (k % 5 - 2) for k in range(40)]
    found = []
    for size in (0.1, 0.5, None):
        matrix = pl.DataFrame(
            {n: [0.9 + x * (gap + e) for e in noise] for n, x in (("a", 1), ("b", 0.5), ("c", 0.0))}
        ).to_numpy()
        about = ABOUT | {"model": model, "probe": "insertion", "size": size, "n_places": 3}
        names = ("beginning", "middle", "end")
        found += [about | row for row in profile_rows(matrix, "cosine", names, level=0.95)]
    about = ABOUT | {"model": model, "probe": "moving", "n_places": 3}
    names = ("1 of 3", "2 of 3", "3 of 3")
    for measure in ("cosine", "ndcg@10"):
        found += [about | row for row in profile_rows(-matrix + 1, measure, names, level=0.95)]
    about = ABOUT | {"model": model, "value": 0.2, "low": -0.1, "high": 0.5, "n_documents": 40}
    found.append(about | {"probe": "reversal", "measure": "delta_change", "condition": "x"})
    about |= {"probe": "regression", "measure": "importance"}
    return found + [
        about | {"condition": f"sentence {place}, {order}", "place": place}
        for order in ("as it is", "shuffled")
        for place in (1, 2)
    ]


def table(*given: list[dict[str, Any]]) -> pl.DataFrame:
    filled = [[row.get(name) for name in PROBE_TABLE.column_names] for one in given for row in one]
    return pl.DataFrame(filled, schema=PROBE_TABLE.empty().schema, orient="row")


@pytest.fixture
def page(tmp_path: Path) -> str:
    source = Provenance("test", 1)
    found = table(rows("<mine>", -0.1), rows("blind", 0.0))
    write_table(found, tmp_path / "probe_table.parquet", PROBE_TABLE, provenance=source)
    psi = frame(PSI_TABLE, [psi_row("<mine>", benchmark="squad")])
    write_table(psi, tmp_path / "psi.parquet", PSI_TABLE, provenance=source)
    run(
        run_probe_page,
        {"table": tmp_path / "probe_table.parquet", "psi": [tmp_path / "psi.parquet"]},
        {"html": tmp_path / "probes.html"},
        beside=[],
        run_title="A & B",
    )
    return (tmp_path / "probes.html").read_text(encoding="utf-8")


def test_a_figure_per_probe_and_the_psi_of_its_model(page):
    titles = re.findall(r"<figcaption><strong>(.*?)</strong> <span .*?>(.*?)\.", page)
    moved = "Query, evidence and the other sentences are the same at every position"
    weights = "0 if all sentences have the same weight"
    assert titles == [
        ("Insertion: how far the vector moves", "By size and position"),
        ("Moved evidence: cosine minus the document&#39;s mean", moved),
        ("Moved evidence: nDCG@10 minus the document&#39;s mean", moved),
        ("Regression: importance − 1", weights),
        ("Regression, shuffled: importance − 1", weights),
    ]
    assert "<mine>" not in page
    assert "&lt;mine&gt;" in page
    assert "0.220\n[0.170, 0.270]" in page  # the PSI at equal documents beside its probes


def test_each_probe_names_the_preferred_end_or_none():
    found = agreement(table(rows("front", -0.1), rows("back", 0.1)), PSI_TABLE.empty())
    assert [name for name, _ in found.groups] == ["", "front", "back"]
    cells = {
        model: {row[0]: row[place] for row in found.rows}
        for model, place in (("front", 1), ("back", 3))
    }
    # A beginning that changes the vector more: the cosine's gap is below 0.
    assert cells["front"]["insertion, gap"].endswith(": front")
    assert cells["back"]["insertion, gap"].endswith(": back")
    # Moved evidence: 1 - cosine above, so nearer to the query in front.
    assert cells["front"]["moving, cosine gap"].endswith(": front")
    assert cells["back"]["moving, nDCG@10 gap"].endswith(": back")
    assert cells["front"]["reversal, delta_change"] == "0.200\n[−0.100, 0.500]"  # holds 0
    assert cells["front"]["its p"] == "–"  # no PSI was given
    assert "segments, gap" not in cells["front"]  # no model has it
    # a difference by rounding names no end
    collapsed = [row | {"low": 1e-8, "high": 3e-8, "value": 2e-8} for row in rows("mine", 0.0)]
    found = agreement(table(collapsed), PSI_TABLE.empty())
    assert {row[1] for row in found.rows if "gap" in row[0]} == {"0.000\n[0.000, 0.000]"}


def reversal(model: str, **values: float) -> list[dict[str, Any]]:
    names = {
        "front_original": ("ndcg@10", "front"),
        "front_reversed": ("ndcg@10", "F->B"),
        "gap": ("delta_rev", "B->F less F->B"),
    }
    about = ABOUT | {"model": model, "probe": "reversal", "n_documents": 9}
    return [
        about
        | dict(zip(("measure", "condition"), names[name], strict=True))
        | {"value": value, "low": value - 0.01, "high": value + 0.01}
        for name, value in values.items()
    ]


def test_published_values_are_matched_by_model() -> None:
    model = "modernbert-base-begin-s42"
    found = table(reversal(model, front_original=0.44, front_reversed=0.2, gap=0.194))
    (beside,) = probes_beside(found, "posir-release")
    assert beside.name == "Controlled, table 12: Mirror reversal"
    columns = ("front original", "front reversed", "back original", "back reversed", "gap")
    assert beside.header[2:] == columns
    # Controlled, table 12; -0.013 is beyond the interval
    assert [row[2:] for row in beside.rows] == [
        ("0.435", "0.187", "0.272", "0.382", "0.194"),
        ("0.440\n+0.005", "0.200\n+0.013*", "–", "–", "0.194\n0.000"),
    ]
    assert [row[1] for row in beside.rows] == ["the paper", "run here: posir-release"]
    assert probes_beside(table(reversal("other", gap=0.1)), "posir-release") == []


@pytest.mark.parametrize(
    ("benchmark", "beside"),
    [("squad-passages", "0.8777"), ("fineweb-passages", "0.9201"), ("my-corpus", None)],
)
def test_probes_stand_beside_figures_of_the_same_data(benchmark: str, beside: str | None) -> None:
    about = ABOUT | {"model": "bge-m3", "probe": "segments", "n_places": 3}
    matrix = pl.DataFrame({str(k): [0.8] * 3 for k in range(3)}).to_numpy()
    names = ["1 of 3", "2 of 3", "3 of 3"]
    found = table([about | row for row in profile_rows(matrix, "cosine", names, level=0.95)])
    tables = probes_beside(found, benchmark)
    first = [one.rows[0][2] for one in tables]
    assert first == ([] if beside is None else [beside])
    assert all(len(one.rows) == 2 for one in tables)


def test_the_page_has_its_figures_and_the_notice(tmp_path: Path) -> None:
    model = "modernbert-base-begin-s42"
    found = table(reversal(model, front_original=0.44, gap=0.194))
    found = found.with_columns(benchmark=pl.lit("posir-release"))
    source = Provenance("test", 1)
    write_table(found, tmp_path / "probe_table.parquet", PROBE_TABLE, provenance=source)
    figures = [PrintedFigure(**one) for one in probe_figures(["posir-release"])]
    pages = {}
    for name, notice, beside in (("small", "Small run: <other texts>", []), ("whole", "", figures)):
        page = tmp_path / f"{name}.html"
        read = {"table": tmp_path / "probe_table.parquet", "psi": []}
        given = {"beside": beside, "run_title": "A run", "notice": notice}
        run(run_probe_page, read, {"html": page}, **given)
        pages[name] = page.read_text(encoding="utf-8")
    assert "Small run: &lt;other texts&gt;" in pages["small"]
    assert "the paper" not in pages["small"].partition("<main>")[2]
    assert "Small run" not in pages["whole"]
    assert "Controlled, table 12" in pages["whole"]


def test_peak_and_lowest_place_are_held_against_table_5() -> None:
    about = ABOUT | {"model": "qwen3-0.6b-end-s42", "probe": "moving", "n_places": 10}
    matrix = pl.DataFrame({str(k): [0.5 + abs(k - 2) / 1000] * 3 for k in range(10)}).to_numpy()
    names = [f"{k} of 10" for k in range(1, 11)]
    found = table([about | row for row in profile_rows(matrix, "cosine", names, level=0.95)])
    beside = {one.name[:20]: one.rows[1][2:] for one in probes_beside(found, "msmarco-documents")}
    # the highest is at 10, the lowest at 3, 7 thousandths apart; printed: 9, 1 and 20.6
    assert beside["Controlled, table 5:"] == ("10\n+1", "3\n+2", "7.0\n−13.6")
    # p1: 0.502; printed 0.5161
    assert beside["Controlled, table 13"[:20]][0].startswith("0.5020")
