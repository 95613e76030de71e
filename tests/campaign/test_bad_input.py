"""Broken and hostile input, a case a line: refused by name, or accepted; never a traceback, a hang.

A case that is refused ends with exit code 2 and one message that holds the words given here; an
accepted one (words None, or a warning's words) ends with 0.
"""

import gzip
import io
import itertools
import json
import os
import random
import resource
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from language_tables import SOURCE, write_domains, write_texts

from psibench.cli import main
from psibench.errors import InputError
from psibench.llm.prompts import load_prompt
from psibench.plan.config import load_config
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import QRELS as QRELS_TABLE

pytestmark = pytest.mark.timeout(300)  # a hang; a case takes a second at most on an idle machine

OK, REFUSED = 0, 2


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*argv: object) -> int:
    """Run a command in this process; whatever it raises fails the test."""
    try:
        return main([str(word) for word in argv])
    except SystemExit as stopped:  # argparse
        return int(stopped.code or 0)


def write(name: str, content: str | bytes) -> None:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


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
PAIR = {"query_id": "q0", "doc_id": "d0", "score": 1}

BAD_NUMBERS = ("1_0", "\u0661", "0x10", "high", "1,5", "1e", "+", "9" * 5000, "1e999")


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
    """Lines with the last score written unchanged."""
    return run_file("jsonl", "@").replace('"@"', score)


def mteb(name: object) -> str:
    """A prediction file of MTEB."""
    scores = {f"q{n}": {f"d{n}": 2.5} for n in range(4)}
    return json.dumps({"mteb_model_meta": {"model_name": name}, "en": {"test": scores}})


def queries(**changes: object) -> str:
    """Queries as lines, the last one changed."""
    return lines(*QUERIES[:3], QUERIES[3] | changes)


def several(spans: object, **changes: object) -> str:
    """Queries as lines, the last one with evidence in several places."""
    return queries(**{"pos_char_span": None, "pos_char_spans": spans} | changes)


def query_table(**changes: object) -> bytes:
    """Queries as Parquet, columns changed."""
    return parquet(**{name: [query[name] for query in QUERIES] for name in QUERIES[0]} | changes)


def pairs(**changes: object) -> bytes:
    """A run as Parquet, columns changed."""
    queries, documents = ([f"{kind}{n}" for n in range(4)] for kind in "qd")
    run = {"query_id": queries, "doc_id": documents, "score": [1.0, 2.0, 3.0, 4.0]}
    return parquet(**run | changes)


DEEP = "[" * 100_000
FLOATS = [[n * 20.5, n * 20.5 + 9] for n in range(4)]
HUGE = pa.array([[0, 2**64 - 1]] * 4, pa.list_(pa.uint64()))

