"""FineWeb-PosQ's release: records give documents, and queries with a class but no span."""

import json
import random

import polars as pl
import pytest
from pydantic import ValidationError

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.generate.loaders import fineweb_posq_release
from psibench.generate.loaders.fineweb_posq_release import build_fineweb_posq_release
from psibench.tables import conform
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.lengths import count_whitespace_tokens

RECORDS = [
    {"question": "who?", "content": "zeta A x", "span_class": ["beginning"]},
    {"question": "when?", "content": " alpha B ", "span_class": ["middle", "end"]},
    {"question": None, "content": "nobody asks", "span_class": None},
    {"question": "", "content": "nobody asks", "span_class": []},
    {"question": "who?", "content": "alpha B", "span_class": "end"},
    {"question": "why?", "content": "zeta A x", "span_class": ["mixed"]},
]


def build(tmp_path, records=RECORDS, **more):
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records))
    source = {"kind": "files", "paths": [str(path)]}
    section = parse_benchmark({"recipe": "fineweb_posq_release", "source": source} | more)
    return section.build(count_whitespace_tokens)


def test_queries_have_a_class_but_no_span(tmp_path):
    built = build(tmp_path)
    assert built.corpus.rows() == [
        ("p00000", "alpha B", 7, 2, 2),
        ("p00001", "nobody asks", 11, 2, 2),
        ("p00002", "zeta A x", 8, 3, 3),
    ]
    tags = ["beginning"], ["middle", "end"], ["end"], None
    assert built.queries.rows() == [
        ("q00000", "who?", "p00002", None, 8, 3, "beginning", tags[0]),
        ("q00001", "when?", "p00000", None, 7, 2, "mixed", tags[1]),
        ("q00002", "who?", "p00000", None, 7, 2, "end", tags[2]),
        ("q00003", "why?", "p00002", None, 8, 3, "mixed", tags[3]),
    ]
    assert built.dropped.is_empty()
    for frame, spec in ((built.corpus, CORPUS), (built.queries, QUERIES), (built.qrels, QRELS)):
        conform(frame, spec, where=spec.name)


@pytest.mark.parametrize(
    ("labels", "passages_of_who"), [("all", {"p00000", "p00002"}), ("published", {"p00000"})]
)
def test_questions_of_several_passages_follow_the_labels_option(tmp_path, labels, passages_of_who):
    qrels = build(tmp_path, labels=labels).qrels
    for query in ("q00000", "q00002"):
        found = qrels.filter(pl.col("query-id") == query)["corpus-id"]
        assert set(found) == passages_of_who
    assert qrels.filter(pl.col("query-id") == "q00001")["corpus-id"].to_list() == ["p00000"]


def test_tiny_is_the_start_of_the_shuffle_per_third(monkeypatch):
    monkeypatch.setattr(fineweb_posq_release, "_TINY_PER_CLASS", 3)
    thirds = ("beginning", "middle", "end")
    rows = [(f"text {i % 16}", f"passage {i % 7}", [thirds[i % 3]]) for i in range(18)]
    rows[5][2].append("beginning")  # a query with two thirds may be drawn in both
    rows.append((None, "nobody asks", None))
    order = list(range(18))
    random.seed(42)
    random.shuffle(order)
    # The first three of each third in this order; text 0 is rows 0 and 16, text 1 rows 1 and 17.
    drawn, texts = [], set()
    for third in thirds:
        for row in [i for i in order if third in rows[i][2]][:3]:
            if rows[row][0] not in texts:
                texts.add(rows[row][0])
                drawn.append(f"q{row:05d}")
    records = pl.DataFrame(rows, schema=fineweb_posq_release._RECORD_SCHEMA, orient="row")
    full, tiny = (
        build_fineweb_posq_release(
            records, labels="all", subset=subset, count_tokens=count_whitespace_tokens
        )
        for subset in ("full", "tiny")
    )
    assert tiny.queries["_id"].to_list() == drawn
    assert 6 <= len(drawn) <= 9
    assert tiny.corpus.equals(full.corpus)
    assert set(tiny.qrels["query-id"]) == set(drawn)
    assert tiny.dropped["reason"].unique().to_list() == ["not_in_tiny_subset"]
    assert tiny.queries.height + tiny.dropped.height == full.queries.height == 18


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"question": "q?", "content": "x", "span_class": ["start"]}, r"line 1: span_class is \["),
        ({"question": "q?", "content": "x", "span_class": ["mixed", "end"]}, "or mixed"),
        ({"question": "q?", "content": "x", "span_class": 3}, "span_class is 3"),
        ({"question": "q?", "content": " "}, "field 'content' is blank"),
        ({"question": 3, "content": "x"}, "field 'question' is int, expected text"),
        ({"question": "q?", "text": "x"}, "missing column content; found question, text"),
        ({"question": None, "content": "x"}, "no record has a question"),
    ],
)
def test_invalid_records_are_refused(tmp_path, record, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path, [record])


def test_buckets_that_need_spans_are_refused_with_the_config(tmp_path):
    with pytest.raises(ValidationError, match="needs evidence spans"):
        build(tmp_path, buckets=["relative-20"])
