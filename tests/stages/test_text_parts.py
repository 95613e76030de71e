import polars as pl
import pytest

from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.build_schemas import TEXT_PARTS
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_whitespace_tokens, with_lengths
from psibench.translate.translate import run_text_parts

SOURCE = Provenance(stage="build", stage_version=1, params={}, inputs={}, revisions={})


@pytest.fixture
def paths(tmp_path):
    documents = pl.DataFrame({"_id": ["d1", "d0"], "text": ["a b\n\nc d e\n\nf", "g"]})
    corpus = with_lengths(documents, count_tokens=count_whitespace_tokens)
    queries = pl.DataFrame(
        {
            "_id": ["q0"],
            "text": ["one two three four five six"],
            "pos_corpus_id": ["d1"],
            "pos_char_span": [[0, 1]],
            "pos_char_length": [14],
            "pos_token_length": [6],
            "target_position": [None],
        },
        schema_overrides={"pos_char_span": pl.Array(pl.Int32, 2), "target_position": pl.String},
    )
    write_table(corpus, tmp_path / "corpus.parquet", CORPUS, provenance=SOURCE)
    write_table(queries, tmp_path / "queries.parquet", QUERIES, provenance=SOURCE)
    return {name: tmp_path / f"{name}.parquet" for name in ("corpus", "queries")}


def run(paths, tmp_path):
    output = tmp_path / "text_parts.parquet"
    run_text_parts(**paths, length_tokenizer="words", max_part_tokens=5, output=output)
    return read_table(output, TEXT_PARTS), read_provenance(output)


def test_long_documents_are_cut_and_queries_are_not(paths, tmp_path):
    parts, provenance = run(paths, tmp_path)
    assert parts.rows() == [
        ("d:d1:0", "d1", "d1", "document", 0, 2, "a b\n\nc d e", "\n\n"),
        ("d:d1:1", "d1", "d1", "document", 1, 2, "f", ""),
        ("d:d0:0", "d0", "d0", "document", 0, 1, "g", ""),
        ("q:q0:0", "d1", "q0", "query", 0, 1, "one two three four five six", ""),
    ]
    assert provenance["params"] == {"length_tokenizer": "words", "max_part_tokens": 5}
    assert set(provenance["inputs"]) == {str(path) for path in paths.values()}
