"""A sample drawn file by file: the rows of one reading, side by side, stopped and gone on."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from psibench.config.sources import FilesSource
from psibench.errors import InputError
from psibench.generate.sample import run_sample
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
# Kills itself, as a batch system does, when the third file's part is written and not yet there.
KILLED = """
import json, os, signal, sys
from psibench.generate.sample import run_sample
seen = []
def hook(event, args):
    if event == "os.rename" and str(args[1]).startswith("store/samples/"):
        seen.append(args[1])
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
paths = {name: f"{name}.parquet" for name in ("documents", "sampling", "dropped")}
run_sample(json.loads(sys.argv[1]), language="eng-Latn", domain="law", store="store", **paths)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(N_FILES):
        write(number)
    return tmp_path


def write(number, *, seed=0):
    """Write a file of records of 5 to 40 words, some of them a repetition of another file's."""
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
    """Run the stage; return the rows' hashes of its tables."""
    paths = {table: f"{name}{table}.parquet" for table in TABLES}
    section = section or params()
    remove_parts = run_sample(
        section, language="eng-Latn", domain="law", store=store, threads=threads, **paths
    )
    remove_parts()
    return [read_provenance(path)["rows_hash"] for path in paths.values()]


def parts():
    """What is stored of the files that were read."""
    return list(Path("store/samples").glob("*.parquet"))


def kill_in_the_middle():
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(params())], capture_output=True, text=True
    )
    assert killed.returncode == -9, killed.stderr
    assert len(parts()) == 2
    assert not Path("documents.parquet").exists()


def test_a_draw_by_files_is_the_draw_of_one_reading():
    run()
    documents = read_table("documents.parquet", DOCUMENTS)
    whole = draw(
        read_candidates(read_documents(source()).batches, SAMPLE, length_measure("words")),
        where="sample",
    )
    assert documents.equals(whole.documents.select(documents.columns))
    sampling = read_table("sampling.parquet", SAMPLING)
    assert sampling["n_seen"].sum() == N_FILES * N_RECORDS
    assert sampling.equals(whole.sampling.select(sampling.columns))
    # Of five files with one text in common, four repeat the one with the best priority.
    dropped = read_table("dropped.parquet", ATTRITION)
    assert dropped["reason"].to_list() == ["exact_duplicate"] * dropped.height
    assert dropped.height == whole.duplicates.height > 0


@pytest.mark.processes
@pytest.mark.parametrize("passages", [None, Passages(min_words=5, max_words=20)])
def test_files_read_side_by_side_give_the_same_rows(passages):
    section = params(passages=passages)
    one = run(section)
    assert run(section, store="other", threads=2, name="two-") == one
    assert list(Path("other/samples").iterdir()) == []


@pytest.mark.processes
def test_a_sample_that_was_killed_reads_the_missing_files_alone(caplog):
    caplog.set_level("INFO", "psibench")
    kill_in_the_middle()
    gone_on = run()
    assert "2 of 5 files were read before" in caplog.text
    assert parts() == []
    assert run(store="undisturbed", name="again-") == gone_on


def test_two_tables_of_one_source_keep_parts_of_their_own():
    paths = [{table: f"{name}{table}.parquet" for table in TABLES} for name in "ab"]
    labels = {"language": "eng-Latn", "domain": "law", "store": "store"}
    remove = [run_sample(params(), **labels, **own) for own in paths]
    assert len(parts()) == 2 * N_FILES
    remove[0]()
    assert len(parts()) == N_FILES
    assert run_sample(params(), **labels, **paths[1]) is not None  # from its own, which are there
    assert len(parts()) == N_FILES


def test_parts_left_by_a_draw_of_another_cluster_column_are_not_taken():
    paths = {table: f"{table}.parquet" for table in TABLES}
    labels = {"language": "eng-Latn", "domain": "law", "store": "store"}
    run_sample(params(), **labels, **paths)  # its parts stay, as those of a job that was killed
    run_sample(params(source(cluster_column="n")), **labels, **paths)
    assert read_table("documents.parquet", DOCUMENTS)["origin"].str.starts_with("n ").all()


def test_a_limit_takes_the_same_of_each_file_and_makes_up_for_short_ones():
    Path("d/f1.jsonl").write_text('{"text": "one two three"}\n')
    everything = Sample(edges=[0, 41], deduplicate="none").model_dump(mode="json")
    run(params(source(max_documents=60)) | {"sample": everything})
    origins = read_table("documents.parquet", DOCUMENTS)["origin"]
    counts = origins.str.extract(r"^d/(f\d)").value_counts(name="n").sort("origin")["n"]
    # A share of 12 each: f1 gives 1, and the other four share the 11 that it lacks.
    assert counts.to_list() == [15, 1, 15, 15, 14]
    assert "d/f0.jsonl, line 15" in origins
    assert "d/f0.jsonl, line 16" not in origins


def test_an_id_of_two_files_is_refused_naming_both_records():
    record = json.dumps({"text": "alpha beta gamma", "_id": "x"}) + "\n"
    for number in (0, 4):
        with open(f"d/f{number}.jsonl", "a") as file:
            file.write(record)
    everything = params() | {"sample": Sample(edges=[0, 41]).model_dump(mode="json")}
    with pytest.raises(InputError) as raised:
        run(everything)
    assert "id 'x' occurs 2 times (d/f0.jsonl, line 41; d/f4.jsonl, line 41)" in str(raised.value)
