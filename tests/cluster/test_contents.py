"""Hashes of outside files depend on their content; unchanged files are not hashed again."""

import json
import os
from pathlib import Path

import pytest

from psibench.cluster import contents
from psibench.cluster.contents import outside_content, refuse_changed
from psibench.errors import InputError
from psibench.models.manifests import FOLDER_VARIABLE

YESTERDAY_NS = -86_400_000_000_000
"""Smallest age of settled files; negative, because the files of a test are new."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "store" / "checkpoints"))
    monkeypatch.setattr(contents, "SETTLED_NS", YESTERDAY_NS)
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one")
    Path("b.txt").write_text("two")
    return tmp_path / "store"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the hashed files, in order."""
    files: list[str] = []
    hash_file = contents.hash_file
    monkeypatch.setattr(
        contents, "hash_file", lambda path: files.append(Path(path).name) or hash_file(path)
    )
    return files


def test_files_are_read_once_and_again_if_changed(store: Path, read: list[str]) -> None:
    before = outside_content(["a.txt", "b.txt"])
    assert outside_content(["b.txt", "a.txt", "a.txt"]) == before
    assert read == ["a.txt", "b.txt"]
    Path("b.txt").write_text("six")
    assert outside_content(["a.txt", "b.txt"]) != before
    Path("b.txt").write_text("two")
    assert outside_content(["a.txt", "b.txt"]) == before
    assert read == ["a.txt", "b.txt", "b.txt", "b.txt"]


def test_a_new_date_does_not_change_the_hash(store: Path) -> None:
    before = outside_content(["a.txt"])
    os.utime("a.txt", (1, 1))
    assert outside_content(["a.txt"]) == before


def test_changed_bytes_with_equal_size_and_date_are_noticed(store: Path) -> None:
    os.utime("a.txt", (1, 1))
    before = outside_content(["a.txt"])
    Path("a.txt").write_text("eno")
    os.utime("a.txt", (1, 1))
    assert outside_content(["a.txt"]) != before


def test_names_and_missing_files_change_the_hash(store: Path) -> None:
    Path("c.txt").write_text("one")
    found = [outside_content([name]) for name in ("a.txt", "c.txt", "none.txt")]
    assert len(set(found)) == 3


def test_outputs_of_rules_do_not_change_the_hash(store: Path) -> None:
    made = ["results/tiny/corpus.parquet", "store/checkpoints/x.json", str(store / "checkpoints/y")]
    assert outside_content([*made, "a.txt"]) == outside_content(["a.txt"])


def test_a_new_file_is_hashed_again(
    store: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "SETTLED_NS", -YESTERDAY_NS)
    assert outside_content(["a.txt"]) == outside_content(["a.txt"])
    assert read == ["a.txt", "a.txt"]


@pytest.mark.parametrize("damage", ["", "[", "\udcff", "null"])
def test_a_damaged_record_is_replaced(store: Path, damage: str) -> None:
    before = outside_content(["a.txt"])
    record = store / "inputs.json"
    record.write_bytes(damage.encode(errors="surrogateescape"))
    assert outside_content(["a.txt"]) == before
    assert list(json.loads(record.read_text())) == [os.path.abspath("a.txt")]


def test_files_are_hashed_again_without_a_writable_store(store: Path, read: list[str]) -> None:
    store.write_text("a file instead of a folder")
    assert outside_content(["a.txt"]) == outside_content(["a.txt"])
    assert read == ["a.txt", "a.txt"]


def test_a_file_that_changes_during_a_job_is_refused(store: Path) -> None:
    before = outside_content(["a.txt", "b.txt"])
    refuse_changed(["a.txt", "b.txt"], before)
    Path("b.txt").write_text("six")
    with pytest.raises(InputError, match=r"an input file changed during this job .*: b\.txt"):
        refuse_changed(["a.txt", "b.txt"], before)
