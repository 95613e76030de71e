import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.sources.documents import read_documents
from psibench.sources.local import local_files
from psibench.sources.squad import read_hub_questions

pytestmark = pytest.mark.usefixtures("folder")


QUESTIONS = {
    "train": [
        ("q1", "Who?", "Ada wrote é😀 it.", {"text": ["Ada", "it"], "answer_start": [0, 13]}),
        ("q2", "Why?", "Ada wrote é😀 it.", {"text": [], "answer_start": []}),
    ],
    "validation": [("q3", "What?", "No. It.", {"text": ["It"], "answer_start": [4]})],
}
DOCUMENTS = {"train": [("a", " one "), ("b", ""), ("c", "two é😀")], "validation": [("d", "three")]}


@pytest.fixture
def lay_out(tmp_path):
    """Write splits of records as a dataset folder, jsonl or parquet."""

    def write(splits, columns, *, kind="jsonl") -> str:
        folder = tmp_path / "set"
        folder.mkdir()
        for split, rows in splits.items():
            records = [dict(zip(columns, row, strict=True)) for row in rows]
            path = folder / f"{split}.{kind}"
            if kind == "parquet":
                pl.DataFrame(records).write_parquet(path)
            else:
                path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return str(folder)

    return write


def read_hub(name, **options) -> pl.DataFrame:
    return pl.concat(read_documents(HubSource(kind="hub", name=name, **options)).batches)


def read_questions(name, **options) -> pl.DataFrame:
    return read_hub_questions(HubSource(kind="hub", name=name, **options))


SQUAD_COLUMNS = ("id", "question", "context", "answers")
BOTH = ["train", "validation"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_questions_are_read_over_the_splits_in_order(lay_out, kind):
    name = lay_out(QUESTIONS, SQUAD_COLUMNS, kind=kind)
    frame = read_questions(name, splits=BOTH)
    assert frame.drop("context").rows() == [
        ("q1", "Who?", "Ada", 0, None, f"{name}/train.{kind}, record 0"),
        ("q2", "Why?", None, None, None, f"{name}/train.{kind}, record 1"),
        ("q3", "What?", "It", 4, None, f"{name}/validation.{kind}, record 0"),
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("streaming", [False, True])
def test_documents_are_read_and_empty_ones_left_out(lay_out, kind, streaming):
    name = lay_out(DOCUMENTS, ("key", "body"), kind=kind)
    options = {"splits": BOTH, "text_column": "body", "streaming": streaming}
    assert read_hub(name, id_column="key", **options).rows() == [
        ("a", "one", f"{name}/train.{kind}, record 0"),
        ("c", "two é😀", f"{name}/train.{kind}, record 2"),
        ("d", "three", f"{name}/validation.{kind}, record 0"),
    ]
    counted = read_hub(name, **options).get_column("_id").to_list()
    assert counted == ["train:0", "train:2", "validation:0"]


# Train has a, blank, c, and validation d. Train gives one more of an odd number. With a limit of
# four, each gives up to two; validation has only one, so train gives one more.
@pytest.mark.parametrize(("most", "expected"), [(1, "a"), (3, "ad"), (4, "adc"), (9, "acd")])
def test_a_limit_is_divided_among_the_files(lay_out, most, expected):
    name = lay_out(DOCUMENTS, ("key", "text"))
    frame = read_hub(name, max_documents=most, splits=BOTH, id_column="key")
    assert "".join(frame.get_column("_id")) == expected


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        (("id", "question", "context"), ("q", "?", "c"), "missing column answers; found id, qu"),
        (SQUAD_COLUMNS, ("q", "?", "Ada", {"text": ["Ada"], "answer_start": []}), "'answers' is"),
    ],
)
def test_a_bad_question_record_is_refused_with_its_origin(lay_out, columns, row, message):
    name = lay_out({"train": [row]}, columns)
    with pytest.raises(InputError) as raised:
        read_questions(name, splits=["train"])
    assert str(raised.value).startswith(f"{name}/train.jsonl, record 0: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_broken_file_of_a_dataset_is_refused(lay_out, streaming):
    name = lay_out({"train": [("a", "x")]}, ("key", "text"))
    with open(f"{name}/train.jsonl", "a") as handle:
        handle.write('{"key": ')
    with pytest.raises(InputError, match="split 'train', revision None: cannot be loaded"):
        read_hub(name, splits=["train"], streaming=streaming)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": ["none"]}, "split 'none'.*Check name, split and revision"),
        ({"splits": ["test"]}, "no text in column 'text' of test"),
        (
            {"text_column": "body"},
            "record 0: no text in field 'body'; found the fields key, text. Set text_column",
        ),
    ],
)
def test_a_dataset_without_the_requested_split_is_refused(lay_out, options, message):
    name = lay_out({"train": [(1, "x")], "test": [(2, "")]}, ("key", "text"))
    with pytest.raises(InputError, match=message):
        read_hub(name, **options)


def test_only_the_listed_files_of_a_folder_are_read(lay_out, tmp_path):
    name = lay_out(DOCUMENTS, ("key", "text"), kind="parquet")
    source = HubSource(kind="hub", name=name, data_files=["valid*.parquet"])
    assert pl.concat(read_documents(source).batches).rows() == [
        ("validation:0", "three", f"{name}/validation.parquet, record 0")
    ]
    assert [Path(path).resolve() for path in local_files(source)] == [
        (tmp_path / "set" / "validation.parquet").resolve()
    ]
    with pytest.raises(InputError, match="cannot be loaded"):
        read_hub(name, data_files=["none/*.parquet"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_files": ["a.parquet"], "splits": ["test"]}, "data_files and .*: give one"),
        ({"data_files": ["a.parquet"], "config": "c"}, "data_files and .*: give one"),
        ({"splits": ["train[:10%]"]}, r"'train\[:10%\]' is a slice"),
    ],
)
def test_inconsistent_options_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        HubSource(kind="hub", name="n", **options)


def test_unneeded_columns_are_not_read(lay_out):
    name = lay_out({"train": [("a", "x")]}, ("key", "text"), kind="parquet")
    path = Path(name) / "train.parquet"
    far = pa.array([2**62], pa.timestamp("ms"))  # no year that Python has
    pq.write_table(pq.read_table(path).append_column("when", far), path)
    assert read_hub(name, id_column="key").rows() == [("a", "x", f"{path}, record 0")]
