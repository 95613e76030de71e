"""MS MARCO FarRelevant: a collection in its layout, evidence by the passage of a document's id."""

import gzip
import json

import pytest

from psibench.errors import InputError, MissingError
from psibench.generate.benchmarks import parse_benchmark
from psibench.tables import conform
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.lengths import count_whitespace_tokens

FILL = "The harbour has a crane. It lifts boxes."
PASSAGES = {"7": "A goldfish grows to ten inches.", "8": "Wifi has more range than bluetooth."}
DOCUMENTS = {
    "1_7": f"{FILL} A goldfish grows\nto ten inches.",
    "2_8": f"Wifi has more range than bluetooth. {FILL} Wifi has more range than bluetooth.",
    "3_9": f"{FILL} {FILL}",
    "4_7": FILL,
}


def lines(records):
    return "".join(json.dumps(one) + "\n" for one in records).encode()


@pytest.fixture
def section(tmp_path):
    """Write a collection in the layout; the sample has four of its five queries."""
    whole, sample = (tmp_path / "input_data" / name for name in ("dev_official", "sample"))
    whole.mkdir(parents=True)
    sample.mkdir()
    documents = [{"DOCNO": key, "text": "x", "text_raw": text} for key, text in DOCUMENTS.items()]
    (whole / "AnswerFields.jsonl.gz").write_bytes(gzip.compress(lines(documents)))
    asked = [{"DOCNO": str(n), "text": "x", "text_raw": f"question {n}"} for n in range(1, 6)]
    (whole / "QuestionFields.jsonl").write_bytes(lines(asked))
    (sample / "QuestionFields.jsonl").write_bytes(lines(asked[:4]))
    (whole / "qrels.txt").write_text("1 0 1_7 1\n2 0 2_8 1\n3 0 3_9 1\n4 0 4_7 1\n5 0 3_9 1\n")
    (sample / "qrels.txt").symlink_to(whole / "qrels.txt")
    passages = tmp_path / "passages.jsonl"
    passages.write_bytes(lines({"_id": key, "text": text} for key, text in PASSAGES.items()))
    source = {"path": str(tmp_path), "split": "sample"}
    of_passages = {"kind": "files", "paths": [str(passages)]}
    return {"recipe": "far_relevant", "source": source, "passages": of_passages}


def test_passages_are_located_and_others_counted(section, caplog):
    caplog.set_level("INFO")
    built = parse_benchmark(section).build(count_whitespace_tokens)
    for frame, spec in ((built.corpus, CORPUS), (built.queries, QUERIES), (built.qrels, QRELS)):
        conform(frame, spec, where=spec.name)
    assert built.corpus["_id"].to_list() == [*DOCUMENTS]
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span", "without_place")
    start = len(FILL) + 1
    assert built.queries.select(columns).rows() == [
        ("1", "question 1", "1_7", [start, start + len(PASSAGES["7"])], None),
        ("2", "question 2", "2_8", None, "ambiguous"),  # the document has the passage twice
        ("3", "question 3", "3_9", None, "not_annotated"),  # no passage 9
        ("4", "question 4", "4_7", None, "not_found"),
    ]
    assert built.qrels.rows() == [(str(n), key, 1) for n, key in enumerate(DOCUMENTS, start=1)]
    assert "found evidence for 1 of 4 queries" in caplog.text
    assert "1 queries are in no position bucket: ambiguous" in caplog.text


def test_the_folder_input_data_can_be_named_itself(section, tmp_path):
    section["source"]["path"] += "/input_data"
    assert parse_benchmark(section).build(count_whitespace_tokens).queries.height == 4
    assert len(parse_benchmark(section).files()) == 4


def test_missing_files_and_other_layouts_are_refused(section, tmp_path):
    section["source"]["split"] = "bitext"
    with pytest.raises(MissingError, match=r"bitext/QuestionFields.jsonl: no such file"):
        parse_benchmark(section).files()
    section["source"]["split"] = "sample"
    (tmp_path / "input_data" / "sample" / "QuestionFields.jsonl").write_text('{"_id": "1"}\n')
    with pytest.raises(InputError, match="DOCNO"):
        parse_benchmark(section).build(count_whitespace_tokens)


def test_qrels_of_other_queries_are_refused(section, tmp_path):
    path = tmp_path / "input_data" / "sample" / "QuestionFields.jsonl"
    path.write_bytes(lines([{"DOCNO": "99", "text_raw": "question"}]))
    with pytest.raises(InputError, match="judges none of the 1 queries"):
        parse_benchmark(section).build(count_whitespace_tokens)