SCORE = [
    *(
        (f"run.{kind}", run_file(kind, bad), "expected a number")
        for kind, bad in itertools.product(
            ("trec", "csv", "tsv", "jsonl", "json"), BAD_NUMBERS
        )
    ),
    *(
        (f"run.{kind}", run_file(kind, good), None)
        for kind, good in itertools.product(
            ("trec", "csv", "tsv", "jsonl", "json"),
            ("-1", "+1.5", "1.", ".5", "-2.5E-3", "-Infinity"),
        )
    ),
    ("run.jsonl", json_run("1e39"), "outside the range of 32-bit floats"),
    ("run.jsonl", json_run("true"), "score is True; expected a number"),
    ("run.jsonl", json_run("NaN"), "the score nan"),
    ("run.jsonl", DEEP, "run.jsonl, line 1: not JSON: nested too deep"),
    ("run.json", '{"q0": {"d0": 1, "d0": 2}}', "the key 'd0' occurs twice"),
    ("run.json", '{"q0": {"\\ud800": 1}}', "half of a surrogate pair"),
    ("run.json", "[]", "found a list; expected a JSON object"),
    ("run.json", '{"task_name": "T", "scores": {}}', "MTEB's results have no ranking"),
    ("run.json", '{"en": {"test": [1, 2]}}', "en/test has a list"),
    ("run.json", mteb(["a"]), "model_name is ['a']; expected an id"),
    ("run.json.gz", gzip.compress(b" " * (1 << 30) + b"1", 1), "more than 1,073,741,824 char"),
    ("run.jsonl.gz", gzip.compress(b"x" * (1 << 29), 1), "line 1: more than 268,435,456 char"),
    ("run.jsonl", '{"query_id": "q0"}', "missing columns doc_id, score"),
    ("run.jsonl", lines(PAIR).replace("}", "},"), "run.jsonl, line 1: not JSON"),
    ("run.jsonl", json.dumps([PAIR]), "not a JSON object but list"),
    ("run.jsonl", lines(PAIR).replace("}", ', "score": 2}'), "'score' occurs twice"),
    ("run.jsonl", lines(PAIR | {"doc_id": 12.0}), "doc_id is 12.0; expected an id"),
    ("run.jsonl", lines(PAIR | {"doc_id": "\ud800"}), "half of a surrogate pair"),
    ("run.jsonl", b"q1\0", "found binary data"),
    ("run.jsonl", lines(PAIR).encode("utf-16"), "found UTF-16 text, expected a text file in UTF-8"),
    ("run.jsonl", '{"query_id": "caf\xe9"}'.encode("latin1"), "run.jsonl, line 1: not UTF-8 text"),
    ("run.jsonl", '{"query_id": "q0", "qid": "q1", "doc_id": "d", "score": 1}',
     "query_id and qid both mean the column query_id"),
    ("run.jsonl", '{"query_id": ["q0"], "doc_id": "d", "score": 1}', "expected an id"),
    ("run.jsonl", '{"query_id": "", "doc_id": "d", "score": 1}', "expected an id"),
    ("run.csv", "query_id,doc_id,score,score\nq0,d0,1,2\n", "repeated columns: score"),
    ("run.csv", 'query_id,doc_id,score\nq0,"d0,1\n', "line"),
    ("run.trec", RUN.encode() * 10 + b"q0 Q0 d\xe9 1 1 r\n", "run.trec, line 81: not UTF-8"),
    ("run.trec", RUN + "q0 Q0 y 3\n", "run.trec, line 9: 4 columns, expected 6"),
    ("run.trec", "q0 Q0 d0 1 1 r\n" * 2, "scores document 'd0' 2 times"),
    ("run.trec", RUN.encode("utf-16"), "found UTF-16 text"),
    ("run.trec", RUN.replace("\n", "\r\n"), None),
    ("run.trec", "\ufeff" + RUN, None),
    ("run.trec.gz", gzip.compress(RUN.encode() * 9)[:-30], "damaged or truncated gzip"),
    ("run.trec.gz", RUN.encode(), "damaged or truncated gzip"),
    ("run.trec", RUN + "q9 Q0 d 1 1 r\n", "not among the queries: 'q9'"),
    ("run.trec", RUN.replace(" d", " D"), "none of the 4 judged documents"),
    ("run.parquet", pairs(doc_id=["d0", "d1", "d2", "d3"]), None),
    ("run.parquet", pairs(score=["1", "2", "3", "4"]), "expected numbers"),
    ("run.parquet", pairs(score=[1.0, 2.0, None, 4.0]), "the score None"),
    ("run.parquet", pairs(query_id=[["q0"]] * 4), "query_id is List(String); expected text"),
    ("run.parquet", twice(pa.table({"query_id": ["q"], "doc_id": ["d"], "score": [1]}), "score"),
     "columns that occur twice: score"),
    ("run.parquet", pairs()[:4] + b"\xff" * 56 + pairs()[60:], "not a readable Parquet file"),
    ("run.csv", "query_id,chunk_id,score\nq0,c,1\n", "a run of chunks has doc_id, start and end"),
    # queries
    ("queries.jsonl", queries(pos_char_span=[0.5, 9.5]), "line 4: pos_char_span is [0.5, 9.5]"),
    ("queries.jsonl", queries(pos_char_span=[0, 2**63]), "pos_char_span is"),
    ("queries.jsonl", queries(pos_char_span=[-5, 9]), "has the span [-5, 9]"),
    ("queries.jsonl", queries(pos_char_span=[9, 9]), "has the span [9, 9]"),
    ("queries.jsonl", queries(pos_char_span=[9, 100]), "spans of 1 of 4 queries end beyond"),
    ("queries.jsonl", queries(pos_char_span=None), "has the span None"),
    ("queries.jsonl", several([0, 3]), "pos_char_spans is [0, 3]; expected lists of [start, end]"),
    *(
        ("queries.jsonl", several(spans), f"'q3' has the pos_char_spans {spans}")
        for spans in (
            *([], [[0, 3], [2, 5]], [[0, 3], [5, 5]], [[-1, 3], [5, 6]], [[0, 3], [5, 100]]),
        )
    ),
    ("queries.jsonl", several([[0, 3]], pos_char_span=[0, 3]), "has the pos_char_spans [[0, 3]]"),
    ("queries.jsonl", queries(pos_char_length=99.5), "pos_char_length is 99.5"),
    ("queries.jsonl", queries(pos_char_length=2**31), "document of 2147483648 characters"),
    ("queries.jsonl", queries(pos_token_length=0), "the pos_token_length 0"),
    ("queries.jsonl", queries(_id=["q3"]), "line 4: _id is ['q3']; expected an id"),
    ("queries.jsonl", queries(_id="q0"), "query ids that occur twice: 'q0'"),
    ("queries.jsonl", queries(domain=["law"]), "domain is ['law']"),
    ("queries.jsonl", queries(target_position="start"), "target_position 'start'"),
    ("queries.jsonl", queries(pos_char_span=None, pos_char_length=0, target_position="end"),
     "has the span None in a document of 0"),
    ("queries.jsonl", queries(positions="end"), "positions is 'end'; expected lists of texts"),
    ("queries.jsonl", queries(positions=["end", "tail"]), "['end', 'tail']; allowed: beginning"),
    ("queries.jsonl", queries(pos_corpus_id="d0"), "1 of 4 queries is not a positive in the qrels"),
    ("queries.jsonl", "", "no queries"),
    ("queries.jsonl", lines({"_id": "q0", "text": "t", "metadata": {}}),
     "queries.jsonl: missing columns pos_char_span, pos_char_length; found _id; position buckets"),
    ("queries.parquet", query_table(pos_char_span=[[0.0, 9.0]] * 4), None),
    ("queries.jsonl", lines({"_id": "q0", "pos_char_spam": [0, 9], "target_position": "end"}),
     "unknown column 'pos_char_spam'; did you mean pos_char_span?"),
    ("queries.parquet",
     parquet(_id=["q0"], pos_char_spam=[[0, 9]], target_position=["end"]),
     "unknown column 'pos_char_spam'; did you mean pos_char_span?"),
    ("queries.parquet", query_table(pos_char_span=FLOATS), "pos_char_span is List(Float64); exp"),
    ("queries.parquet", query_table(pos_char_span=[[0, 9, 10]] * 4), "has the span [0, 9, 10]"),
    ("queries.parquet", query_table(pos_char_spans=[7] * 4), "pos_char_spans is Int64; expected"),
    *(
        ("queries.parquet", query_table(pos_char_span=[None] * 4, pos_char_spans=[spans] * 4),
         "has the pos_char_spans [[0, 3], ")
        for spans in ([[0, 3], [5, None]], [[0, 3], None], [[0, 3], [5]])
    ),
    ("queries.parquet", query_table(pos_char_span=HUGE),
     "pos_char_span: conversion"),
    ("queries.parquet", query_table(pos_char_length=[99.5] * 4), "pos_char_length is Float64; exp"),
    ("queries.parquet", query_table(_id=["q0", None, "q2", "q3"]), "1 queries without an _id"),
    # qrels
    ("qrels.tsv", QRELS + "q0\td0\t0\n", "'q0', document 'd0' is graded 2 times: 1, 0"),
    ("qrels.tsv", QRELS + "q0\td9\t1\n", "1 of 4 queries have several positives of the highest"),
    ("qrels.tsv", QRELS + "q9\td9\t1\n", "not among the queries: 'q9'"),
    ("qrels.tsv", QRELS.replace("q3\td3\t1\n", ""), "queries without a positive: 'q3'"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t1.5\n"), "has the grade 1.5; expected a whole"),
    ("qrels.tsv", QRELS.replace("d0\t1\n", "d0\t1e300\n"), "expected a whole number"),
    ("qrels.tsv", "", "none of the queries has a positive"),
    ("qrels.tsv", "q0\td0\t1\nq1\td1\t1\n", "qrels.tsv, line 2: missing columns query-id"),
    ("qrels.tsv", "query-id\tcorpus-id\tscore\nq0\td0\n", "qrels.tsv, line 2: 2 columns"),
    ("qrels.json", "[]", "qrels.json: found a list; expected {query id: {document id: grade}}"),
    ("qrels.qrels", "q0 0 d0 1 x\n", "qrels.qrels, line 1: 5 columns, expected 4"),
    ("qrels.bin", "x", "unknown suffix. Supported: parquet"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": [b"d0"], "score": [1]}),
     "corpus-id is Binary"),
    ("qrels.parquet", parquet(**{"query-id": ["q0"], "corpus-id": ["d0"], "score": ["1"]}),
     "score is String; expected numbers"),
]  # fmt: skip


def score(name: str, content: str | bytes) -> int:
    """Score good files but for one, which takes the place of its kind."""
    files = {"queries": "queries.jsonl", "qrels": "qrels.tsv", "run": "run.trec"}
    for kind, text in (("queries", lines(*QUERIES)), ("qrels", QRELS), ("run", RUN)):
        Path(files[kind]).write_text(text)
    files[name.partition(".")[0]] = name
    write(name, content)
    given = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    options = ("--buckets", "thirds", "--metrics", "mrr@10", "--out", "out")
    return run("score", *given, *options)


GOOD: dict[str, str | bytes] = {
    **{f"run.{kind}": run_file(kind, "1.5") for kind in ("trec", "csv", "tsv", "jsonl", "json")},
    "run.parquet": pairs(doc_id=["d0", "d1", "d2", "d3"]),
    "queries.jsonl": queries(),
    "queries.parquet": query_table(),
    "qrels.tsv": QRELS,
}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", GOOD)
def test_any_damage_is_refused_or_accepted(capsys, name, seed):
    rng, content = random.Random(f"{name} {seed}"), GOOD[name]
    data = bytearray(content if isinstance(content, bytes) else content.encode())
    for _ in range(rng.choice((1, 1, 2, 3))):
        place, length = rng.randrange(len(data)), rng.choice((1, 2, 16))
        new = rng.choice((b"", b"\0", b"\xff", b"-", b"9" * 400, b"[", b"null", b"\xed\xa0\x80"))
        data[place : place + length] = new + bytes(data[place : place + length]) * rng.randrange(3)
    assert score(name, bytes(data)) in (OK, REFUSED)
    assert "Traceback" not in capsys.readouterr().err


# --- documents of a source -------------------------------------------------------------------

TEXT = {"text": "one two three"}
DEEP_OBJECT = '{"a":' * 100_000


def texts(**columns: object) -> bytes:
    return parquet(**{"text": ["one", "two"]} | columns)


DOCUMENTS = [
    ("d.jsonl", lines({"text": "\ud800"}), "half of a surrogate pair"),
    ("d.jsonl", lines(TEXT | {"_id": ["a"]}), "field '_id' is list, expected text"),
    ("d.jsonl", lines({"text": ["a"]}), r"no text in field 'text' (it is list)"),
    ("d.jsonl", lines({"txt": "a"}), "found the fields txt"),
    ("d.jsonl", lines(TEXT | {"_id": "a"}, TEXT | {"_id": "a"}), "id 'a' occurs 2 times"),
    ("d.jsonl", DEEP, "d.jsonl, line 1: not JSON: nested too deep"),
    ("d.jsonl", '{"text": "a", "n": 1e400}', "the number '1e400' is too large"),
    ("d.jsonl", '{"text": "a", "text": "b"}', "the key 'text' occurs twice"),
    ("d.jsonl", b'{"text": "a"}\n' * 80 + b'{"text": "\xe9"}', "d.jsonl, line 81: not UTF-8"),
    ("d.txt", b"one\nte\xffxt", "found bytes that are not UTF-8 (line 2, byte 6 of the file)"),
    ("d.parquet", texts(id=[b"a", b"b"]), "field 'id' is bytes, expected text"),
    ("d.parquet", texts(text=binary_text(b"a", b"\xff")), "not a readable Parquet file"),
    ("d.parquet", texts(other=binary_text(b"a", b"\xff")), None),
    ("d.parquet", twice(pa.table({"text": ["a"]}), "text"), "columns that occur twice: text"),
    ("d.parquet", texts()[:20] + b"\xff" * 20 + texts()[40:], "not a readable Parquet file"),
    ("s.json", DEEP, "s.json: not valid JSON: nested too deep"),
    ("s.json", '{"data": [1]}', "in SQuAD format"),
    ("s.json", '{"data": [{"paragraphs": [{"context": "\\ud800"}]}]}', "half of a surrogate"),
    ("s.json", '{"data": [{"paragraphs": [{"context": " "}]}]}', "the context is empty"),
    ("s.json", '{"data": []}', "no passages found"),
    ("s.json", "", "the file is empty"),
]


def squad(**answer: object) -> str:
    question = {"id": "q", "question": "a?", "answers": [{"text": "b", "answer_start": 2} | answer]}
    return json.dumps({"data": [{"paragraphs": [{"context": "a b c", "qas": [question]}]}]})


DOCUMENTS += [
    ("s.json", squad(), None),
    ("s.json", squad(answer_start=-3), "is not at answer_start -3"),
    ("s.json", squad(answer_start="2"), "answer_start is '2'; expected a whole number"),
    ("s.json", squad(text=5), "expected text"),
]


def check_source(name: str) -> int:
    """Check a config of one source, a file or folder of this folder."""
    is_squad = name.endswith(".json")
    source = {"kind": "squad" if is_squad else "files", "paths": [name]}
    recipe = "squad_posq" if is_squad else "known_item"
    config = {"benchmarks": {"b": {"recipe": recipe, "source": source}}, "models": ["bm25"]}
    Path("c.yaml").write_text(json.dumps(config))
    return run("check", "c.yaml")


def documents(name: str, content: str | bytes) -> int:
    """Check a config of a source with one file."""
    write(name, content)
    return check_source(name)


# --- folders, pipes and other paths that are not plain files ---------------------------------


PLACES = {"a folder": Path.mkdir, "a pipe": os.mkfifo, "nothing": lambda path: None}


def scored(path: Path) -> tuple[object, ...]:
    return ("score", "--run", path, "--queries", path, "--qrels", path)


READERS = {
    "queries.jsonl": scored,
    "queries.parquet": scored,
    "t.parquet": lambda path: ("check", path),
    "c.yaml": lambda path: ("check", path),
    "psi_table.parquet": lambda path: ("show", path),
    "m.yaml": lambda path: ("models", "--config", path),
    "p.yaml": lambda path: ("plan", "--config", path),
    "query_scores.parquet": lambda path: ("compare", path, path),
    "results": lambda path: ("export", path, path.parent / "out", "--licence", "cc0-1.0"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_plain_file(tmp_path, capsys, place, name):
    path = tmp_path / name
    PLACES[place](path)
    argv = READERS[name](path)
    assert run(*argv, *(("--out", tmp_path / "o") if argv[0] == "score" else ())) == REFUSED
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["x.jsonl", "x.txt", "x.parquet", "x.json"])
def test_a_source_that_is_no_plain_file(capsys, place, name):
    PLACES[place](Path(name))
    code = check_source(name)
    printed = capsys.readouterr()
    assert code == REFUSED or "missing: " in printed.out
    assert code == (REFUSED if place == "a pipe" else code)


FILE_NAMES = [
    (b"\xff.txt", b"text", "its name is not UTF-8"),
    (b"a{b}.txt", b"text", "braces in a path mean a wildcard to the workflow"),
    (b"a\nb.txt", b"text", None),
    (b"\x1b[31m.txt", b"\xff", "\\x1b[31m.txt: found bytes that are not UTF-8"),
    ("\u202e.txt".encode(), b"\xff", "\\u202e.txt: found bytes that are not UTF-8"),
    (b"-rf.txt", b"text", None),
    (b".txt", b"text", "no document in this folder"),
]


@pytest.mark.parametrize(
    ("name", "data", "words"), FILE_NAMES, ids=map(str, range(len(FILE_NAMES)))
)
def test_the_name_of_a_file(capsys, name, data, words):
    os.makedirs(os.path.dirname(b"d/" + name))
    with open(b"d/" + name, "wb") as stream:
        stream.write(data)
    code = check_source("d")
    printed = capsys.readouterr()
    told = printed.err + printed.out
    assert (words or "") in told
    assert code == (OK if words is None or "missing: " in told else REFUSED), told
    assert told.isascii()
    assert "\x1b" not in told


@pytest.mark.parametrize("name", READERS)
def test_a_name_on_the_command_line_that_is_not_utf8(tmp_path, capsys, name):
    path = tmp_path / os.fsdecode(b"\xff" + name.encode())
    assert run(*READERS[name](path)) == REFUSED
    said = capsys.readouterr().err
    assert said.endswith("is not UTF-8; rename the file\n")
    assert said.count("\n") == 1


# --- configs ---------------------------------------------------------------------------------

HEAD = (
    "models: [bm25]\nbenchmarks:\n  b:\n    recipe: known_item\n    source: {kind: python_docs}\n"
)
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def llm(**entry: object) -> str:
    own = {"backend": "openai", "model": "m", "base_url": "http://localhost:8000/v1"} | entry
    return json.dumps({"llms": {"mine": own}, "models": ["bm25"]})


def embedding_api(**entry: object) -> str:
    own = {"backend": "embedding-api", "model": "m", "max_tokens": 16, "tokenizer": "words"}
    return json.dumps({"registry": {"mine": own | entry}, "models": ["bm25"]})


CONFIGS = [
    (HEAD, None),
    ("", None),
    ("\ufeff" + HEAD, None),
    (BOMB + HEAD, "aliases expand to more than 1,000,000 values"),
    ("models: &m [*m]\n", "c.yaml: not valid YAML: a value contains itself"),
    ("[" * 100_000, "nested too deep"),
    ("models: [bm25]\nmodels: [bm25]\n", "the key 'models' occurs twice"),
    ("report: {title: 2026-99-99}\n", "not valid YAML: month must be in 1..12"),
    ('report: {title: "a\\0b"}\n', "has the control character '\\x00'"),
    ("store: 'a{b}c'\n", "braces in a path mean a wildcard"),
    ("1: 2\n", "the key 1 is no text"),
    (b"models: [\xe9]\n", "bytes that are not UTF-8"),
    (HEAD.encode("utf-16"), "found UTF-16 text"),
    ("benchmarks: {b: {recipe: [x]}}\n", "benchmarks.b"),
    ("registry: {m: {backend: bm25s, k: .nan}}\nmodels: [m]\n", "registry.m.k"),
    (llm(), None),
    *(
        (llm(base_url=address), words)
        for address, words in {
            "http://localhost:99999/v1": "Port out of range",
            "http://[::1/v1": "not an address",
            "http:///v1": "not an http(s) address",
            "localhost:8000": "not an http(s) address",
            "http://localhost/\r\nX: y": "blanks or characters",
            "http://u:secret@localhost/v1": "user name, password or query",
            "http://localhost/v1?api_key=secret": "user name, password or query",
        }.items()
    ),
    *(
        (llm(headers=headers), "not allowed in an HTTP header")
        for headers in ({"X-A": "a\r\nX-B: b"}, {"X-A\r\nX-B": "a"}, {"": "a"}, {"X A": "a"})
    ),
    *(
        (embedding_api(**{key: address}), words)
        for key, words in (("base_url", "base_url: unknown key"), ("url", "registry.mine.url: fo"))
        for address in ("http://u:secret@h/v1", "https://h/?k=secret", "ftp://secret@h")
    ),
    (embedding_api(url="http://h/v1", query_prompt="x" * 10_001), "at most 10000 characters"),
]


def config(content: str | bytes) -> int:
    write("c.yaml", content)
    return run("check", "c.yaml")


@pytest.mark.parametrize("value", ["x", {"a": "x"}], ids=["lists", "mappings"])
def test_aliases_that_snakemake_lets_pass(value):
    for _ in range(12):
        value = (
            [value] * 10 if isinstance(value, str | list) else dict.fromkeys("abcdefghij", value)
        )
    with pytest.raises(InputError, match="config: aliases expand to more than 1,000,000 values"):
        load_config({"report": value})


# --- prompt templates ------------------------------------------------------------------------

PROMPT = "---\ntask: grade_relevance\nvariables: [document]\nresponse: integer\n---\n## user\n@\n"
TEMPLATES = [
    ("{{ document }}", None),
    ("{{ document }", "line"),
    ("{% include 'x' %}{{ document }}", "message user: "),
    ("{% for a in range(10**9) %}{{ document }}{% endfor %}", "the messages use document, range"),
    ("{{ [document] | random }}", "No filter named 'random'"),
    ("{{ [].pop() }}{{ document }}", "message user: pop() is not allowed in a prompt"),
    ("{{ document | xmlattr }}", "No filter named 'xmlattr'"),
    ("{{ 9**99999 }}{{ document }}", "message user: a number of more than 4096 bits"),
    ("{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(document) }}", "Macro is not supported"),
    ("{{ ''.__class__.__mro__ }}{{ document() }}", "message user: "),
    ("{{ other }}", "the messages use other"),
]
HEADERS = [
    ("task: grade_relevance", "task: [a]", "task: found ['a']. Input should be a valid string"),
    ("task: grade_relevance", "task: a\nmodel: x", "model: unknown key"),
    ("task: grade_relevance", "task: my_task", "there is no shipped template for task 'my_task'"),
    ("response: integer", "response: text", "is one string, but the task grade_relevance reads g"),
    ("[document]", "[document, more]", "names the variables document, more"),
    ("response: integer", "response: {type: nope}", "response is no JSON schema"),
    ("---\ntask", "task", "no header"),
    ("## user", "user", "text outside of a message"),
]


NO_TEXT = (b"\xff", PROMPT.encode("utf-16"), b"---\ntask: \xe9\n---\n", b"")
PROMPTS = [
    *((PROMPT.replace("@", body).encode(), words) for body, words in TEMPLATES),
    *(
        (PROMPT.replace(old, new, 1).replace("@", "{{ document }}").encode(), words)
        for old, new, words in HEADERS
    ),
    *((data, "p.md: ") for data in NO_TEXT),
]


@pytest.mark.parametrize(("data", "words"), PROMPTS, ids=[str(n) for n in range(len(PROMPTS))])
def test_a_prompt_template(tmp_path, data, words):
    (tmp_path / "p.md").write_bytes(data)
    if words is None:
        assert load_prompt(tmp_path / "p.md").render({"document": "d"})
        return
    with pytest.raises(InputError) as raised:
        load_prompt(tmp_path / "p.md").render({"document": "d"})
    assert words in str(raised.value)


# --- tables with provenance ------------------------------------------------------------------

ROWS = pl.DataFrame({"query-id": ["q1", "q2"], "corpus-id": ["d1", "d2"], "score": [1, 1]})


def changed(path: Path, change: Callable[[dict], object]) -> None:
    """Rewrite a table with another record: JSON of what ``change`` returns, or its bytes."""
    table = pq.read_table(path)
    record = change(json.loads(table.schema.metadata[b"psibench"]))
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    pq.write_table(table.replace_schema_metadata({b"psibench": data}), path)


def deep(n: int) -> object:
    value: object = 1
    for _ in range(n):
        value = [value]
    return value


RECORDS = [
    (lambda r: r, None),
    (lambda r: r | {"queries_by": "\x1b[31m\u202e"}, None),
    (lambda r: b"\xff", "its psibench provenance is damaged"),
    (lambda r: b"[]", "its psibench provenance is damaged"),
    (lambda r: b'"\\ud800"', "its psibench provenance is damaged"),
    (lambda r: r | {"params": deep(500)}, "damaged (no params)"),
    (lambda r: r | {"params": {"other": 1}}, "the hash of params is not params_hash"),
    (lambda r: r | {"table": ["qrels"]}, "damaged (no table)"),
    (lambda r: r | {"table": "nope"}, "unknown table 'nope'"),
    (lambda r: r | {"table": "corpus"}, "not a 'corpus' table"),
    (lambda r: r | {"rows_hash": "rows:0"}, "the hash of its rows is"),
    (lambda r: r | {"further": deep(50)}, None),
]


def qrels() -> Path:
    made = Provenance("build", 1, params={"seed": 42}, queries_by="people")
    write_table(ROWS, "qrels.parquet", QRELS_TABLE, provenance=made)
    return Path("qrels.parquet")


def record(change: Callable[[dict], object]) -> int:
    """Check a table whose record is another."""
    changed(qrels(), change)
    return run("check", "qrels.parquet")


def test_a_record_s_text_is_one_line_of_what_is_printed(capsys):
    changed(qrels(), lambda r: r | {"queries_by": "people\n  table: corpus\u2028\x1b[31m"})
    assert run("check", "qrels.parquet") == OK
    printed = capsys.readouterr().out
    assert r'queries_by: "people\n  table: corpus\u2028\u001b[31m"' in printed
    assert printed.count("table: ") == 2


TABLES = [
    (lambda t: t, None),
    (lambda t: t.append_column("score", t.column("score")), "columns that occur twice: score"),
    (lambda t: t.append_column("more", t.column("score")), "unknown columns: more"),
    (lambda t: t.drop_columns(["score"]), "missing columns: score"),
    (lambda t: column(t, "score", pa.array([2, 1], pa.int32())), "the hash of its rows is"),
    (lambda t: column(t, "query-id", t.column("query-id").take([1, 0])), "the hash of its rows is"),
    (lambda t: column(t, "score", ["1", "1"]), "'score' is large_string"),
    (lambda t: column(t, "score", [None, 1]), "is null in row 0"),
    (lambda t: column(t, "query-id", binary_text(b"q1", b"\xff")), "not a readable Parquet file"),
    (lambda t: column(t, "corpus-id", ["d1", "d1"]).set_column(0, "query-id", [["q1", "q1"]]),
     "share a key"),
]  # fmt: skip


def column(table: pa.Table, name: str, values: object) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values) if isinstance(values, list) else values)


