import polars as pl
import pytest

from psibench.metrics.statistics import position_shifts, relocation_table
from psibench.tables import conform
from psibench.tables.quality_schemas import RELOCATION
from psibench.translate.relocate import with_origins

SPAN = pl.Array(pl.Int32, 2)


def queries(*rows) -> pl.DataFrame:
    """Rows: original span, found span or None, how; originals 100, translations 200 characters."""
    return pl.DataFrame(
        [(f"q{i}", *row, 100, 200) for i, row in enumerate(rows)],
        schema={
            "_id": pl.String,
            "pos_char_span": SPAN,
            "located_char_span": SPAN,
            "located_by": pl.String,
            "pos_char_length": pl.Int32,
            "pos_translated_char_length": pl.Int32,
        },
        orient="row",
    )


def test_a_shift_is_the_difference_of_relative_positions():
    # middles: 10 of 100 and 20 of 200; 10 of 100 and 30 of 200; 90 of 100 and 40 of 200
    frame = queries(
        ([0, 20], [0, 40], "sentences"),
        ([0, 20], [20, 40], "sentences"),
        ([80, 100], [0, 80], "sentences"),
        ([0, 20], None, None),
    )
    assert position_shifts(frame)["shift"].to_list() == pytest.approx([0.0, 0.05, 0.7])
    table = relocation_table({"law": frame}, language="deu-Latn")
    conform(table, RELOCATION, where="test")
    (row,) = table.rows()
    assert row[:6] == ("deu-Latn", "law", "all", 4, 3, 0.75)
    assert row[6:] == pytest.approx((0.05, 2 / 3))  # 0.05 itself counts as close


def test_several_methods_have_rows_of_their_own():
    frame = queries(([0, 20], [0, 40], "quote"), ([0, 20], [100, 200], "sentences"))
    table = relocation_table({"law": frame}, language="deu-Latn")
    assert table.select("method", "n_queries", "n_located").rows() == [
        ("all", 2, 2),
        ("quote", 2, 1),
        ("sentences", 2, 1),
    ]


def test_nothing_found_is_a_row_and_no_relocation_is_none():
    lost = queries(([0, 20], None, None))
    plain = lost.drop("located_char_span", "located_by", "pos_translated_char_length")
    table = relocation_table({"law": lost, "game": plain}, language="deu-Latn")
    assert table.rows() == [("deu-Latn", "law", "all", 1, 0, 0.0, None, None)]
    empty = relocation_table({"law": lost.clear()}, language="deu-Latn")
    assert empty.rows() == [("deu-Latn", "law", "all", 0, 0, None, None, None)]


def test_whole_sentences_are_compared_with_whole_sentences():
    text = "One short. A longer sentence with the answer here. The end."
    answer = (text.index("answer"), text.index("answer") + 6)
    whole = [text.index("A longer"), text.index(" The end")]
    located = [2 * end for end in whole]  # a translation twice as long, in the same places
    frame = pl.DataFrame(
        [
            ("q1", "d1", list(answer), located, "sentences"),
            ("q2", "d1", [4, answer[1]], [0, located[1]], "sentences"),
            ("q3", "d1", list(answer), None, None),
        ],
        schema={
            "_id": pl.String,
            "pos_corpus_id": pl.String,
            "pos_char_span": SPAN,
            "located_char_span": SPAN,
            "located_by": pl.String,
        },
        orient="row",
    ).with_columns(pos_char_length=len(text), pos_translated_char_length=2 * len(text))
    made = with_origins(frame, pl.DataFrame({"_id": ["d1"], "text": [text]}))
    assert made["located_from_span"].dtype == SPAN
    assert made["located_from_span"].to_list() == [whole, [0, whole[1]], None]
    assert position_shifts(made)["shift"].to_list() == pytest.approx([0.0, 0.0])
    assert position_shifts(frame)["shift"][0] > 0.1  # the answer against a sentence


def test_without_the_sentences_it_came_from_a_span_is_compared_with_the_answer():
    frame = queries(([0, 20], [0, 40], "quote"), ([0, 20], [0, 40], "sentences"))
    mixed = frame.with_columns(located_from_span=pl.Series([None, [0, 40]], dtype=SPAN))
    assert position_shifts(mixed)["shift"].to_list() == pytest.approx([0.0, 0.1])
