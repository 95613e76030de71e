import math

import polars as pl
import pytest

from psibench.filters.position_shift import POSITION_SHIFT, position_shift
from psibench.tables import conform
from psibench.text.segments import POSITIONS

B, M, E = POSITIONS
IN_B, IN_M, IN_E = [0, 9], [15, 20], [25, 30]  # spans in the thirds of 30 characters


def queries_of(*spans) -> pl.DataFrame:
    """Make the columns of QUERIES that are read: each target is the third with its span."""
    return pl.DataFrame({"pos_char_span": spans}).with_columns(
        target_position=pl.lit(None, pl.String), pos_char_length=30
    )


def flow_of(*rows) -> pl.DataFrame:
    names = ("stage", "step", "unit", "entered", "kept", "dropped")
    return pl.DataFrame(rows, schema=names, orient="row")


def attrition_of(*rows) -> pl.DataFrame:
    schema = {"stage": pl.String, "unit": pl.String, "target_position": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


# 4 queries are left; balancing dropped one, agreement three; chunks are no queries.
FLOW = flow_of(
    ("balance", 6, "questions", 5, 4, 1),
    ("generate", 2, "chunks", 9, 7, 2),
    ("generate", 2, "questions", 8, 8, 0),
    ("agreement", 5, "questions", 8, 5, 3),
)
LEDGER = attrition_of(
    ("generate", "chunks", E),
    ("generate", "chunks", E),
    ("agreement", "questions", M),
    ("agreement", "questions", E),
    ("agreement", "questions", E),
    ("balance", "questions", B),
)
LEFT = queries_of(IN_B, IN_B, IN_M, IN_E)


def stage_rows(table, stage) -> dict:
    rows = table.filter(stage=stage).iter_rows(named=True)
    return {row["target_position"]: row for row in rows}


def test_positions_are_rebuilt_backwards_from_the_final_queries():
    table = position_shift(FLOW, LEDGER, LEFT)
    columns = ("stage", "step", "target_position", "n_entered", "n_kept")
    assert table.select(columns).rows() == [
        ("generate", 0, "all", 8, 8),
        ("generate", 0, B, 3, 3),
        ("generate", 0, M, 2, 2),
        ("generate", 0, E, 3, 3),
        ("agreement", 1, "all", 8, 5),
        ("agreement", 1, B, 3, 3),
        ("agreement", 1, M, 2, 1),
        ("agreement", 1, E, 3, 1),
        ("balance", 2, "all", 5, 4),
        ("balance", 2, B, 3, 2),
        ("balance", 2, M, 1, 1),
        ("balance", 2, E, 1, 1),
    ]
    conform(table, POSITION_SHIFT, where="table")


def test_shift_of_a_stage_equals_hand_computed_values():
    rows = stage_rows(position_shift(FLOW, LEDGER, LEFT), "agreement")
    assert [rows[p]["share_of_entered"] for p in POSITIONS] == [3 / 8, 2 / 8, 3 / 8]
    assert [rows[p]["share_of_kept"] for p in POSITIONS] == [3 / 5, 1 / 5, 1 / 5]
    assert [rows[p]["share_kept"] for p in ("all", *POSITIONS)] == [5 / 8, 1, 1 / 2, 1 / 3]
    # (|.6 - .375| + |.2 - .25| + |.2 - .375|) / 2
    assert rows["all"]["shift"] == pytest.approx(0.225)
    # Kept 3, 1, 1 of 1.875, 1.25, 1.875 expected; dropped 0, 1, 2 of 1.125, .75, 1.125:
    # .675 + .05 + .40833 + 1.125 + .08333 + .68056 = 3.02222; with two degrees exp(-x / 2).
    assert rows["all"]["p_value"] == pytest.approx(math.exp(-3.0222222 / 2), rel=1e-6)
    assert rows["all"]["min_expected"] == pytest.approx(0.75)
    assert len({row["p_value"] for row in rows.values()}) == 1


def test_a_query_of_two_thirds_counts_at_its_single_tag():
    # 0-14 touches the border at 10: middle by the single-tag rule, as the ledger has it.
    flow = flow_of(("agreement", 1, "questions", 2, 1, 1))
    ledger = attrition_of(("agreement", "questions", M))
    rows = stage_rows(position_shift(flow, ledger, queries_of([0, 14])), "agreement")
    assert [rows[p]["n_entered"] for p in POSITIONS] == [0, 2, 0]
    assert rows["all"]["p_value"] is None  # only one position


def test_stages_before_evidence_is_located_are_left_out():
    flow = flow_of(
        ("propose_questions", 1, "questions", 9, 8, 1),
        ("locate_span", 2, "questions", 8, 4, 4),  # dropped by the third asked for
        ("span_necessity", 10, "questions", 4, 3, 1),
    )
    dropped = attrition_of(
        ("propose_questions", "questions", B),
        *(("locate_span", "questions", E) for _ in range(4)),
        ("span_necessity", "questions", M),
    )
    found = position_shift(flow, dropped, queries_of(IN_B, IN_B, IN_E))
    assert set(found["stage"]) == {"span_necessity"}
    assert found.filter(target_position="middle")["n_entered"].to_list() == [1]