def rows(change: Callable[[pa.Table], pa.Table]) -> int:
    """Check a table whose rows are others under its record."""
    old = pq.read_table(qrels())
    pq.write_table(change(old).replace_schema_metadata(old.schema.metadata), "qrels.parquet")
    return run("check", "qrels.parquet")


# --- every case above ------------------------------------------------------------------------


KINDS = {score: SCORE, documents: DOCUMENTS, config: CONFIGS, record: RECORDS, rows: TABLES}
CASES = [(kind, *case) for kind, cases in KINDS.items() for case in cases]


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{c[0].__name__}-{n}-{str(c[-1])[:40]}" for n, c in enumerate(CASES)]
)
def test_bad_input_is_refused_by_name_and_good_accepted(capsys, case):
    kind, *given, words = case
    code = kind(*given)
    printed = capsys.readouterr()
    said = printed.err
    warned = kind is score and words is not None and words in said and "warning: " in said
    assert code == (OK if words is None or warned else REFUSED), said
    assert (words or "") in said
    assert "\x1b" not in printed.out
    assert "secret" not in said.replace("secrets", "")
    if code == REFUSED and kind is score:
        assert said.count("\n") == 1
        assert not Path("out").exists()


# --- the answer store, a full disk ------------------------------------------------------------


@contextmanager
def full_disk():
    """No file may grow beyond a few bytes: what writes gets an error of the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:  # before pytest writes its output
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_export_to_a_full_disk_leaves_nothing(tmp_path, capsys):
    folder = tmp_path / "b" / "data" / "eng-Latn"
    write_texts(folder, questions={"q1": "who?", "q2": "where?"}, domain="law")
    write_domains({"law": ROWS}, folder / "qrels.parquet", QRELS_TABLE, provenance=SOURCE)
    assert run("export", tmp_path / "b", tmp_path / "sound", "--licence", "cc0-1.0") == OK
    capsys.readouterr()
    with full_disk():
        code = run("export", tmp_path / "b", tmp_path / "out", "--licence", "cc0-1.0")
    assert code == REFUSED
    said = capsys.readouterr().err
    assert "cannot read or write" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "sound"]
