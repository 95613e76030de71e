"""Joining of parts, odd lengths, and what leaves with what."""

import numpy as np
import polars as pl

from psibench.translate.clean import (
    LEAVING_SCHEMA,
    Outliers,
    cascade,
    length_bounds,
    unusual_lengths,
)
from psibench.translate.translate import join_items, pieces_of


def leaving(*rows):
    return pl.DataFrame(rows, schema=LEAVING_SCHEMA, orient="row")


def queries_frame(rows):
    schema = {"_id": str, "pos_corpus_id": str}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(target_position=None)


def qrels_frame(rows):
    schema = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_a_document_takes_its_queries_and_a_query_its_judgements():
    left = cascade(
        pl.Series(["d1", "d2", "d3"]),
        queries_frame([("q1", "d1"), ("q2", "d2"), ("q3", "d3"), ("q4", "d1")]),
        qrels_frame(
            [("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d1", 1), ("q1", "d2", 0)]
        ),
        leaving(
            ("document", "d2", "too_long", "outside [1, 2] tokens", 9.0),
            ("query", "q4", "refusal", "suspect by phrase", None),
            ("query", "d1", "refusal", "a document has this id, and no query", None),
        ),
        originals=pl.DataFrame({"_id": ["d1", "d2", "d3"], "char_length": [5, 6, 7]}),
        stage="clean",
    )
    assert left.documents.to_list() == ["d1", "d3"]
    assert left.queries.to_list() == ["q1", "q3"]
    assert left.qrels.rows() == [("q1", "d1", 1), ("q3", "d3", 1)]
    columns = ("unit", "item_id", "doc_id", "reason", "detail", "score", "char_length")
    assert left.dropped.select(columns).rows() == [
        ("documents", "d2", "d2", "too_long", "outside [1, 2] tokens", 9.0, 6),
        ("queries", "q2", "d2", "positive_removed", "document d2", None, 6),
        ("queries", "q4", "d1", "refusal", "suspect by phrase", None, 5),
    ]


def corpus(lengths):
    ids = [f"d{i}" for i in range(len(lengths))]
    return pl.DataFrame({"_id": ids, "token_length": pl.Series(lengths, dtype=pl.Int32)})


def test_bounds_are_quartiles_and_their_distance():
    # 10 20 30 40 50: Q1 = 20, Q3 = 40, IQR = 20; 20 - 3 * 20 = -40, 40 + 1.5 * 20 = 70
    bounds = length_bounds(np.array([50, 10, 40, 20, 30]), low=3.0, high=1.5)
    assert bounds == (-40.0, 70.0)
    # 10 20 30 40: Q1 lies a quarter of the way from 10 + 20 * .75: 17.5, Q3 32.5, IQR 15
    bounds = length_bounds(np.array([10, 20, 30, 40]), low=1.0, high=2.0)
    assert bounds == (2.5, 62.5)


def test_lengths_outside_the_bounds_are_listed_those_on_them_not():
    # 2 4 4 6 6 8: Q1 = 4, Q3 = 6, IQR = 2
    found = unusual_lengths(corpus([2, 4, 4, 6, 6, 8]), corpus([]), Outliers(low=0.5, high=1.0))
    assert found.rows() == [("document", "d0", "too_short", "outside [3, 8] tokens", 2.0)]
    found = unusual_lengths(corpus([2, 4, 4, 6, 6, 8]), corpus([]), Outliers(low=1.0, high=0.5))
    assert found.rows() == [("document", "d5", "too_long", "outside [2, 7] tokens", 8.0)]
    assert unusual_lengths(corpus([]), corpus([]), Outliers()).is_empty()


def test_ratios_are_tokens_per_token_of_the_source_of_the_same_id():
    source = corpus([10, 100, 0, 7, 10, 10]).reverse()  # d3 has no translation
    made = corpus([10, 300, 4, 7, 20, 20]).filter(pl.col("_id") != "d3")
    # ratios 1, 3, 4, 2, 2: Q1 = 2, Q3 = 3, IQR = 1
    found = unusual_lengths(made, source, Outliers(of="ratio", low=0.5, high=0.5))
    assert found.rows() == [
        ("document", "d0", "too_short", "outside [1.5, 3.5] of the source's tokens", 1.0),
        ("document", "d2", "too_long", "outside [1.5, 3.5] of the source's tokens", 4.0),
    ]


def parts_frame(*rows):
    columns = ("_id", "doc_id", "item_id", "kind", "number", "n_parts", "text", "separator")
    schema = dict.fromkeys(columns, pl.String) | {"number": pl.Int32, "n_parts": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_a_space_is_put_between_parts_where_the_language_has_one():
    parts = parts_frame(
        ("d:b:0", "b", "b", "document", 0, 2, "三。", ""),
        ("d:b:1", "b", "b", "document", 1, 2, "四。", ""),
    )
    for language, texts, whole, joins in (
        ("spa-Latn", ["tres.", "cuatro."], "tres. cuatro.", [6]),
        ("cmn-Hans", ["三。", "四。"], "三。四。", [2]),
    ):
        made = pl.DataFrame({"_id": ["d:b:0", "d:b:1"], "text": texts})
        joined, _ = join_items(parts, made, language=language, clean=lambda text, _: (None, text))
        assert joined.select("text", "joins").rows() == [(whole, joins)]
        assert "".join(pieces_of(whole, joins)) == whole
