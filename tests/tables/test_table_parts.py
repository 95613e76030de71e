"""A table written part by part: the rows, hash and refusals of one written whole."""

import polars as pl
import pyarrow.parquet as pq
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.io import write_table_parts
from psibench.tables.schemas import DOCUMENTS

FROM = Provenance("sample", 1, params={"a": 1})
TEXTS = ["", "é😀", "中文", "x" * 3000, "a\n b", "end", "1"]
FRAME = pl.DataFrame(
    {
        "_id": [f"d{i}" for i in range(7)],
        "text": TEXTS,
        "origin": "o",
        "length": pl.Series(range(7), dtype=pl.Int32),
        "length_bin": ["a", None, "b", "b", "a", None, "a"],
    }
)


def parts_of(frame, size):
    return lambda: (frame[start : start + size] for start in range(0, frame.height, size))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_the_file_holds_what_one_written_whole_holds(tmp_path, size):
    parts, whole = tmp_path / "parts.parquet", tmp_path / "whole.parquet"
    write_table_parts(parts_of(FRAME, size), parts, DOCUMENTS, provenance=FROM)
    write_table(FRAME, whole, DOCUMENTS, provenance=FROM)
    assert read_table(parts, DOCUMENTS).equals(read_table(whole, DOCUMENTS))
    records = [read_provenance(path) for path in (parts, whole)]
    for record in records:
        record.pop("created")
    assert records[0] == records[1]
    assert pq.read_schema(parts).remove_metadata().equals(pq.read_schema(whole).remove_metadata())
    assert pq.ParquetFile(parts).num_row_groups == -(-7 // min(size, 7))


def test_an_id_in_two_parts_is_refused_and_nothing_is_written(tmp_path):
    frame = FRAME.with_columns(pl.Series("_id", ["a", "b", "c", "d", "e", "f", "a"]))
    with pytest.raises(InputError, match="2 rows of 'documents' share a key; first: _id='a'"):
        write_table_parts(parts_of(frame, 2), tmp_path / "p.parquet", DOCUMENTS, provenance=FROM)
    assert not list(tmp_path.iterdir())


def test_a_part_without_a_column_is_refused(tmp_path):
    with pytest.raises(InputError, match="missing columns: origin"):
        write_table_parts(
            parts_of(FRAME.drop("origin"), 3), tmp_path / "p.parquet", DOCUMENTS, provenance=FROM
        )
