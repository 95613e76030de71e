import gzip
import json
import logging
import os
import re
from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.sources.documents import read_document_files
from psibench.sources.files import SUFFIXES, WHOLE_FILE, find_files

pytestmark = pytest.mark.usefixtures("folder")


def refusal(*paths, **options) -> str:
    with pytest.raises(InputError) as raised:
        read_document_files(paths, **options)
    return str(raised.value)


def test_a_folder_is_read_recursively_in_sorted_order():
    Path("d/sub").mkdir(parents=True)
    Path("d/b.md").write_text("  two\n")
    Path("d/a.TXT").write_text("one é😀")
    Path("d/sub/c.txt").write_text("three")
    Path("d/ignored.csv").write_bytes(b"a,b")
    assert read_document_files(["d"]).rows() == [
        ("a", "one é😀", "d/a.TXT"),
        ("b", "two", "d/b.md"),
        ("sub/c", "three", "d/sub/c.txt"),
    ]


@pytest.mark.parametrize(("name", "opened"), [("j.jsonl", open), ("j.jsonl.gz", gzip.open)])
def test_jsonl_ids_come_from_the_record_or_its_number(name, opened):
    with opened(name, "wt", encoding="utf-8") as file:
        file.write('{"text": "a"}\n{"text": "b", "_id": "x"}\n\n{"text": "c", "id": 5}\n')
        file.write('{"text": "  "}\n{"text": "d"}\n')
    assert read_document_files([name]).rows() == [
        ("j:0", "a", f"{name}, line 1"),
        ("x", "b", f"{name}, line 2"),
        ("5", "c", f"{name}, line 4"),
        ("j:4", "d", f"{name}, line 6"),  # empty texts count, empty lines do not
    ]


@pytest.mark.parametrize("mark", ["\u2028", "\x85"])
def test_a_line_separator_inside_json_text_is_kept(mark):
    text = json.dumps({"text": f"a{mark}b"}, ensure_ascii=False)
    Path("j.jsonl").write_text(text + "\r\n" + '{"text": "c"}', encoding="utf-8", newline="")
    assert read_document_files(["j.jsonl"]).height == 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("f.txt", b"%PDF-1.4", "f.txt: found a PDF document, expected plain text"),
        ("f.csv", b"a,b", "f.csv: unknown suffix '.csv'. Supported: .jsonl, .jsonl.gz, .parquet"),
    ],
)
def test_a_file_of_another_kind_is_refused(name, data, message):
    Path(name).write_bytes(data)
    assert message in refusal(name)


def test_a_missing_id_field_is_refused_with_the_record():
    Path("j.jsonl").write_text('{"text": "a", "key": "1"}\n{"text": "b"}\n')
    said = refusal("j.jsonl", id_column="key")
    assert "j.jsonl, line 2: no id in field 'key' (id_column); found the fields text" in said


def test_globs_match_files_and_folders_in_sorted_order():
    for name in ("2024/a", "2023/a", "2023/b"):
        path = Path(f"news/{name}/x.txt")
        path.parent.mkdir(parents=True)
        path.write_text(name)
    assert read_document_files(["news/*/a/*.txt"]).select("_id", "text").rows() == [
        ("2023/a/x", "2023/a"),  # ids are below the folder before the first wildcard
        ("2024/a/x", "2024/a"),
    ]
    assert read_document_files(["news/**/b"])["text"].to_list() == ["2023/b"]
    assert "news/*/c: no file or folder matches" in refusal("news/*/c")
    assert "none: no such file or folder" in refusal("none")
    Path("empty").mkdir()
    assert "empty: no document in this folder; hidden files are not read" in refusal("empty")


def test_the_page_on_corpora_lists_every_kind_of_file():
    page = (Path(__file__).parents[2] / "docs/own-corpus.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| file \| a document is .*\n((?:\|.*\n)+)", page)
    named = [kind for row in table.splitlines() for kind in re.findall(r"`([.]\w[\w.]*)`", row)]
    assert sorted(named) == sorted(SUFFIXES)


