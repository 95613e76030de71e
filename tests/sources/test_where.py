"""Conditions on the columns of a source's records."""

import json
import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from psibench.config.sources import Condition, FilesSource
from psibench.errors import InputError
from psibench.sources.documents import read_documents
from psibench.sources.where import column_value, meets

pytestmark = pytest.mark.usefixtures("folder")


def condition(**given):
    return Condition(column=given.pop("column", "c"), **given)


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        ({"equals": "en"}, "en", True),
        ({"equals": "1"}, 1, False),
        ({"equals": 1}, True, False),
        ({"equals": False}, 0, False),
        ({"any_of": ["en", 3]}, 3, True),
        ({"at_least": 4.0}, 3.999, False),
        ({"at_most": 4}, 4.0, True),
        ({"at_least": 2, "at_most": 3}, 3.5, False),
        ({"at_least": 0}, float("nan"), False),
        ({"equals": "en"}, None, False),
        ({"at_least": 0}, None, False),
    ],
)
def test_a_value_meets_a_condition_or_not(given, value, expected):
    assert meets(value, condition(**given), origin="o") is expected


@pytest.mark.parametrize(
    ("given", "value", "message"),
    [
        ({"at_least": 1}, "5", "o: column 'c' is '5'; at_least and at_most compare numbers"),
        ({"equals": "a"}, ["a"], "o: column 'c' is list; `where` compares text, numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, value, message):
    with pytest.raises(InputError, match=message):
        meets(value, condition(**given), origin="o")


def test_columns_inside_others_are_named_with_dots():
    record = {"a": {"b": {"c": 3}, "n": None}, "a.b": 5, "e": None}
    assert column_value(record, "a.b", origin="o") == 5  # a column of that very name comes first
    assert column_value(record, "a.b.c", origin="o") == 3
    assert column_value(record, "a.n.any", origin="o") is None
    assert column_value(record, "e.any", origin="o") is None


@pytest.mark.parametrize("column", ["a.x", "x", "a.b.c", "a.b.c.d"])
def test_a_missing_column_is_refused_naming_those_found(column):
    with pytest.raises(InputError) as raised:
        column_value({"text": "t", "a": {"b": 1, "d": {"e": 2}}}, column, origin="f, line 3")
    assert str(raised.value) == (
        f"f, line 3: no column '{column}'; found text, a.b, a.d.e. Mend `where`."
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"equals": "a", "any_of": ["a"]},
        {"at_least": 2, "at_most": 1},
        {"at_least": float("nan")},
    ],
)
def test_a_condition_without_one_meaning_is_refused(given):
    with pytest.raises(ValidationError):
        condition(**given)


RECORDS = [
    {"text": "one", "lang": "en", "quality": {"score": 4.5}, "field": "mining"},
    {"text": "two", "lang": "de", "quality": {"score": 4.8}, "field": "mining"},
    {"text": "three", "lang": "en", "quality": {"score": 3.0}, "field": "law"},
    {"text": "four", "lang": "en", "quality": {"score": 5.0}, "field": "law"},
    {"text": "five", "lang": None, "quality": None, "field": "law"},
]
GOOD_ENGLISH = [
    {"column": "lang", "equals": "en"},
    {"column": "quality.score", "at_least": 4},
]


def write(path):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in RECORDS))


def rows(paths, where):
    source = FilesSource.model_validate({"kind": "files", "paths": paths, "where": where})
    return read_documents(source).documents.select("_id", "text").rows()


def test_files_are_read_where_all_conditions_hold(caplog):
    write("d/a.jsonl")
    with caplog.at_level(logging.INFO, logger="psibench"):
        assert rows(["d"], GOOD_ENGLISH) == [
            ("a:0", "one"),
            ("a:3", "four"),
        ]  # numbers count all records
    assert [r.getMessage() for r in caplog.records] == ["d: `where` left out 3 of 5 records"]


def test_where_nothing_is_left_the_values_found_are_named():
    write("a.jsonl")
    where = [{"column": "lang", "any_of": ["fr", "de"]}, {"column": "field", "equals": "law"}]
    with pytest.raises(InputError) as raised:
        rows(["a.jsonl"], where)
    assert str(raised.value) == (
        "a.jsonl: `where` left out all 5 records. Among the values found: lang: 'en', None; "
        "field: 'mining'. Change the conditions."
    )


def test_a_file_without_columns_cannot_be_filtered():
    write("d/a.jsonl")
    Path("d/b.md").write_text("text")
    with pytest.raises(InputError, match=r"d/b.md: a text file has no columns; take `where` away"):
        rows(["d"], GOOD_ENGLISH)
