import random

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.generate.loaders import squad_posq
from psibench.generate.loaders.squad_posq import build_squad_posq
from psibench.sources.squad import questions_frame
from psibench.text.lengths import count_whitespace_tokens

C1, C2, C3, C4 = "zeta A x", "alpha  B x", "Only A here", "no question here"

# Reading order; C1, C2 and (unanswerable) C3 have the question "who?".
ROWS = [
    ("q1", "who?", C1, "A", 5, "art", "o"),
    ("q2", "who?", C2, "B", 7, "art", "o"),
    ("q3", "who?", C3, None, None, "art", "o"),
    ("q4", "what?", C1, "x", 7, "art", "o"),
    ("q5", "what?", C1, "A", 5, "art", "o"),
    (None, None, C4, None, None, "art", "o"),
]


def build(rows=ROWS, *, labels="all", subset="full"):
    frame = questions_frame(rows, where="w")
    return build_squad_posq(
        frame, labels=labels, subset=subset, count_tokens=count_whitespace_tokens
    )


def test_the_corpus_is_every_distinct_context_sorted():
    # Also C3, whose only question is unanswerable, and C4 without any question.
    assert build().corpus.rows() == [
        ("p00000", C3, 11, 3, 3),
        ("p00001", C2, 10, 4, 3),
        ("p00002", C4, 16, 3, 3),
        ("p00003", C1, 8, 3, 3),
    ]


def test_queries_are_the_answerable_questions_in_reading_order():
    built = build()
    columns = ("stage", "unit", "item_id", "doc_id", "reason", "char_length")
    assert built.dropped.select(columns).rows() == [
        ("squad_posq", "questions", "q3", "p00000", "unanswerable", 11)
    ]
    queries = built.queries
    assert queries.get_column("_id").to_list() == ["q1", "q2", "q4", "q5"]
    assert queries.row(1, named=True) == {
        "_id": "q2",
        "text": "who?",
        "pos_corpus_id": "p00001",
        "pos_char_span": [7, 8],
        "pos_char_length": 10,
        "pos_token_length": 3,
        "target_position": None,
        "answer": "B",
        "cluster": "art",
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # Every context that answers the question; never the unanswerable C3 (p00000).
        ("all", {"p00003", "p00001"}),
        # Only the last context in reading order.
        ("published", {"p00001"}),
    ],
)
def test_questions_of_several_contexts_are_labelled_by_the_option(labels, expected):
    qrels = build(labels=labels).qrels
    pairs = [("q4", "p00003"), ("q5", "p00003")]
    pairs += [(query, context) for query in ("q1", "q2") for context in expected]
    assert sorted(qrels.rows()) == sorted((*pair, 1) for pair in pairs)


def test_tiny_is_the_start_of_pythons_shuffle(monkeypatch):
    monkeypatch.setattr(squad_posq, "TINY_QUERIES", 4)
    order = [f"m{i}" for i in range(12)]
    random.seed(42)
    random.shuffle(order)
    rows = [(f"m{i}", f"text {i}", f"context A {i % 5}", "A", 8, "art", "o") for i in range(12)]
    tiny, full = (build([*rows, ROWS[2]], subset=subset) for subset in ("tiny", "full"))
    assert order[:4] == ["m7", "m5", "m2", "m8"]
    assert tiny.queries.get_column("_id").to_list() == order[:4]
    assert tiny.corpus.equals(full.corpus)
    assert tiny.qrels.get_column("query-id").to_list() == order[:4]
    reasons = tiny.dropped.group_by("reason").len().sort("reason").rows()
    assert reasons == [("not_in_tiny_subset", 8), ("unanswerable", 1)]
    assert tiny.queries.height + tiny.dropped.height == 13


@pytest.mark.parametrize(
    ("context", "answer", "start", "text", "span"),
    [
        ("  \nab cd\t", "cd", 6, "ab cd", [3, 5]),
        ("\u00a0😀 é ", "é", 3, "😀 é", [2, 3]),
        (" ab ", " ab ", 0, "ab", [0, 2]),
    ],
)
def test_white_space_around_a_context_shifts_the_span(context, answer, start, text, span):
    built = build([("q", "?", context, answer, start, None, "o")])
    assert built.corpus.get_column("text").to_list() == [text]
    assert built.queries.get_column("pos_char_span").to_list() == [span]
    low, high = span
    assert text[low:high] == answer.strip()


def section(path, **more):
    source = {"kind": "squad", "paths": [str(path)]}
    return parse_benchmark({"recipe": "squad_posq", "source": source, **more})


@pytest.mark.parametrize(
    ("name", "n_passages", "n_queries", "n_dropped"),
    [("squad-v2-train-10-articles.json", 694, 4371, 348), ("xquad.ar.json", 240, 1190, 0)],
)
def test_real_data_are_built_without_losses(real_data, name, n_passages, n_queries, n_dropped):
    benchmark = section(real_data / name)
    built = benchmark.build(count_whitespace_tokens)
    assert benchmark.files() == [str(real_data / name)]
    sizes = (built.corpus.height, built.queries.height, built.dropped.height)
    assert sizes == (n_passages, n_queries, n_dropped)
    texts = dict(built.corpus.select("_id", "text").iter_rows())
    spans = built.queries.select("pos_corpus_id", "pos_char_span", "answer").rows()
    assert all(texts[key][low:high] == answer for key, (low, high), answer in spans)
    own = built.queries.select(pl.col("_id").alias("query-id"), "pos_corpus_id")
    labelled = built.qrels.select("query-id", pl.col("corpus-id").alias("pos_corpus_id"))
    assert own.join(labelled, on=["query-id", "pos_corpus_id"], how="anti").is_empty()


def test_a_source_without_answers_is_refused():
    with pytest.raises(InputError, match="no question of the source has an answer"):
        build(ROWS[2:3])
