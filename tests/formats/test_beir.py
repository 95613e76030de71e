import json

import polars as pl
import pytest

from psibench.formats.beir import QUERY_SCHEMA, read_qrels, read_query_file
from psibench.formats.checks import qrels_of_corpus

ROWS = [
    ("q1", "d1", [0, 10], 100, 30, None, None, None, None, None),
    ("q2", None, [5, 9], 50, None, "end", "law", None, None, "page 3"),
    # Known only by class; two spans.
    ("q3", None, None, None, None, "mixed", None, ["beginning", "end"], None, None),
    ("q4", None, None, 40, None, None, None, None, [[0, 3], [20, 30]], None),
]


def as_frame(rows=ROWS) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row")


@pytest.mark.parametrize(
    ("span_type", "ids"), [(pl.List(pl.Int32), "_id"), (pl.Array(pl.Int64, 2), "query-id")]
)
def test_parquet_queries_are_read(tmp_path, span_type, ids):
    frame = as_frame().with_columns(pl.col("pos_char_span").cast(span_type), text=pl.lit("t"))
    frame.rename({"_id": ids}).write_parquet(tmp_path / "q.parquet")
    assert read_query_file(tmp_path / "q.parquet").rows() == ROWS


def test_parquet_queries_may_lack_the_optional_columns(tmp_path):
    as_frame().select("_id", "pos_char_span", "pos_char_length").write_parquet(
        tmp_path / "q.parquet"
    )
    assert read_query_file(tmp_path / "q.parquet").row(1) == ("q2", None, [5, 9], 50, *[None] * 6)
    as_frame().select("_id", "target_position").write_parquet(tmp_path / "q.parquet")
    classes = read_query_file(tmp_path / "q.parquet").get_column("target_position").to_list()
    assert classes == [None, "end", "mixed", None]


def test_queries_with_only_tags_get_a_class(tmp_path):
    # Twice the same tag is one; a query with a span has its class from there.
    tags = {"q1": ["end"], "q2": ["middle", "end"], "q3": ["end", "end"], "q4": []}
    lines = [json.dumps({"_id": name, "positions": own}) for name, own in tags.items()]
    evidence = {"pos_char_span": [0, 1], "pos_char_length": 9}
    lines.append(json.dumps({"_id": "q5", "positions": ["middle", "end"], **evidence}))
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    found = read_query_file(tmp_path / "q.jsonl")
    assert found.get_column("target_position").to_list() == ["end", "mixed", "end", None, None]
    assert found.get_column("positions").to_list() == [*tags.values(), ["middle", "end"]]


@pytest.mark.parametrize(("inside_metadata", "ids"), [(False, "qid"), (True, "_id")])
def test_jsonl_queries_are_read_from_fields_or_metadata(tmp_path, inside_metadata, ids):
    lines = []
    for query_id, *rest in ROWS:
        evidence = dict(zip(list(QUERY_SCHEMA)[1:], rest, strict=True))
        extra = {"metadata": evidence} if inside_metadata else {"metadata": {}, **evidence}
        lines.append(json.dumps({ids: query_id, "text": "t", **extra}))
    (tmp_path / "q.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert read_query_file(tmp_path / "q.jsonl").rows() == ROWS


QRELS = [("q1", "d1", 1), ("q2", "文", 0)]
QRELS_FRAME = pl.DataFrame(QRELS, schema=["query-id", "corpus-id", "score"], orient="row")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\t文\t0\n"),
        ("q.csv", "query-id,corpus-id,score\nq1,d1,1\nq2,文,0\n"),
        ("q.qrels", "q1 0 d1 1\nq2 0 文 0\n"),
        ("q.jsonl", "\n".join(json.dumps(r) for r in QRELS_FRAME.to_dicts())),
        # PyTerrier's, ir-measures' and ranx' names; MS MARCO's qrels; ranx' and pytrec_eval's dict.
        ("q.csv", "qid,docno,label\nq1,d1,1\nq2,文,0\n"),
        ("q.csv", "q_id,doc_id,score\nq1,d1,1\nq2,文,0\n"),
        ("q.tsv", "q1\t0\td1\t1\nq2\t0\t文\t0\n"),
        # Comments, as in trec_eval's own test file.
        ("q.qrels", "# of 2020\nq1 0 d1 1\n  # more\n#x 0 d2 1\nq2 0 文 0\n"),
        ("q.tsv", "# of 2020\nq1\t0\td1\t1\nq2\t0\t文\t0\n"),
        ("q.json", json.dumps({"q1": {"d1": 1}, "q2": {"文": 0}})),
    ],
)
def test_qrels_formats_give_the_same(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    QRELS_FRAME.write_parquet(tmp_path / "q.parquet")
    assert read_qrels(tmp_path / name).rows() == QRELS == read_qrels(tmp_path / "q.parquet").rows()


def test_missing_relevant_documents_stay_if_another_exists(caplog):
    rows = [("q1", "d1", 1), ("q1", "lost", 2), ("q2", "lost", 1), ("q3", "d1", 1), ("q3", "x", 0)]
    qrels = pl.DataFrame(rows, schema=["query-id", "corpus-id", "score"], orient="row")
    kept = qrels_of_corpus(qrels, pl.Series(["d1"]), source="mine")
    # Of q2 nothing is there; of q3 a document is missing that is not relevant.
    assert kept.rows() == [("q1", "d1", 1), ("q1", "lost", 2), ("q3", "d1", 1)]
    (record,) = caplog.records
    expected = (
        "mine: 1 relevant documents of 1 queries are not in the corpus and count as not found"
    )
    assert record.getMessage().startswith(expected)
    assert "query 'q1', document 'lost'" in record.getMessage()
    caplog.clear()
    all_there = qrels_of_corpus(qrels, pl.Series(["d1", "lost", "x"]), source="mine")
    assert all_there.equals(qrels)
    assert caplog.records == []
