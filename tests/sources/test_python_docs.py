import re
import subprocess
import sys

import numpy as np
import pytest

from psibench.errors import InputError
from psibench.sources import python_docs
from psibench.sources.python_docs import (
    Page,
    cut_passages,
    drop_seen_paragraphs,
    module_name,
    python_pages,
    read_docstrings,
    read_python_docs,
    source_files,
)
from psibench.tables.dropped import DROPPED_SCHEMA


@pytest.fixture(scope="module")
def docs():
    return read_python_docs(seed=0)


def n_words(text):
    return len(text.split())


def test_passages_are_many_varied_and_within_bounds(docs):
    lengths = np.array([n_words(text) for text in docs.documents["text"]])
    assert docs.documents.columns == ["_id", "text", "origin"]
    assert 700 <= len(lengths) <= 1600
    assert lengths.min() >= 60
    assert lengths.max() <= 700
    assert 200 <= lengths.mean() <= 350
    assert (lengths > 350).mean() > 0.15  # far beyond 512 tokens
    assert (lengths < 120).mean() > 0.1


def test_ids_and_texts_are_unique_and_clean(docs):
    assert docs.documents["_id"].is_unique().all()
    assert docs.documents["text"].is_unique().all()
    for doc_id, text, origin in docs.documents.iter_rows():
        assert re.fullmatch(r"[a-z0-9._-]+", doc_id)
        assert text == text.strip()
        assert not re.search(r"^>>> |^={3,}|^-{3,}", text, re.MULTILINE)
        assert "site-packages" not in origin
        assert "/" not in origin


def test_no_paragraph_occurs_twice(docs):
    paragraphs = [p for text in docs.documents["text"] for p in text.split("\n\n")]
    bodies = [p.partition(": ")[2] or p for p in paragraphs]
    assert len(set(bodies)) == len(bodies)


def test_what_is_left_out_has_a_reason(docs):
    assert dict(docs.dropped.schema) == DROPPED_SCHEMA
    assert set(docs.dropped["reason"]) == {"duplicate", "near_duplicate", "passage_too_short"}
    assert docs.dropped["score"].null_count() == 0
    assert not docs.dropped.select("unit", "item_id").is_duplicated().any()
    pages = {page.name.lower() for page in python_pages()}
    assert set(docs.dropped["doc_id"]) <= pages


def test_a_paragraph_left_out_is_named_by_its_place_on_its_page():
    long = "The very same words stand here once and then they stand here again"
    pages = [Page("Topic.A", "here", [long, "Another thing.", long]), Page("b", "here", [long])]
    kept, dropped = drop_seen_paragraphs(pages)
    assert [page.paragraphs for page in kept] == [[long, "Another thing."]]
    facts = ("read_python_docs", "paragraphs")
    assert [row[:5] for row in dropped] == [
        (*facts, "topic.a-p003", "topic.a", "duplicate"),
        (*facts, "b-p001", "b", "duplicate"),
    ]


def test_a_passage_too_long_is_not_called_too_short():
    dropped = read_python_docs(min_words=60, max_words=100, seed=3).dropped
    unfit = dropped.filter(unit="passages")
    limits = dict(unfit.group_by("reason").agg("score").iter_rows())
    assert set(limits) == {"passage_too_short", "passage_too_long"}
    assert max(limits["passage_too_short"]) < 60
    assert min(limits["passage_too_long"]) > 100


def test_the_same_seed_gives_the_same_rows(docs):
    assert read_python_docs(seed=0).documents.equals(docs.documents)


def test_reading_imports_no_module_for_its_docstring():
    code = (
        "import sys; from psibench.sources.python_docs import read_python_docs;"
        "read_python_docs(seed=0);"
        "print([m for m in ('antigravity', 'this', 'tkinter', 'idlelib', 'turtle', 'test')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_python_without_topics_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(InputError, match="pydoc_data"):
        list(python_pages())


def test_a_python_without_its_sources_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(python_docs.sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    with pytest.raises(InputError, match="source files"):
        list(python_pages())


@pytest.mark.parametrize(
    "settings", [{"min_words": 0}, {"min_words": 9, "max_words": 8}, {"seed": -1}]
)
def test_bounds_out_of_range_are_refused(settings):
    with pytest.raises(InputError, match="allowed"):
        read_python_docs(**{"seed": 0, **settings})


def test_a_short_rest_joins_the_passage_before_it():
    paragraphs = ["one two three", "four five six", "seven"]
    # bounds 3..4: each passage closes at its first paragraph; the rest of 1 word joins the second
    passages, short = cut_passages(paragraphs, 3, 4, np.random.default_rng(0))
    assert passages == ["one two three", "four five six\n\nseven"]
    assert short == []


def test_paragraphs_outside_the_bounds_are_given_back():
    paragraphs = ["one two three four five", "six"]
    passages, short = cut_passages(paragraphs, 2, 4, np.random.default_rng(0))
    assert passages == []
    assert short == paragraphs


def test_parts_share_out_all_passages_between_them():
    every = read_python_docs(seed=1)
    parts = [read_python_docs(seed=1, part=part) for part in ("language", "network", "library")]
    ids = [name for docs in parts for name in docs.documents["_id"]]
    assert sorted(ids) == sorted(every.documents["_id"])
    assert sum(docs.dropped.height for docs in parts) == every.dropped.height
    language, network, library = (set(docs.documents["origin"]) for docs in parts)
    assert all(origin.startswith("pydoc_data.topics") for origin in language)
    assert "asyncio.tasks (docstrings)" in network
    assert "threading (docstrings)" in library


SOURCE = '''"""About the module."""
raise SystemExit("this file must never run")

class Thing:
    """A thing."""

    def grow(self):
        """Grow it."""
        def inner():
            """Not shown."""

    class Part:
        """A part."""

if True:
    async def later():
        """Come later, \\d."""
'''


def test_docstrings_come_in_source_order_without_running_the_file(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert read_docstrings(path, "pkg.module") == [
        ("pkg.module", "About the module."),
        ("pkg.module:Thing", "A thing."),
        ("pkg.module:Thing.grow", "Grow it."),
        ("pkg.module:Thing.Part", "A part."),
        ("pkg.module:later", "Come later, \\d."),
    ]


def test_a_file_that_is_no_python_has_no_docstrings(tmp_path):
    path = tmp_path / "bad.py"
    for content in (b"def (", b"\xff\xfe\x00", b"# coding: nonsense\n"):
        path.write_bytes(content)
        assert read_docstrings(path, "bad") == []


def test_files_are_sorted_and_tests_and_third_parties_left_out(tmp_path):
    for name in (
        "b.py",
        "a/__init__.py",
        "a/c.py",
        "test/test_b.py",
        "a/tests/x.py",
        "site-packages/pip/__init__.py",
        "lib-dynload/y.py",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = [module_name(path, tmp_path) for path in source_files(tmp_path)]
    assert names == ["a", "a.c", "b"]


def test_a_missing_folder_has_no_files(tmp_path):
    assert source_files(tmp_path / "absent") == []
