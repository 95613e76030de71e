"""What outside files hold is known by their bytes, and read again only if they may have changed."""

import json
import os
from pathlib import Path

import pytest

from psibench.cluster import contents
from psibench.cluster.contents import outside_content, refuse_changed
from psibench.errors import InputError
from psibench.models.manifests import FOLDER_VARIABLE

YESTERDAY_NS = -86_400_000_000_000
"""Every file of a test is new: files count as settled from this age on."""


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
    """The files that are read, in order."""
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


def test_a_new_date_changes_no_content(store: Path) -> None:
    before = outside_content(["a.txt"])
    os.utime("a.txt", (1, 1))
    assert outside_content(["a.txt"]) == before


def test_same_size_and_date_with_other_bytes_is_another_content(store: Path) -> None:
    os.utime("a.txt", (1, 1))
    before = outside_content(["a.txt"])
    Path("a.txt").write_text("eno")
    os.utime("a.txt", (1, 1))
    assert outside_content(["a.txt"]) != before


def test_names_and_missing_files_count(store: Path) -> None:
    Path("c.txt").write_text("one")
    found = [outside_content([name]) for name in ("a.txt", "c.txt", "none.txt")]
    assert len(set(found)) == 3


def test_what_rules_make_does_not_count(store: Path) -> None:
    made = ["results/tiny/corpus.parquet", "store/checkpoints/x.json", str(store / "checkpoints/y")]
    assert outside_content([*made, "a.txt"]) == outside_content(["a.txt"])


def test_a_file_written_a_moment_ago_is_not_recorded(
    store: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "SETTLED_NS", -YESTERDAY_NS)
    assert outside_content(["a.txt"]) == outside_content(["a.txt"])
    assert read == ["a.txt", "a.txt"]


@pytest.mark.parametrize("damage", ["", "[", "\udcff", "null"])
def test_a_damaged_record_is_written_anew(store: Path, damage: str) -> None:
    before = outside_content(["a.txt"])
    record = store / "inputs.json"
    record.write_bytes(damage.encode(errors="surrogateescape"))
    assert outside_content(["a.txt"]) == before
    assert list(json.loads(record.read_text())) == [os.path.abspath("a.txt")]


def test_a_store_that_cannot_be_written_hashes_again(store: Path, read: list[str]) -> None:
    store.write_text("a file in its place")
    assert outside_content(["a.txt"]) == outside_content(["a.txt"])
    assert read == ["a.txt", "a.txt"]


def test_a_file_that_changes_under_a_job_is_refused(store: Path) -> None:
    before = outside_content(["a.txt", "b.txt"])
    refuse_changed(["a.txt", "b.txt"], before)
    Path("b.txt").write_text("six")
    with pytest.raises(InputError, match=r"changed while this job read it .*: b\.txt"):
        refuse_changed(["a.txt", "b.txt"], before)
