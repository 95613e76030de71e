"""Runs, qrels and queries as other programs write them; README.md names the reports."""

import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.cli import main
from psibench.formats.beir import read_qrels, read_query_file
from psibench.formats.checks import spelling_doubts
from psibench.formats.runs import read_run

PAIR = {"query_id": pl.String, "doc_id": pl.String}


def pairs(*rows):
    return pl.DataFrame(rows, PAIR, orient="row")


@pytest.mark.parametrize(
    ("in_qrels", "in_run"),
    [
        ("0012", "12"),  # read as a number
        ("12", "12.0"),  # read as a float
        ("d1", "d1 "),
        ("D1", "d1"),
        ("caf\u00e9", "cafe\u0301"),  # NFC and NFD
    ],
)
def test_documents_under_another_spelling_of_their_id_are_reported(in_qrels, in_run):
    relevant = pairs(("q1", in_qrels), ("q2", "other"))
    (doubt,) = spelling_doubts(pairs(("q1", in_run), ("q2", "other")), relevant)
    assert doubt.startswith("1 of 2 relevant documents")
    assert ascii(in_qrels) in doubt
    assert ascii(in_run) in doubt


@pytest.mark.parametrize(
    "run",
    [
        [("q1", "0012"), ("q1", "12")],  # a corpus may have both
        [("q2", "0012"), ("q1", "12")],  # the other query found it unchanged
        [("q2", "12"), ("q1", "7")],  # found by a query that it is not relevant for
        [("q1", "120"), ("q1", "012x")],
    ],
)
def test_ids_that_only_look_alike_are_not_reported(run):
    assert not list(spelling_doubts(pairs(*run), pairs(("q1", "0012"))))


def test_score_warns_of_ids_that_lost_their_leading_zeros(tmp_path, capsys):
    (tmp_path / "q.jsonl").write_text('{"_id": "q1", "target_position": "end"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t0012\t1\nq1\t30\t1\n")
    (tmp_path / "run.csv").write_text("query_id,doc_id,score\nq1,12,2\nq1,30,1\n")
    files = {"--run": "run.csv", "--queries": "q.jsonl", "--qrels": "qrels.tsv"}
    code = main(
        ["score", *(x for pair in files.items() for x in (pair[0], str(tmp_path / pair[1])))]
    )
    assert code == 0
    assert "query 'q1' has '12', the qrels have '0012'" in capsys.readouterr().err


SPANS = [[0, 10], [30, 40]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int32()),
        pa.large_list(pa.uint16()),
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.list_(pa.float64()),
    ],
    ids=str,
)
@pytest.mark.parametrize("ids", [pa.string(), pa.large_string(), pa.string_view(), "dictionary"])
def test_spans_and_ids_of_all_parquet_types_are_read(tmp_path, kind, ids):
    names = pa.array(["q1", "q2"])
    names = names.dictionary_encode() if ids == "dictionary" else names.cast(ids)
    table = {"_id": names, "pos_char_span": pa.array(SPANS, kind), "pos_char_length": [50, 50]}
    pq.write_table(pa.table(table), tmp_path / "q.parquet")
    found = read_query_file(tmp_path / "q.parquet")
    assert found.select("_id", "pos_char_span").rows() == [("q1", [0, 10]), ("q2", [30, 40])]


RUN_LINE = {"query_id": "q1", "doc_id": 9007199254740993, "score": 2, "text": "a\u2028b\x85c"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n"])
def test_marks_and_separators_of_other_programs_change_no_record(tmp_path, start, end):
    """A byte order mark, CRLF, blank lines; U+2028 and U+0085 inside a text; ids above 2^53."""
    lines = [json.dumps(RUN_LINE | {"score": n}, ensure_ascii=False) for n in (2, 1)]
    lines[1] = lines[1].replace("740993", "740992")
    path = tmp_path / "run.jsonl"
    path.write_bytes((start + end.join(lines) + end).encode())
    assert read_run(path).frame.rows() == [
        ("q1", "9007199254740993", 2.0),
        ("q1", "9007199254740992", 1.0),
    ]
    qrels = tmp_path / "qrels.tsv"
    qrels.write_bytes(
        (start.strip("\n") + f"query-id\tcorpus-id\tscore{end}q1\td1\t1{end}").encode()
    )
    assert read_qrels(qrels).rows() == [("q1", "d1", 1)]


def test_a_run_may_carry_long_texts_beside_its_ids(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(f'query_id,doc_id,score,text\nq1,d1,1,"{"x" * 200_000}\nsecond line"\n')
    assert read_run(path).frame.rows() == [("q1", "d1", 1.0)]
