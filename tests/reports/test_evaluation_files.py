"""Runs, qrels and queries as other programs write them; README.md names the reports."""

import polars as pl
import pytest

from psibench.cli import main
from psibench.formats.checks import spelling_doubts

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
        [("q2", "0012"), ("q1", "12")],  # the other query found it as it is
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
