"""Queries with spans, and the corpus whose texts the spans are in."""

import json

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.formats.placed import read_placed_queries, read_unchanged_documents

TEXT = "  \n The evidence is here.  "


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_texts_keep_white_space_so_that_spans_fit(tmp_path, suffix):
    corpus, queries = tmp_path / f"corpus{suffix}", tmp_path / "queries.jsonl"
    start = TEXT.index("evidence")
    row = {"_id": "q", "text": "what?", "pos_corpus_id": "d", "pos_char_span": [start, start + 8]}
    queries.write_text(json.dumps(row))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d", "text": TEXT}))
    if suffix == ".parquet":
        pl.DataFrame({"_id": ["d"], "text": [TEXT]}).write_parquet(corpus)
    documents = read_unchanged_documents(corpus, text_column="text")
    assert documents["text"].to_list() == [TEXT]
    found = read_placed_queries(queries, documents, corpus=corpus)
    assert found["pos_char_length"].to_list() == [len(TEXT)]
    assert found["text"].to_list() == ["what?"]


def test_a_query_without_the_document_of_its_evidence_is_refused(tmp_path):
    row = {"_id": "q", "text": "what?", "pos_char_span": [6, 14], "pos_char_length": len(TEXT)}
    (tmp_path / "queries.jsonl").write_text(json.dumps(row))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d", "text": TEXT}))
    documents = read_unchanged_documents(tmp_path / "corpus.jsonl", text_column="text")
    with pytest.raises(InputError, match="query 'q' has no pos_corpus_id; give the id"):
        read_placed_queries(tmp_path / "queries.jsonl", documents, corpus=tmp_path)
