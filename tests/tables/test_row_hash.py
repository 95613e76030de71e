import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.tables import hash_file, hash_rows

NUMBERS = pa.array([1, None, 3], pa.int32())
TEXTS = pa.array(["naïve", "😀", None])
SPANS = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))
TABLE = pa.table({"n": NUMBERS, "t": TEXTS, "s": SPANS})


def one(values, kind=None) -> str:
    return hash_rows(pa.table({"a": pa.array(values, kind)}))


def test_how_a_table_is_held_does_not_change_its_hash(tmp_path):
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)])
    pq.write_table(TABLE, tmp_path / "t.parquet", compression="snappy", row_group_size=2)
    assert (
        hash_rows(chunked) == hash_rows(pq.read_table(tmp_path / "t.parquet")) == hash_rows(TABLE)
    )
    widths = (pa.int8(), pa.int32(), pa.int64(), pa.uint16())
    assert len({one([1, None, 3], kind) for kind in widths}) == 1
    layouts = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))
    assert len({one(["x", "x", None], kind) for kind in layouts}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        pa.table({"n": pa.array([1, None, 4]), "t": TEXTS, "s": SPANS}),
        pa.table({"n": NUMBERS, "t": TEXTS, "s": pa.array([[1, 2], [3, 4], None])}),
        pa.table({"m": NUMBERS, "t": TEXTS, "s": SPANS}),
        pa.table({"t": TEXTS, "n": NUMBERS, "s": SPANS}),
        TABLE.take([1, 0, 2]),
        TABLE.slice(0, 2),
        TABLE.drop(["s"]),
    ],
    ids=["value", "span", "column name", "column order", "row order", "fewer", "dropped"],
)
def test_a_change_changes_the_hash(changed):
    assert hash_rows(changed) != hash_rows(TABLE)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([None], [""]),
        (["ab", "c"], ["a", "bc"]),
        (["a\0b"], ["a", "b"]),
        ([None, 0], [0, None]),
        ([None], [0]),
        ([float("nan")], [0.0]),
        ([[1], [2]], [[1, 2], []]),
        ([[]], [None]),
        ([{"x": 1}], [{"y": 1}]),
        ([{"x": None}], [{"x": 0}]),
        ([datetime.date(2020, 1, 1)], [datetime.date(2020, 1, 2)]),
    ],
)
def test_values_that_look_alike_hash_differently(left, right):
    assert one(left) != one(right)


def test_a_file_hash_is_that_of_its_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_file(tmp_path / "f") == expected
