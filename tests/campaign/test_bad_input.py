"""Broken and hostile input, a case a line: refused by name, or accepted; never a traceback, a hang.

A case that is refused ends with exit code 2 and one message that holds the words given here; an
accepted one (words None, or a warning's words) ends with 0.
"""

import gzip
import io
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.cli import main

pytestmark = pytest.mark.timeout(30)  # a hang; the whole campaign takes half a minute

OK = 0
REFUSED = 2


def run(*argv: object) -> int:
    """Run a command in this process; whatever it raises fails the test."""
    try:
        return main([str(word) for word in argv])
    except SystemExit as stopped:  # argparse
        return int(stopped.code or 0)


def parquet(**columns: object) -> bytes:
    """A Parquet file of columns; a pair of equal names is made with `twice`."""
    return stored(pa.table(columns))


def stored(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def twice(table: pa.Table, name: str) -> bytes:
    """A file with a second column of a name."""
    return stored(table.append_column(name, table.column(name)))


def binary_text(*values: bytes) -> pa.Array:
    """A text column of bytes that need not be UTF-8."""
    return pa.array(values, pa.binary()).view(pa.string())


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# --- score: a run, queries and qrels ---------------------------------------------------------

QUERIES = [
    {"_id": f"q{n}", "pos_char_span": [n * 20, n * 20 + 9], "pos_char_length": 99} for n in range(4)
]
QRELS = "query-id\tcorpus-id\tscore\n" + "".join(f"q{n}\td{n}\t1\n" for n in range(4))
RUN = "".join(f"q{n} Q0 d{n} 1 2.5 r\nq{n} Q0 x 2 1.5 r\n" for n in range(4))

BAD_NUMBERS = {
    "underscore": "1_0",
    "arabic digit": "\u0661",
    "wide digit": "\uff11",
    "superscript": "1\u00b2",
    "hex": "0x10",
    "word": "high",
    "comma": "1,5",
    "two signs": "--1",
    "no exponent": "1e",
    "a sign": "+",
    "a point": ".",
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5000,
    "exponent": "1e999",
    "long and wrong": "1" * 100_000 + "x",
}


def run_file(kind: str, score: str) -> str:
    """A run in a text format whose last score is replaced."""
    rows = [(f"q{n}", f"d{n}", "2.5") for n in range(3)] + [("q3", "d3", score)]
    quoted = [(q, d, f'"{s}"' if "," in s else s) for q, d, s in rows]
    return {
        "trec": "".join(f"{q} Q0 {d} 1 {s} r\n" for q, d, s in rows),
        "csv": "query_id,doc_id,score\n" + "".join(f"{q},{d},{s}\n" for q, d, s in quoted),
        "tsv": "query_id\tdoc_id\tscore\n" + "".join(f"{q}\t{d}\t{s}\n" for q, d, s in rows),
        "jsonl": lines(*({"query_id": q, "doc_id": d, "score": s} for q, d, s in rows)),
        "json": json.dumps({q: {d: s} for q, d, s in rows}),
    }[kind]


def json_run(score: str) -> str:
    """Lines whose last score is written as it stands."""
    return run_file("jsonl", "@").replace('"@"', score)


def queries(**changes: object) -> str:
    """Queries as lines, the last one changed."""
    return lines(*QUERIES[:3], QUERIES[3] | changes)


def query_table(*, without: str = "", **changes: object) -> bytes:
    """Queries as Parquet, columns changed."""
    columns = {name: [query[name] for query in QUERIES] for name in QUERIES[0]} | changes
    return parquet(**{name: values for name, values in columns.items() if name != without})


def pairs(**changes: object) -> bytes:
    """A run as Parquet, columns changed."""
    ids = [f"q{n}" for n in range(4)]
    return parquet(**{"query_id": ids, "doc_id": ids, "score": [1.0, 2.0, 3.0, 4.0]} | changes)


DEEP = "[" * 100_000
FLOATS = [[n * 20.5, n * 20.5 + 9] for n in range(4)]
HUGE = pa.array([[0, 2**64 - 1]] * 4, pa.list_(pa.uint64()))
FAR = pa.array([2**62] * 4, pa.timestamp("ms"))
"""Times after the year 9999, which Python has none for."""

SCORE = [
    *(
        (f"run.{kind}", run_file(kind, bad), "expected a number")
        for kind, bad in itertools.product(
            ("trec", "csv", "tsv", "jsonl", "json"), BAD_NUMBERS.values()
        )
    ),
    *(
        (f"run.{kind}", run_file(kind, good), None)
        for kind, good in itertools.product(
            ("trec", "csv", "tsv", "jsonl", "json"),
            ("1", "-1", "+1.5", "1.", ".5", "-2.5E-3", "1e10", "inf", "-Infinity"),
        )
    ),
    ("run.jsonl", json_run("9" * 400), "too large"),
    ("run.jsonl", json_run("9" * 5000), "run.jsonl, line 4: not JSON"),
    ("run.jsonl", json_run("1e999"), "too large"),
    ("run.jsonl", json_run("1e39"), "beyond what a 32-bit number holds"),
    ("run.jsonl", json_run("true"), "score is True; expected a number"),
    ("run.jsonl", json_run("null"), "score is None; expected a number"),
    ("run.jsonl", json_run("[1]"), "score is [1]; expected a number"),
    ("run.jsonl", json_run("{}"), "score is {}; expected a number"),
    ("run.jsonl", json_run("[" * 900 + "]" * 900), "expected a number"),
    ("run.jsonl", json_run("NaN"), "the score nan"),
    ("run.jsonl", DEEP, "run.jsonl, line 1: not JSON that can be read: nested too deep"),
    ("run.json", DEEP, "nested too deep"),
    ("run.json", '{"a":' * 100_000, "nested too deep"),
    ("run.json", '{"q0": {"d0": 1, "d0": 2}}', "the key 'd0' occurs twice"),
    ("run.json", '{"q0": {"\\ud800": 1}}', "half of a surrogate pair"),
    ("run.json", '{"\\udfff": {"d0": 1}}', "half of a surrogate pair"),
    ("run.json", '{"q0": {"": 1}}', "expected an id"),
    ("run.json", "", "not JSON"),
    ("run.jsonl", "", "holds none of the queries"),
    ("run.jsonl", "[]", "not a JSON object but list"),
    ("run.jsonl", '{"query_id": "q0"}', "missing columns doc_id, score"),
    ("run.jsonl", '{"query_id": "q0", "query_id": "q1"}', "the key 'query_id' occurs twice"),
    ("run.jsonl", '{"query_id": "\\ud800", "doc_id": "d", "score": 1}', "half of a surrogate pair"),
    ("run.jsonl", '{"query_id": ["q0"], "doc_id": "d", "score": 1}', "expected an id"),
    ("run.jsonl", '{"query_id": 1.5, "doc_id": "d", "score": 1}', "expected an id"),
    ("run.jsonl", '{"query_id": null, "doc_id": "d", "score": 1}', "expected an id"),
    ("run.jsonl", '{"query_id": true, "doc_id": "d", "score": 1}', "expected an id"),
    ("run.jsonl", '{"query_id": "", "doc_id": "d", "score": 1}', "expected an id"),
    ("run.csv", "query_id,doc_id,score,score\nq0,d0,1,2\n", "columns that occur twice: score"),
    ("run.tsv", "query_id\tdoc_id\tdoc_id\tscore\nq0\td\td\t1\n", "columns that occur twice: doc"),
    ("run.csv", 'query_id,doc_id,score\nq0,"d0,1\n', "line"),
    ("run.csv", "query_id,doc_id,score\nq0,d0\n", "2 columns"),
    ("run.csv", "\n", "holds none of the queries"),
    ("run.csv", "query_id;doc_id;score\nq0;d0;1\n", "missing columns"),
    ("run.csv", b"query_id,doc_id,score\nq\xff,d0,1\n", "run.csv, line 2: not UTF-8"),
    ("run.trec", RUN.encode() * 10 + b"q0 Q0 d\xe9 1 1 r\n", "run.trec, line 81: not UTF-8"),
    ("run.trec", "q0 Q0 d0 1 1 r\n" * 2, "scores document 'd0' 2 times"),
    ("run.trec", RUN.encode("utf-16"), "found binary data"),
    ("run.trec", b"\x00" * 99, "found binary data"),
    ("run.trec", b"%PDF-1.4", "found a PDF document"),
    ("run.trec", RUN.replace("\n", "\r\n"), None),
    ("run.trec", "\ufeff" + RUN, None),
    ("run.trec.gz", gzip.compress(RUN.encode()), None),
    ("run.TREC.GZ", gzip.compress(RUN.encode()), None),
    ("run.trec.gz", gzip.compress(RUN.encode() * 9)[:-30], "damaged or truncated gzip"),
    ("run.trec.gz", RUN.encode(), "damaged or truncated gzip"),
    ("run.trec", "x Q0 d 1 1 r\n", "holds none of the queries"),
    ("run.trec", RUN + "q9 Q0 d 1 1 r\n", "not among the queries: 'q9'"),
    ("run.trec", RUN.replace(" d", " D"), "none of the 4 documents of the qrels occurs"),
    ("run.parquet", pairs(doc_id=["d0", "d1", "d2", "d3"]), None),
    ("run.parquet", pairs(), "none of the 4 documents of the qrels"),
    ("run.parquet", pairs(score=["1", "2", "3", "4"]), "expected numbers"),
    ("run.parquet", pairs(score=[1.0, 2.0, None, 4.0]), "the score None"),
    ("run.parquet", pairs(score=[1.0, 2.0, float("nan"), 4.0]), "the score nan"),
    ("run.parquet", pairs(score=[1.0, 2.0, 1e300, 4.0]), "beyond what a 32-bit number holds"),
    ("run.parquet", pairs(score=[True, False, True, True]), "expected numbers"),
    ("run.parquet", pairs(query_id=[["q0"]] * 4), "query_id is List(String); expected text"),
    ("run.parquet", pairs(query_id=[b"q0", b"q1", b"q2", b"q3"]), "query_id is Binary; expected"),
    ("run.parquet", pairs(query_id=[0.5, 1.0, 2.0, 3.0]), "query_id is Float64; expected text"),
    ("run.parquet", pairs(query_id=[True] * 4), "query_id is Boolean; expected text"),
    ("run.parquet", pairs(query_id=[{"a": 1}] * 4), "query_id is Struct"),
    ("run.parquet", pairs(query_id=["q0", None, "q1", "q2"]), "not among the queries: None"),
    ("run.parquet", pairs(query_id=binary_text(b"q0", b"\xff", b"q2", b"q3")), "UTF8"),
    ("run.parquet", twice(pa.table({"query_id": ["q"], "doc_id": ["d"], "score": [1]}), "score"),
     "columns that occur twice: score"),
    ("run.parquet", parquet(query_id=["q0"]), "missing columns doc_id, score"),
    ("run.parquet", pairs()[:-50], "not a readable Parquet file"),
    ("run.parquet", b"", "not a readable Parquet file"),
    ("run.parquet", b"PAR1" + b"\xff" * 99 + b"PAR1", "not a readable Parquet file"),
    ("run.xlsx", b"PK\x03\x04", "no format has this suffix"),
    ("run", RUN, "no format has this suffix"),
    # queries
    ("queries.jsonl", queries(pos_char_span=[0.5, 9.5]), "line 4: pos_char_span is [0.5, 9.5]"),
    ("queries.jsonl", queries(pos_char_span=[0.0, 9.0]), "pos_char_span is [0.0, 9.0]"),
    ("queries.jsonl", queries(pos_char_span=["0", "9"]), "pos_char_span is"),
    ("queries.jsonl", queries(pos_char_span=[0, 2**63]), "pos_char_span is"),
    ("queries.jsonl", queries(pos_char_span=[0, 2**62]), "has the span"),
    ("queries.jsonl", queries(pos_char_span=[-5, 9]), "has the span [-5, 9]"),
    ("queries.jsonl", queries(pos_char_span=[9, 9]), "has the span [9, 9]"),
    ("queries.jsonl", queries(pos_char_span=[9, 100]), "has the span [9, 100]"),
    ("queries.jsonl", queries(pos_char_span=[1, 2, 3]), "pos_char_span is [1, 2, 3]"),
    ("queries.jsonl", queries(pos_char_span=None), "missing pos_char_span"),
    ("queries.jsonl", queries(pos_char_span="0-9"), "pos_char_span is '0-9'"),
    ("queries.jsonl", queries(pos_char_length="99"), "pos_char_length is '99'"),
    ("queries.jsonl", queries(pos_char_length=99.5), "pos_char_length is 99.5"),
    ("queries.jsonl", queries(pos_char_length=-99), "document of -99 characters"),
    ("queries.jsonl", queries(pos_char_length=2**31), "document of 2147483648 characters"),
    ("queries.jsonl", queries(pos_char_length=2**80), "pos_char_length is"),
    ("queries.jsonl", queries(pos_char_length=True), "pos_char_length is True"),
    ("queries.jsonl", queries(pos_token_length=-1), "the pos_token_length -1"),
    ("queries.jsonl", queries(pos_token_length=0), "the pos_token_length 0"),
    ("queries.jsonl", queries(pos_token_length="7"), "pos_token_length is '7'"),
    ("queries.jsonl", queries(pos_token_length=None), None),
    ("queries.jsonl", queries(_id=["q3"]), "line 4: _id is ['q3']; expected an id"),
    ("queries.jsonl", queries(_id=3.5), "_id is 3.5"),
    ("queries.jsonl", queries(_id="\ud800"), "half of a surrogate pair"),
    ("queries.jsonl", queries(_id="q0"), "query ids that occur twice: 'q0'"),
    ("queries.jsonl", queries(domain=["law"]), "domain is ['law']"),
    ("queries.jsonl", queries(domain="\udfff"), "half of a surrogate pair"),
    ("queries.jsonl", queries(target_position="start"), "target_position 'start'"),
    ("queries.jsonl", queries(pos_corpus_id="d0"), "1 of 4 queries is no positive in the qrels"),
    ("queries.jsonl", queries(metadata=[1]), None),
    ("queries.jsonl", "", "no queries"),
    ("queries.jsonl", '{"_id": "q0", "_id": "q1"}', "the key '_id' occurs twice"),
    ("queries.jsonl", DEEP, "nested too deep"),
    ("queries.parquet", query_table(), None),
    ("queries.parquet", query_table(pos_char_length=[99.0] * 4), None),
    ("queries.parquet", query_table(pos_char_span=[[0.0, 9.0]] * 4), None),
    ("queries.parquet", query_table(pos_char_span=FLOATS), "pos_char_span is List(Float64); exp"),
    ("queries.parquet", query_table(pos_char_span=["0-9"] * 4), "pos_char_span is String"),
    ("queries.parquet", query_table(pos_char_span=[["0", "9"]] * 4), "pos_char_span is List(Str"),
    ("queries.parquet", query_table(pos_char_span=[[0, 9, 10]] * 4), "has the span [0, 9, 10]"),
    ("queries.parquet", query_table(pos_char_span=HUGE),
     "pos_char_span: conversion"),
    ("queries.parquet", query_table(pos_char_length=["99"] * 4), "pos_char_length is String; exp"),
    ("queries.parquet", query_table(pos_char_length=[99.5] * 4), "pos_char_length is Float64; exp"),
    ("queries.parquet", query_table(pos_char_length=[float("nan")] * 4), "is Float64; exp"),
    ("queries.parquet", query_table(pos_char_length=[-99] * 4), "document of -99 characters"),
    ("queries.parquet", query_table(pos_token_length=[-7] * 4), "the pos_token_length -7"),
    ("queries.parquet", query_table(pos_token_length=["7"] * 4), "pos_token_length is String"),
    ("queries.parquet", query_table(_id=[b"q0", b"q1", b"q2", b"q3"]), "_id is Binary"),
    ("queries.parquet", query_table(_id=[["q0"]] * 4), "_id is List(String)"),
    ("queries.parquet", query_table(_id=binary_text(b"q0", b"\xff", b"q2", b"q3")), "UTF8"),
    ("queries.parquet", query_table(_id=["q0", None, "q2", "q3"]), "1 queries without an _id"),
    ("queries.parquet", query_table(without="_id"), "missing columns _id"),
    ("queries.parquet", query_table(when=FAR), None),
    ("queries.parquet", query_table(raw=[b"\xff"] * 4), None),
    ("queries.parquet", query_table(target_position=["start"] * 4), "target_position 'start'"),
    ("queries.parquet", query_table(domain=[7] * 4), "domain is Int64; expected text"),
    # qrels
    ("qrels.tsv", QRELS + "q0\td0\t0\n", "'q0', document 'd0' is graded 2 times: 1, 0"),
    ("qrels.tsv", QRELS + "q0\td0\t1\n", "is graded 2 times: 1, 1"),
    ("qrels.tsv", QRELS + "q0\td9\t1\n", "1 of 4 queries have several positives of the highest"),
    ("qrels.tsv", QRELS + "q0\td9\t0\n", None),
    ("qrels.tsv", QRELS + "q9\td9\t1\n", "not among the queries: 'q9'"),
    ("qrels.tsv", QRELS.replace("q3\td3\t1\n", ""), "queries without a positive: 'q3'"),
    ("qrels.tsv", QRELS.replace("\t1\n", "\t0\n"), "no positive"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t1.5\n"), "has the grade 1.5; expected a whole"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t1_0\n"), "score is '1_0'; expected a number"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t\u0661\n"), "expected a number"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t1e300\n"), "expected a whole number"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\tnan\n"), "expected a whole number"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\tinf\n"), "expected a whole number"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", f"d0\t{'9' * 5000}\n"), "expected a number"),
    ("qrels.tsv", QRELS.replace("\n", "\r\n"), None),
    ("qrels.tsv", "\ufeff" + QRELS, None),
    ("qrels.tsv", QRELS.encode() + b"q\xff\td\t1\n", "qrels.tsv, line 6: not UTF-8"),
    ("qrels.tsv", "", "no positive"),
    ("qrels.txt", "q0 0 d0\n", "3 columns, expected 4"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": [["d0"]], "score": [1]}),
     "corpus-id is List(String)"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": [b"d0"], "score": [1]}),
     "corpus-id is Binary"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": ["d0"], "score": ["1"]}),
     "score is String; expected numbers"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": ["d0"], "score": [1.5]}),
     "has the grade 1.5"),
]  # fmt: skip


def names(cases: list) -> list[str]:
    """Name cases by number, file and words."""
    return [f"{n}-{case[0]}-{str(case[-1])[:40]}" for n, case in enumerate(cases)]


@pytest.mark.parametrize(("name", "content", "words"), SCORE, ids=names(SCORE))
def test_score(tmp_path, capsys, name, content, words):
    files = {"queries": "queries.jsonl", "qrels": "qrels.tsv", "run": "run.trec"}
    for kind, text in (("queries", lines(*QUERIES)), ("qrels", QRELS), ("run", RUN)):
        (tmp_path / files[kind]).write_text(text)
    files[name.partition(".")[0]] = name
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    given = [word for kind, file in files.items() for word in (f"--{kind}", tmp_path / file)]
    options = ("--buckets", "thirds", "--metrics", "mrr@10", "--out", tmp_path / "out")
    code = run("score", *given, *options)
    said = capsys.readouterr().err
    warned = words is not None and words in said and "warning: " in said
    assert code == (OK if words is None or warned else REFUSED), said
    assert (words or "") in said
    if code == REFUSED:
        assert said.count("\n") == 1
        assert not (tmp_path / "out").exists()
