import pytest
from language_tables import write_texts

from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import TEXT_PARTS
from psibench.translate.translate import run_text_parts


@pytest.fixture
def paths(tmp_path):
    documents = {"d1": "a b\n\nc d e\n\nf", "d0": "g"}
    corpus, queries = write_texts(tmp_path, documents, {"q0": "one two three four five six"})
    return {"corpus": corpus, "queries": queries}


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
