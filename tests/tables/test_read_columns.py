import polars as pl
import pyarrow.parquet as pq
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, write_table
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS

ROWS = {
    "_id": ["a", "b"],
    "text": ["x", "y z"],
    "char_length": [1, 3],
    "word_count": [1, 2],
    "token_length": [1, 2],
}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.parquet"
    frame = pl.DataFrame(ROWS).with_columns(extra=pl.lit(7))
    write_table(frame, path, CORPUS, provenance=Provenance(stage="build", stage_version=1))
    return path


def test_only_the_columns_asked_for_are_read_in_the_order_given(corpus):
    frame = read_columns(corpus, CORPUS, ["token_length", "_id"], optional=["extra", "absent"])
    assert frame.columns == ["token_length", "_id", "extra"]
    assert frame.rows() == [(1, "a", 7), (2, "b", 7)]


def test_only_the_rows_asked_for_are_kept_in_the_tables_order(corpus):
    assert read_columns(corpus, CORPUS, ["text", "_id"], ids=["b", "x"]).rows() == [("y z", "b")]
    assert read_columns(corpus, CORPUS, ["_id"], ids=["b", "a"])["_id"].to_list() == ["a", "b"]
    assert read_columns(corpus, CORPUS, ["_id", "text"], ids=[]).is_empty()


def test_columns_that_are_not_read_are_still_checked_and_the_key_where_it_is(tmp_path):
    path = tmp_path / "corpus.parquet"
    pq.write_table(pl.DataFrame(ROWS).drop("text").to_arrow(), path)
    with pytest.raises(InputError, match="missing columns: text"):
        read_columns(path, CORPUS, ["_id"])
    pq.write_table(pl.DataFrame(ROWS | {"_id": ["a", "a"]}).to_arrow(), path)
    with pytest.raises(InputError, match="share a key"):
        read_columns(path, CORPUS, ["_id"])
    assert read_columns(path, CORPUS, ["token_length"]).height == 2
