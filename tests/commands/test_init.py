"""`psibench init`: its lines about the texts of a new config."""

import random
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from psibench.cli import main
from psibench.config.files import read_yaml


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    return tmp_path


def test_the_texts_are_counted_and_named_as_seen_from_the_config(folder, capsys):
    for name in ("one.txt", "two.md"):
        (folder / "texts" / name).write_text("a text")
    assert main(["init", "mine", "--corpus", "texts"]) == 0
    assert "Files with texts: 2." in capsys.readouterr().out
    written = yaml.safe_load((folder / "mine" / "psibench.yaml").read_text())
    assert written["benchmarks"]["my-docs"]["source"]["paths"] == ["../texts"]


def test_a_folder_of_texts_is_not_taken_for_a_new_project(folder, capsys):
    (folder / "texts" / "one.txt").write_text("a text")
    assert main(["init", "texts"]) == 0
    assert "texts has texts, too: to use these, give --corpus texts." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "corpus", "said"),
    [
        ({}, "nowhere", "nowhere: no such file or folder"),
        ({"a.csv": b"a,b"}, "texts", "no document in this folder"),
        ({}, "texts/*.txt", "no file or folder matches"),
    ],
)
def test_a_corpus_that_is_not_there_is_refused_before_anything_is_written(
    folder, capsys, files, corpus, said
):
    for name, content in files.items():
        (folder / "texts" / name).write_bytes(content)
    assert main(["init", "mine", "--corpus", corpus]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "mine").exists()


def test_the_next_commands_can_be_typed_as_they_are_printed(folder, capsys):
    assert main(["init", "my docs", "--profile", "slurm"]) == 0
    said = "Next: cd 'my docs'; psibench check psibench.yaml; "
    said += "psibench run --profile slurm psibench.yaml\n"
    assert capsys.readouterr().out.endswith(said)


def test_a_profile_is_written_beside_a_config_that_is_there(folder, capsys):
    (folder / "psibench.yaml").write_text("models: [bm25]")
    assert main(["init", "--corpus", "texts", "--profile", "slurm"]) == 2
    assert "already exists: psibench.yaml; name" in capsys.readouterr().err
    assert not (folder / "slurm").exists()
    assert main(["init", "--profile", "slurm"]) == 0
    assert capsys.readouterr().out.startswith("Written: slurm\nKept: psibench.yaml.\n")
    assert (folder / "slurm" / "config.yaml").is_file()
    assert (folder / "psibench.yaml").read_text() == "models: [bm25]"
    assert main(["init", "--profile", "slurm"]) == 2
    assert "already exists: slurm; name" in capsys.readouterr().err


def test_a_file_is_no_folder_for_a_config(folder, capsys):
    (folder / "mine").write_text("")
    assert main(["init", "mine"]) == 2
    assert "FOLDER mine is a file; name a folder" in capsys.readouterr().err


def test_any_name_of_a_folder_is_read_back_from_the_config(folder, capsys):
    name = "c\x85\u2028: #tr\U0001f600 'x\""
    (folder / name).mkdir()
    (folder / name / "a.txt").write_text("a text")
    (folder / name / "b.rst").write_text("a text")
    assert main(["init", "mine", "--corpus", name]) == 0
    assert (
        "Not read: skipped 1 files of unsupported kinds: .rst 1. To include"
        in capsys.readouterr().out
    )
    written = read_yaml(folder / "mine" / "psibench.yaml")
    assert written["benchmarks"]["my-docs"]["source"]["paths"] == [f"../{name}"]


def test_a_folder_that_no_config_can_name_is_refused(folder, capsys):
    (folder / "c\x01").mkdir()
    (folder / "c\x01" / "a.txt").write_text("a text")
    assert main(["init", "mine", "--corpus", "c\x01"]) == 2
    assert "a config cannot name this path; rename it" in capsys.readouterr().err
    assert not (folder / "mine").exists()


SYLLABLES = [f"{a}{b}" for a in "bdfgklmnprstv" for b in "aiou"]
WORDS = [f"{first}{second}" for first in SYLLABLES for second in SYLLABLES]


def test_init_check_and_plan_count_the_same_queries(folder, capsys, monkeypatch):
    rng = random.Random(1)
    for number in range(12):
        (folder / "texts" / f"{number}.txt").write_text(" ".join(rng.sample(WORDS, 180)))
    assert main(["init", "mine", "--corpus", "texts"]) == 0
    printed = capsys.readouterr().out
    (count,) = re.findall(r"known-item queries: (\d+) of \d+ planned", printed)
    assert int(count) > 0
    monkeypatch.chdir(folder / "mine")
    assert main(["check"]) == 0
    assert f"known-item queries: {count} of" in capsys.readouterr().out
    assert main(["plan", "--csv", "work.csv", "--by", "model"]) == 0
    (n_passages,) = re.findall(r"(\d+) passages;", printed)
    rows = pl.read_csv("work.csv").filter(stage="encode", by="all-minilm-l6-v2")
    assert rows["items"].to_list() == [int(count) + int(n_passages)]


def test_init_says_why_texts_give_no_query(folder, capsys):
    (folder / "texts" / "one.txt").write_text("a text")
    assert main(["init"]) == 0
    assert "no known-item query from 1 documents" in capsys.readouterr().out
