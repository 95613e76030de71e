"""The papers' figures: what the files say, that they fit together, and how a wrong file fails."""

from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.report.published import (
    FINEWEB_COUNTS,
    PUBLISHED,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    read_published,
)
from psibench.report.published_others import PUBLISHED_FILES
from psibench.tables.spec import TableSpec
from psibench.text.segments import POSITIONS

HEADER = "threshold,unit,length_bin,n_beginning,n_middle,n_end,budget,source"
ROW = "0.3,chars,256-512,3,1,2,1,paper"
COUNTS_HEADER = "stage,unit,n,n_beginning,n_middle,n_end,source"
SHARES_HEADER = "stratum,low,high,target_yes,distractor_no,exclusive,source"


def written(folder: Path, spec: TableSpec, *lines: str) -> Path:
    (folder / f"{spec.name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_every_file_of_the_folder_is_declared_and_read() -> None:
    assert {path.stem for path in PUBLISHED.glob("*.csv")} == {s.name for s in PUBLISHED_FILES}
    for spec in PUBLISHED_FILES:
        assert read_published(spec).rows.height
        assert read_published(spec).source


def test_pool_of_the_paper_is_the_published_one() -> None:
    row = read_published(TABLE_6).rows.row(-1, named=True)
    assert [row["threshold"], row["n"]] == [0.3, 481_236]
    assert [row[f"n_{name}"] for name in POSITIONS] == [335_650, 62_904, 82_682]


def test_shares_by_threshold_are_the_counts_rounded_to_the_printed_digits() -> None:
    rows = read_published(TABLE_6).rows.to_dicts()
    for row in rows:
        assert row["share"] == pytest.approx(row["n"] / rows[0]["n"], abs=0.51e-4)
        for name in POSITIONS if row["n_end"] is not None else ():
            assert row[f"share_{name}"] == pytest.approx(row[f"n_{name}"] / row["n"], abs=0.51e-4)
    # failed and the pool from 0 are all there is
    assert rows[1]["n"] + rows[2]["n"] == rows[0]["n"] == 2_948_006


def test_exclusive_rate_of_the_audit_rises_as_published() -> None:
    rows = read_published(TABLE_7).rows
    assert list(rows["exclusive"]) == [0.514, 0.670, 0.777, 0.853, 0.904]


def test_cells_add_up_to_the_pool_of_the_same_threshold() -> None:
    *bins, total = read_published(TABLE_8).rows.to_dicts()
    pool = read_published(TABLE_6).rows.row(-1, named=True)
    cells = [row[f"n_{name}"] for row in bins for name in POSITIONS]
    for name in POSITIONS:
        assert sum(row[f"n_{name}"] for row in bins) == total[f"n_{name}"] == pool[f"n_{name}"]
    assert {row["budget"] for row in bins} == {min(cells)} == {8_189}
    assert total["budget"] == len(bins) * min(cells)


def test_stages_of_fineweb_posq_only_ever_lose_questions() -> None:
    rows = read_published(FINEWEB_COUNTS).rows.filter(unit="questions")
    assert list(rows["n"]) == [265_865, 117_008, 39_183, 26_356, 25_775]
    assert list(rows["n"]) == sorted(rows["n"], reverse=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "line 1: columns are missing; expected: threshold"),
        ([HEADER.removesuffix(",source"), ROW], "line 1: columns are threshold"),
        ([HEADER, "0.3,chars,256-512,3,1,2,1"], "line 2: 7 fields; expected 8"),
        ([HEADER, ROW, "", ROW], "line 4: a second row with length_bin='256-512'"),
        ([HEADER, ROW.replace(",3,", ",3.5,")], "column 'n_beginning' is '3.5'; expected a whole"),
        ([HEADER, ROW.replace(",3,", ",-3,")], "column 'n_beginning' is '-3'"),
        ([HEADER, ROW.replace(",3,", ",,")], "column 'n_beginning' is ''"),
        ([HEADER, ROW.replace("0.3", "nan")], "column 'threshold' is 'nan'; expected a number"),
        ([HEADER, ROW.replace("chars", "")], "column 'unit' is ''; expected text"),
        ([HEADER, ROW.replace("paper", " ")], "line 2: no source"),
    ],
)
def test_wrong_file_is_refused_with_its_line(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=r"controlled_table8\.csv") as caught:
        read_published(TABLE_8, written(tmp_path, TABLE_8, *lines))
    assert message in str(caught.value)


def test_share_outside_of_0_and_1_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, TABLE_7, SHARES_HEADER, "m<0,,0,87.7,0.738,0.514,paper")
    with pytest.raises(InputError, match=r"'target_yes' is '87.7'; expected share in \[0, 1\]"):
        read_published(TABLE_7, folder)


def test_counts_by_position_have_to_add_up(tmp_path: Path) -> None:
    folder = written(tmp_path, FINEWEB_COUNTS, COUNTS_HEADER, "agreement,questions,7,1,2,3,paper")
    with pytest.raises(InputError, match="line 2: n is 7, but the counts by position add up to 6"):
        read_published(FINEWEB_COUNTS, folder)


def test_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_published(TABLE_8, tmp_path)


def test_file_in_another_encoding_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "controlled_table8.csv").write_bytes(HEADER.encode() + b"\n\xff\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_published(TABLE_8, tmp_path)


def test_sources_are_named_once_each(tmp_path: Path) -> None:
    rows = [ROW, ROW.replace("256-512", "all").replace("paper", '"other, table 2"')]
    rows.append(ROW.replace("256-512", "512-1024"))
    found = read_published(TABLE_8, written(tmp_path, TABLE_8, HEADER, *rows))
    assert found.source == "paper; other, table 2"
