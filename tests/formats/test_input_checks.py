import polars as pl
import pytest

from psibench.errors import InputError
from psibench.formats.beir import QUERY_SCHEMA
from psibench.formats.checks import check_queries, evidence_doubts, keep_known, match_qrels


def queries(*rows) -> pl.DataFrame:
    """Queries of (id, span, length of the positive[, target position])."""
    names = ("_id", "pos_char_span", "pos_char_length", "target_position")
    named = [dict(zip(names, row, strict=False)) for row in rows]
    return pl.DataFrame(named, schema=QUERY_SCHEMA)


GOOD = queries(("q1", [0, 10], 10), ("q2", [5, 6], 10))


def several(spans, *, single=None, length=10) -> pl.DataFrame:
    row = {"_id": "q9", "pos_char_span": single, "pos_char_spans": spans}
    return pl.DataFrame([row | {"pos_char_length": length}], schema=QUERY_SCHEMA)


@pytest.mark.parametrize(
    "given",
    [
        GOOD,
        several([[0, 3], [3, 5], [9, 10]]),
        # A class alone is enough, with or without a length.
        queries(("q1", None, None, "end"), ("q2", None, 7, "mixed")),
    ],
)
def test_sound_queries_pass(given):
    check_queries(given, source="f")


def test_spans_that_end_beyond_their_document_are_told():
    given = queries(("q1", [0, 10], 10), ("q2", [5, 11], 10))
    check_queries(given, source="f")
    qrels = pl.DataFrame({"query-id": ["q1", "q2"], "corpus-id": "d", "score": 1})
    (doubt,) = evidence_doubts(given.with_columns(pos_corpus_id=pl.lit("d")), qrels)
    assert "the spans of 1 of 2 queries end beyond their document: 'q2' (1 in all)" in doubt


@pytest.mark.parametrize(
    ("span", "length"),
    [
        *(([-1, 5], 10), ([5, 5], 10), ([None, 5], 10), ([1], 10), (None, 10)),
        *(([0, 1], 0), ([0, 1], None)),
    ],
)
def test_a_span_out_of_range_is_refused_with_the_query(span, length):
    message = rf"f: query 'q9' has the span .* document of {length}"
    with pytest.raises(InputError, match=message):
        check_queries(queries(("q9", span, length)), source="f")


@pytest.mark.parametrize(
    "given",
    [
        *map(several, ([], [[0, 3], [2, 5]], [[0, 3], [5, 5]], [[-1, 3], [5, 6]])),
        *map(several, ([[0, 3], [5, 11]], [[0, 3], [5, None]], [[0, 3], None], [[0, 3], [5]])),
        several([[0, 3]], single=[0, 3]),
        several([[0, 3]], length=None),
    ],
)
def test_several_spans_that_are_no_list_in_order_are_refused(given):
    with pytest.raises(InputError, match="f: query 'q9' has the "):
        check_queries(given, source="f")


ODD_TAG = queries(("q1", None, None, "mixed")).with_columns(positions=pl.Series([["end", "tail"]]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (queries(("q1", None, 0, "end")), "query 'q1' has the span None in a document of 0"),
        (queries(("q1", [0, 1], 5, "start")), "target_position 'start'; allowed: beginning, mid"),
        (ODD_TAG, r"positions \['end', 'tail'\]; allowed: beginning"),
        (queries(("q1", [0, 1], 5), ("q1", [1, 2], 5)), r"occur twice: 'q1' \(1 in all\)"),
        (queries(), "f: no queries"),
    ],
)
def test_queries_that_fit_no_bucket_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        check_queries(given, source="f")


def run(*ids: str) -> pl.DataFrame:
    return pl.DataFrame({"query_id": list(ids), "doc_id": ["d"] * len(ids), "score": 1.0})


def test_unknown_query_ids_in_the_run_are_refused_and_a_few_listed():
    unknown = [f"x{i}" for i in range(9)]
    listed = r"'x0', 'x1', 'x2', 'x3', 'x4', \.\.\. \(9 in all\).*--ignore-unknown"
    with pytest.raises(InputError, match=listed):
        keep_known(run("q1", *unknown), GOOD, source="f", ignore_unknown=False)
    kept = keep_known(run("q1", *unknown), GOOD, source="f", ignore_unknown=True)
    assert kept["query_id"].to_list() == ["q1"]


@pytest.mark.parametrize("ids", [[], ["x"]])
def test_a_run_without_any_known_query_is_always_refused(ids):
    with pytest.raises(InputError, match="holds none of the queries"):
        keep_known(run(*ids).cast({"query_id": pl.String}), GOOD, source="f", ignore_unknown=True)


def qrels(*rows) -> pl.DataFrame:
    schema = {"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int64}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def match(given: pl.DataFrame, *, unknown: bool = False, unjudged: bool = False):
    return match_qrels(GOOD, given, source="f", ignore_unknown=unknown, ignore_unjudged=unjudged)


def test_a_query_with_grade_zero_only_has_no_positive():
    given = qrels(("q1", "d", 1), ("q2", "d", 0))
    with pytest.raises(InputError, match=r"without a positive: 'q2'.*--ignore-unjudged"):
        match(given)
    judged, kept = match(given, unjudged=True)
    assert judged["_id"].to_list() == ["q1"]
    assert kept.rows() == [("q1", "d", 1)]


def test_qrels_of_unknown_queries_are_refused_unless_ignored():
    given = qrels(("q1", "d", 1), ("q2", "d", 1), ("q3", "d", 1))
    with pytest.raises(InputError, match="not among the queries: 'q3'"):
        match(given)
    assert match(given, unknown=True)[1]["query-id"].to_list() == ["q1", "q2"]


@pytest.mark.parametrize("rows", [[], [("q1", "d", 0)], [("x", "d", 1)]])
def test_qrels_without_any_positive_are_always_refused(rows):
    with pytest.raises(InputError, match="no positive"):
        match(qrels(*rows), unknown=True, unjudged=True)