def test_ids_keep_suffixes_that_distinguish_files(tmp_path):
    for name in ("addons.html", "addons.md", "other.md", "in/addons.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"<p>{name}</p>" if name.endswith("html") else name)
    found = read_document_files([tmp_path])
    assert dict(found.select("_id", "text").iter_rows()) == {
        "addons.html": "addons.html",
        "addons.md": "addons.md",
        "other": "other.md",
        "in/addons": "in/addons.md",
    }


def test_files_of_other_kinds_in_a_folder_are_counted(tmp_path, caplog):
    for name in ("a.md", "b.rst", "in/c.RST", "d.jsonl.zst", "f.txt.gz", "g", ".hid/x.rst"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    os.mkfifo(tmp_path / "p.txt")
    (tmp_path / "to").symlink_to(tmp_path / "in")
    (tmp_path / "circle.md").symlink_to(tmp_path / "circle.md")
    with caplog.at_level(logging.WARNING, logger="psibench"):
        assert read_document_files([tmp_path])["_id"].to_list() == ["a"]
    (told,) = caplog.messages
    expected = ".rst 2, broken links, pipes and devices 2, .jsonl.zst 1, .txt.gz 1, "
    assert f"skipped 8 files of unsupported kinds: {expected}" in told
    assert "links to folders 1, without suffix 1. To include them" in told


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
def test_queries_beside_a_corpus_are_no_documents(tmp_path, suffix):
    data = tmp_path / "scifact"
    data.mkdir()
    for name in ("corpus", "queries"):
        (data / f"{name}{suffix}").touch()
    for path in (tmp_path, tmp_path / "*", data / f"*{suffix}", tmp_path / "**" / "*.*"):
        with pytest.raises(InputError, match=f"give .*corpus{suffix} instead"):
            find_files([path])
    assert find_files([data / f"corpus{suffix}"])
    (data / f"corpus{suffix}").rename(data / f"pages{suffix}")
    assert len(find_files([tmp_path])) == 2  # files of a folder may have any name


def test_hidden_files_are_read_only_if_named(tmp_path):
    names = ("a.md", "._a.md", ".ipynb_checkpoints/a-checkpoint.md", "in/.venv/lib/LICENSE.txt")
    for name in (*names, "__MACOSX/._a.md", ".jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    assert read_document_files([tmp_path])["_id"].to_list() == ["a"]
    hidden = tmp_path / ".ipynb_checkpoints"
    assert read_document_files([hidden])["_id"].to_list() == ["a-checkpoint"]
    with pytest.raises(InputError, match="hidden files are not read"):
        find_files([tmp_path / "in"])


@pytest.mark.parametrize("given", [".", "../here", "../"])
def test_the_outputs_of_a_run_are_no_documents(tmp_path, monkeypatch, given):
    (tmp_path / "here/results/b").mkdir(parents=True)
    (tmp_path / "here/cache/llm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for name in ("a.md", "results/report.html", "results/b/c.jsonl", "cache/llm/d.jsonl"):
        Path(name).write_text("text")
    Path("cache/head.lock").touch()
    assert [path.name for path, _ in find_files([given])] == ["a.md"]
    assert [path.name for path, _ in find_files(["results"])] == ["c.jsonl", "report.html"]


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "p.txt")
    with pytest.raises(InputError, match=r"p.txt: a pipe, socket or device"):
        find_files([tmp_path / "p.txt"])


def test_a_thousand_nested_folders_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):
        Path("d").mkdir()
        os.chdir("d")
    Path("x.txt").write_text("text")
    os.chdir(tmp_path)
    ((found, _),) = find_files(["d"])
    assert found.parts == ("d",) * 1100 + ("x.txt",)
    os.rename(found, "x.txt")
    while Path("d/d").exists():  # pytest's removal is recursive
        os.rename("d/d", "e")
        Path("d").rmdir()
        os.rename("e", "d")


def test_a_file_whose_converter_is_missing_is_named(monkeypatch):
    def convert(path):
        raise ModuleNotFoundError("No module named 'bs4'", name="bs4")

    monkeypatch.setitem(WHOLE_FILE, ".html", convert)
    Path("a.html").write_text("<p>text</p>")
    assert refusal("a.html").startswith("a.html: needs psibench-ir[documents] (bs4 is not")
