from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from psibench.all_tables import ALL_TABLES
from psibench.errors import InputError
from psibench.tables import (
    Provenance,
    conform,
    content_hash,
    hash_file,
    hash_params,
    read_provenance,
    read_table,
    write_csv,
    write_table,
)
from psibench.tables.schemas import CORPUS, QRELS, QUERIES

QREL_ROWS = pl.DataFrame({"query-id": ["q1", "q😀"], "corpus-id": ["d1", "dé"], "score": [1, 2]})
QUERY_ROW: dict[str, list[Any]] = {
    "_id": ["q"],
    "text": ["who?"],
    "pos_corpus_id": ["d"],
    "pos_char_span": [[1, 2]],
    "pos_char_length": [9],
    "pos_token_length": [None],
    "target_position": [None],
}
MADE = Provenance(
    stage="build",
    stage_version=3,
    params={"b": [1, 2], "a": "é"},
    inputs={"x.json": "sha256:00"},
    revisions={"model:m": "r1"},
    queries_by="people",
)


@pytest.fixture
def table_path(tmp_path):
    path = tmp_path / "qrels.parquet"
    write_table(QREL_ROWS, path, QRELS, provenance=MADE)
    return path


def test_a_written_table_reads_back_the_same(tmp_path, table_path):
    expected = QREL_ROWS.with_columns(pl.col("score").cast(pl.Int32))
    assert read_table(table_path, QRELS).equals(expected)
    widths = pl.col("query-id").cast(pl.Categorical), pl.col("score").cast(pl.UInt8)
    write_table(QREL_ROWS.with_columns(widths), tmp_path / "t.parquet", QRELS, provenance=MADE)
    assert read_table(tmp_path / "t.parquet", QRELS).equals(expected)


@pytest.mark.parametrize("spec", ALL_TABLES.values(), ids=ALL_TABLES)
def test_every_empty_table_can_be_written_and_read(tmp_path, spec):
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    write_table(empty, tmp_path / "t.parquet", spec, provenance=MADE)
    assert read_table(tmp_path / "t.parquet", spec).columns == list(spec.column_names)


def test_the_metadata_tell_how_the_table_was_made(table_path, monkeypatch):
    record = read_provenance(table_path)
    assert record is not None
    told = {k: record[k] for k in ("stage", "stage_version", "params", "inputs", "revisions")}
    assert told == {
        "stage": "build",
        "stage_version": 3,
        "params": {"b": [1, 2], "a": "é"},
        "inputs": {"x.json": "sha256:00"},
        "revisions": {"model:m": "r1"},
    }
    assert (record["table"], record["n_rows"], record["queries_by"]) == ("qrels", 2, "people")
    assert record["params_hash"] == hash_params({"a": "é", "b": [1, 2]})
    assert content_hash(table_path) == record["rows_hash"]


def test_the_content_hash_of_a_foreign_file_is_that_of_its_bytes(tmp_path):
    pq.write_table(QREL_ROWS.to_arrow(), tmp_path / "f.parquet")
    (tmp_path / "f.json").write_text("{}")
    for name in ("f.parquet", "f.json"):
        assert content_hash(tmp_path / name) == hash_file(tmp_path / name)


def test_a_failed_write_leaves_the_old_table_and_no_other_file(table_path, monkeypatch):
    before = table_path.read_bytes()

    def fail(writer, table, **_):
        raise OSError("disk full")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_table(QREL_ROWS.head(1), table_path, QRELS, provenance=MADE)
    assert table_path.read_bytes() == before
    assert [p.name for p in table_path.parent.iterdir()] == ["qrels.parquet"]


@pytest.mark.parametrize("span", [[1], [1, 2, 3]])
def test_a_span_without_two_ends_is_refused(span):
    with pytest.raises(InputError, match="column 'pos_char_span'"):
        conform(pl.DataFrame(QUERY_ROW | {"pos_char_span": [span]}), QUERIES, where="w")


@pytest.mark.parametrize("n_bytes", [0, 100, -1])
def test_a_truncated_table_is_refused_with_its_name(table_path, n_bytes):
    table_path.write_bytes(table_path.read_bytes()[:n_bytes])
    for read in (lambda: read_table(table_path, QRELS), lambda: read_provenance(table_path)):
        with pytest.raises(InputError, match=r"qrels\.parquet: not a readable Parquet file"):
            read()


def test_a_corrupt_page_is_refused_with_the_name(tmp_path):
    path = tmp_path / "c.parquet"
    texts = [f"{i * i}" for i in range(3000)]
    rows = pl.DataFrame({"query-id": texts, "corpus-id": "d", "score": 1})
    write_table(rows, path, QRELS, provenance=MADE)
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"c\.parquet: not a readable Parquet file"):
        read_table(path, QRELS)


def test_a_table_of_another_sort_and_none_are_refused(table_path):
    with pytest.raises(InputError, match=r"none\.parquet: no such file; expected a Parquet"):
        read_table(table_path.with_name("none.parquet"), QRELS)
    with pytest.raises(InputError, match=r"qrels\.parquet: not a 'corpus' table: missing"):
        read_table(table_path, CORPUS)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-0.5", "-0.5"),
        ("+1e-3", "+1e-3"),
        ("-", "-"),
        ("a=b", "a=b"),
        ("", '""'),
        (None, ""),
    ],
)
def test_no_cell_of_a_csv_is_a_formula(tmp_path, text, cell):
    frame = pl.DataFrame({"model": pl.Series([text], dtype=pl.String), "psi": -0.25, "n": -3})
    write_csv(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == f"model,psi,n\n{cell},-0.250000,-3\n"
