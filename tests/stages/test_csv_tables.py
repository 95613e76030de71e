"""Any table as CSV for spreadsheets and shells; nested values become text."""

import csv
import json

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.metrics.summaries import run_csv


def written(tmp_path, frame: pl.DataFrame) -> list[dict[str, str]]:
    frame.write_parquet(tmp_path / "any.parquet")
    jobs.run(run_csv, {"parquet": tmp_path / "any.parquet"}, {"csv": tmp_path / "any.csv"})
    with (tmp_path / "any.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_lists_and_structs_become_json_and_bytes_hexadecimal_digits(tmp_path):
    frame = pl.DataFrame(
        {
            "_id": ["q1", "q2", "q3"],
            "span": pl.Series([[0, 3], [], None], dtype=pl.List(pl.Int32)),
            "pair": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int32, 2)),
            "names": [["ü", "b,𝒳"], ['d"e'], None],
            "key": [b"\x00\xff", b"", None],
            "place": [{"start": 1, "ids": ["a"]}, {"start": None, "ids": []}, None],
        }
    )
    first, second, third = written(tmp_path, frame)
    assert first == {
        "_id": "q1",
        "span": "[0, 3]",
        "pair": "[1, 2]",
        "names": '["ü", "b,𝒳"]',  # without escapes
        "key": "00ff",
        "place": '{"start": 1, "ids": ["a"]}',
    }
    assert (second["span"], second["key"]) == ("[]", "")
    assert json.loads(second["place"]) == {"start": None, "ids": []}
    assert set(third.values()) == {"q3", ""}


def test_numbers_have_six_decimals_and_nulls_are_empty(tmp_path):
    frame = pl.DataFrame({"x": [1 / 3, None], "n": [2, None], "is_x": [True, None]})
    assert written(tmp_path, frame) == [
        {"x": "0.333333", "n": "2", "is_x": "true"},
        {"x": "", "n": "", "is_x": ""},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.parquet", None, "none.parquet: no such file"),
        ("text.parquet", b"a,b\n1,2\n", "text.parquet: not a readable Parquet file"),
        ("table.csv", b"a,b\n1,2\n", "table.csv: not a Parquet file; give the .parquet"),
    ],
)
def test_files_other_than_parquet_tables_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        jobs.run(run_csv, {"parquet": tmp_path / name}, {"csv": tmp_path / "out.csv"})
    assert not (tmp_path / "out.csv").exists()
