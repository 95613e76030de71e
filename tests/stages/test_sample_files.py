"""Sampling file by file gives the rows of one reading, also in parallel and after a stop."""

import json
import random
import subprocess
import sys
from pathlib import Path

import jobs
import pytest

from psibench.config.sources import FilesSource
from psibench.errors import InputError
from psibench.generate.sample import Drawing, _write_parts, run_sample
from psibench.generate.sampling import (
    Passages,
    Sample,
    draw,
    length_measure,
    read_candidates,
    sample_params,
)
from psibench.sources.documents import read_documents
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.schemas import ATTRITION, DOCUMENTS

TABLES = ("documents", "sampling", "dropped")
SAMPLE = Sample(edges=[0, 20, 41], n_documents=30, reserve=1.0)
N_FILES, N_RECORDS = 5, 40
# Kills itself, like a batch system, after writing the third file's part and before renaming it.
KILLED = """
import json, os, signal, sys
from psibench.generate.sample import run_sample
from psibench.tables.job import Job
seen = []
def hook(event, args):
    if event == "os.rename" and str(args[1]).startswith("store/samples/"):
        seen.append(args[1])
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
paths = {name: f"{name}.parquet" for name in ("documents", "sampling", "dropped")}
values = {"domains": {"law": json.loads(sys.argv[1])}, "lang": "eng-Latn", "store": "store"}
run_sample(Job("sample", 6, outputs=paths, values=values))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(N_FILES):
        write(number)
    return tmp_path


def write(number, *, seed=0):
    """Write a file of records of 5 to 40 words; some repeat records of another file."""
    rng, words = random.Random(f"{number} {seed}"), [f"w{i}" for i in range(300)]
    records = [
        {"text": " ".join(rng.choices(words, k=rng.randint(5, 40))), "n": i}
        for i in range(N_RECORDS)
    ]
    records[7]["text"] = "the same words in every file of the source"
    Path("d").mkdir(exist_ok=True)
    Path(f"d/f{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))


def source(**more):
    return FilesSource(kind="files", paths=["d/*.jsonl"], **more)


def params(own=None, passages=None):
    found = sample_params(own or source(), passages, SAMPLE, length_tokenizer="words")
    return json.loads(json.dumps(found))


def run(section=None, *, store="store", threads=1, name=""):
    """Run the stage; return the hashes of its tables' rows."""
    paths = {table: f"{name}{table}.parquet" for table in TABLES}
    section = section or params()
    given = {"domains": {"law": section}, "store": store, "threads": threads}
    jobs.run(run_sample, {}, paths, **given)
    return [read_provenance(path)["rows_hash"] for path in paths.values()]


def parts():
    """Return the stored parts of the files read."""
    return list(Path("store/samples").glob("*.parquet"))


def kill_in_the_middle():
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(params())], capture_output=True, text=True
    )
    assert killed.returncode == -9, killed.stderr
    assert len(parts()) == 2
    assert not Path("documents.parquet").exists()


def test_drawing_by_file_equals_drawing_at_once():
    run()
    documents = jobs.rows("documents.parquet", DOCUMENTS)
    whole = draw(
        read_candidates(read_documents(source()).batches, SAMPLE, length_measure("words")),
        where="sample",
    )
    assert documents.equals(whole.documents.select(documents.columns))
    sampling = jobs.rows("sampling.parquet", SAMPLING)
    assert sampling["n_seen"].sum() == N_FILES * N_RECORDS
    assert sampling.equals(whole.sampling.select(sampling.columns))
    # Five files share a text; four repeat the one with the best priority.
    dropped = read_table("dropped.parquet", ATTRITION)
    assert dropped["reason"].to_list() == ["exact_duplicate"] * dropped.height
    assert dropped.height == whole.duplicates.height > 0


@pytest.mark.processes
@pytest.mark.parametrize("passages", [None, Passages(min_words=5, max_words=20)])
def test_files_read_in_parallel_give_the_same_rows(passages):
    section = params(passages=passages)
    one = run(section)
    assert run(section, store="other", threads=2, name="two-") == one
    assert list(Path("other/samples").iterdir()) == []


@pytest.mark.processes
def test_a_restarted_sample_reads_only_missing_files(caplog):
    caplog.set_level("INFO", "psibench")
    kill_in_the_middle()
    gone_on = run()
    assert "reusing 2 of 5 files read before" in caplog.text
    assert parts() == []
    assert run(store="undisturbed", name="again-") == gone_on


def read_files(name, section):
    """Write the parts of the files, like a job that is killed before it writes tables."""
    drawing = Drawing.model_validate(section)
    whose = f"{name}documents.parquet, domain law"
    _write_parts(drawing.source, drawing, whose, folder=Path("store/samples"), processes=1)


def test_two_tables_of_one_source_have_separate_parts(caplog):
    for name in "ab":
        read_files(name, params())
    assert len(parts()) == 2 * N_FILES
    run(name="a")
    assert len(parts()) == N_FILES
    caplog.set_level("INFO", "psibench")
    run(name="b")
    assert "reusing 5 of 5 files read before" in caplog.text
    assert parts() == []


def test_parts_of_another_cluster_column_are_not_reused():
    read_files("", params())
    run(params(source(cluster_column="n")))
    assert jobs.rows("documents.parquet", DOCUMENTS)["origin"].str.starts_with("n ").all()


def test_a_limit_is_equal_per_file_except_short_ones():
    Path("d/f1.jsonl").write_text('{"text": "one two three"}\n')
    everything = Sample(edges=[0, 41], deduplicate="none").model_dump(mode="json")
    run(params(source(max_documents=60)) | {"sample": everything})
    origins = jobs.rows("documents.parquet", DOCUMENTS)["origin"]
    counts = origins.str.extract(r"^d/(f\d)").value_counts(name="n").sort("origin")["n"]
    # The share is 12 per file: f1 has only 1, and the other four provide the missing 11.
    assert counts.to_list() == [15, 1, 15, 15, 14]
    assert "d/f0.jsonl, line 15" in origins
    assert "d/f0.jsonl, line 16" not in origins


def test_an_id_in_two_files_is_refused_with_both_records():
    record = json.dumps({"text": "alpha beta gamma", "_id": "x"}) + "\n"
    for number in (0, 4):
        with open(f"d/f{number}.jsonl", "a") as file:
            file.write(record)
    everything = params() | {"sample": Sample(edges=[0, 41]).model_dump(mode="json")}
    with pytest.raises(InputError) as raised:
        run(everything)
    assert "id 'x' occurs 2 times (d/f0.jsonl, line 41; d/f4.jsonl, line 41)" in str(raised.value)
