"""Documents batch by batch: the same as read whole, and streamed."""

import json
import tracemalloc
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psibench.config.paths import CONFIG_FOLDER
from psibench.config.sources import FilesSource, SquadSource
from psibench.errors import InputError
from psibench.sources import batches as batching
from psibench.sources.documents import read_document_files, read_documents
from psibench.tables import conform
from psibench.tables.schemas import DOCUMENTS

pytestmark = pytest.mark.usefixtures("folder")


def write_jsonl(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))


def texts(n):
    return [{"text": f"text {i}"} for i in range(n)]


def file_batches(paths, **options):
    return read_documents(FilesSource(kind="files", paths=paths, **options)).batches


def test_documents_of_a_cluster_have_it_as_origin():
    sites = ["x", "x", None, 7]
    write_jsonl("d.jsonl", [{"text": f"t{n}", "site": site} for n, site in enumerate(sites)])
    [batch] = file_batches(["d.jsonl"], cluster_column="site")
    origins = batch["origin"].to_list()
    assert origins[:2] + origins[3:] == ["site x", "site x", "site 7"]
    assert origins[2].startswith("d.jsonl")
    with pytest.raises(InputError, match=r"'page' \(cluster_column\); found the fields text, site"):
        list(file_batches(["d.jsonl"], cluster_column="page"))


def test_joined_batches_equal_reading_everything_at_once(monkeypatch):
    monkeypatch.setattr(batching, "DOCUMENTS_PER_BATCH", 3)
    Path("d").mkdir()
    write_jsonl("d/a.jsonl", [*texts(4), {"text": "  "}, *texts(3)])
    pq.write_table(pa.table({"text": [" p0 ", "p1"], "id": [10, 11]}), "d/b.parquet")
    Path("d/c.txt").write_text("plain")
    batches = list(file_batches(["d"]))
    assert [batch["_id"].to_list() for batch in batches] == [
        ["a:0", "a:1", "a:2"],
        ["a:3", "a:5", "a:6"],  # a:4 is blank
        ["a:7", "10", "11"],
        ["c"],
    ]
    assert pl.concat(batches).equals(read_document_files(["d"]))
    assert batches[2].row(1) == ("10", "p0", "d/b.parquet, row 0")


def test_a_large_file_is_read_in_little_memory(monkeypatch):
    monkeypatch.setattr(batching, "CHARS_PER_BATCH", 500_000)
    write_jsonl("a.jsonl", [{"text": f"{i} " + "x" * 20_000} for i in range(1500)])  # 30 MB
    tracemalloc.start()
    try:
        n_documents = sum(batch.height for batch in file_batches(["a.jsonl"]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_documents == 1500
    assert peak < 5_000_000


def test_sorted_contexts_of_question_files_are_documents():
    def paragraph(context, question):
        answers = [{"text": context[:1], "answer_start": 0}]
        return {"context": context, "qas": [{"id": question, "question": "?", "answers": answers}]}

    paragraphs = [paragraph("b two ", "q0"), paragraph("a one", "q1"), paragraph("b two ", "q2")]
    Path("s.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    frame = read_documents(SquadSource(kind="squad", paths=["s.json"])).documents
    conform(frame, DOCUMENTS, where="w")
    assert frame.select("_id", "text").rows() == [("p00000", "a one"), ("p00001", "b two")]
    assert frame.get_column("origin").to_list() == ["s.json 0", "s.json 0"]  # their article


def test_a_shipped_file_is_found_from_any_folder():
    [frame] = file_batches(["shipped:prompts"])
    folder = CONFIG_FOLDER / "prompts"
    found = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.md"))
    names = sorted(path.as_posix() for path in found)
    expected = [(name, f"shipped:prompts/{name}.md") for name in names]
    assert frame.select("_id", "origin").rows() == expected
