"""Small score tables for the tests of the filters' rules."""

import math

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from psibench.text.segments import POSITIONS

NAN = float("nan")
SPAN = ("document", "removed")

examples = settings(deadline=None, max_examples=60)  # frames take milliseconds each

few_scores = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])  # exact in binary, many ties
any_score = st.one_of(few_scores, st.sampled_from([None, NAN]))
some_targets = st.sampled_from(
    [
        [],
        ["beginning"],
        ["middle"],
        ["end"],
        ["beginning", "middle"],
        ["middle", "end"],
        [*POSITIONS],
    ]
)


def segment_scores(scores, *, parts=POSITIONS, column="score") -> pl.DataFrame:
    """Make SEGMENT_SCORES of {(query, reranker): scores of the parts}."""
    rows = [
        (query, reranker, part, value)
        for (query, reranker), values in scores.items()
        for part, value in zip(parts, values, strict=True)
    ]
    schema = {"query_id": str, "reranker": str, "part": str, column: float}
    other = "raw" if column == "score" else "score"
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.lit(0.5).alias(other))


def pair_scores(scores) -> pl.DataFrame:
    """Make PAIR_SCORES of {(query, document, reranker): score}."""
    rows = [(*key, value, value) for key, value in scores.items()]
    schema = {"query_id": str, "doc_id": str, "reranker": str, "score": float, "raw": float}
    return pl.DataFrame(rows, schema=schema, orient="row")


def candidates_frame(targets) -> pl.DataFrame:
    """Make what the rules read of CANDIDATES, of {query: positions}."""
    schema = {"_id": pl.String, "positions": pl.List(pl.String)}
    return pl.DataFrame([list(targets), list(targets.values())], schema=schema, orient="col")


def targets_frame(targets) -> pl.DataFrame:
    """Make ``query_id`` and ``targets`` of {query: positions}."""
    return candidates_frame(targets).rename({"_id": "query_id", "positions": "targets"})


def decision_rows(decisions) -> dict:
    """Give {item: (kept, reason, score, decided_by)}."""
    columns = ("item_id", "kept", "reason", "score", "decided_by")
    return {row[0]: row[1:] for row in decisions.select(columns).iter_rows()}


def pair_rows(decisions) -> dict:
    """Give {(query, document): (is_positive, reason, score, decided_by, n_yes, n_votes)}."""
    columns = "query_id doc_id is_positive reason score decided_by n_yes n_votes".split()
    return {row[:2]: row[2:] for row in decisions.select(columns).iter_rows()}


def is_number(value) -> bool:
    return value is not None and not math.isnan(value)
