"""Numbers from outside: command lines, files and pages."""

import argparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.commands.base import share, whole
from psibench.commands.run import cores
from psibench.errors import InputError
from psibench.formats.tabular import read_scored_pairs
from psibench.llm.embeddings import values_at
from psibench.metrics.ranking import parse_metric
from psibench.reading import parse_number, whole_number
from psibench.sources.convert import read_html

# `int` and `float` take digits of other scripts, underscores and white space, and `int` fails on
# more than 4,300 digits.
NO_NUMBERS = ["\u0665", "\uff15", "\u00b2", "\u2461", "1_0", "", " ", "0x5", "5.5.5", "9" * 5000]


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda text: parse_number(text, where="run.trec, line 1", column="score"), InputError),
        (lambda text: parse_metric(f"ndcg@{text}"), InputError),
        (share, argparse.ArgumentTypeError),
        (whole, argparse.ArgumentTypeError),
        (cores, argparse.ArgumentTypeError),
    ],
    ids=["score", "metric", "share", "whole", "cores"],
)
def test_what_is_no_number_of_ascii_digits_is_refused_in_a_short_message(read, error, text):
    with pytest.raises(error) as refused:
        read(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "bounds", "expected"),
    [
        ("0", {}, 0),
        ("007", {}, 7),
        ("-3", {}, None),
        ("-3", {"least": -5}, -3),
        ("0", {"least": 1}, None),
        ("999", {"most": 998}, None),
        ("9" * 15, {}, 10**15 - 1),
        ("9" * 16, {}, None),
        ("5\n", {}, None),
        ("+5", {}, None),
    ],
)
def test_whole_numbers_are_read_within_their_bounds(text, bounds, expected):
    assert whole_number(text, **bounds) == expected


@pytest.mark.parametrize(("text", "expected"), [("5%", 0.05), ("0.05", 0.05), ("5e-2", 0.05)])
def test_shares_are_read(text, expected):
    assert share(text) == pytest.approx(expected)


@pytest.mark.parametrize("place", ["\u0661", "1_0", "first"])
def test_places_in_a_list_of_a_reply_are_numbers(place):
    assert values_at({"data": [1, 2]}, "data.1") == [2]
    with pytest.raises(TypeError, match="is no index of a list"):
        values_at({"data": [1, 2]}, f"data.{place}")


@pytest.mark.parametrize("k", [10**6, 10**10])
def test_cut_offs_that_would_fill_the_memory_are_refused(k):
    # nDCG makes an array of k discounts: 74 GB at 10**10.
    with pytest.raises(InputError, match="K from 1 to 999,999"):
        parse_metric(f"ndcg@{k}")


@pytest.mark.parametrize("number", ["\u00b2", "\u2461", "9" * 5000, "1_0"])
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<table><tr><td colspan="{}">cell</td></tr></table>', "|  |\n| --- |\n| cell |"),
        ('<ol start="{}"><li>item</li></ol>', "1. item"),
    ],
)
def test_numbers_of_a_page_that_are_none_have_their_default(tmp_path, page, expected, number):
    path = tmp_path / "page.html"
    path.write_text(page.format(number))
    assert read_html(path) == expected


def test_wide_decimals_of_parquet_are_read_as_numbers(tmp_path):
    wide = pa.array([1, 2], pa.int64()).cast(pa.decimal256(60, 2))
    path = tmp_path / "run.parquet"
    columns = {"query_id": ["q", "q"], "doc_id": ["a", "b"]}
    pq.write_table(pa.table(columns | {"score": wide}), path)
    names = {"query_id": (), "doc_id": (), "score": ()}
    assert read_scored_pairs(path, "parquet", names)["score"].to_list() == [1.0, 2.0]
    pq.write_table(pa.table(columns | {"score": pa.array([[1], [2]], pa.list_(wide.type))}), path)
    with pytest.raises(InputError, match="score"):
        read_scored_pairs(path, "parquet", names)
