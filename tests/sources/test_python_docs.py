import re
import sys

import numpy as np
import pytest

from psibench.errors import InputError
from psibench.sources import python_docs
from psibench.sources.python_docs import (
    Page,
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


def test_passages_are_many_varied_and_within_bounds(docs):
    lengths = np.array([len(text.split()) for text in docs.documents["text"]])
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
    paragraphs = [p for text in docs.documents["text"] for p in text.split("\n\n")]
    bodies = [p.partition(": ")[2] or p for p in paragraphs]
    assert len(set(bodies)) == len(bodies)


def test_left_out_texts_have_a_reason(docs):
    assert dict(docs.dropped.schema) == DROPPED_SCHEMA
    assert set(docs.dropped["reason"]) == {"duplicate", "near_duplicate", "passage_too_short"}
    assert docs.dropped["score"].null_count() == 0
    assert not docs.dropped.select("unit", "item_id").is_duplicated().any()
    pages = {page.name.lower() for page in python_pages()}
    assert set(docs.dropped["doc_id"]) <= pages


def test_a_left_out_paragraph_has_its_number_in_the_id():
    long = "The very same words stand here once and then they stand here again"
    pages = [Page("Topic.A", "here", [long, "Another thing.", long]), Page("b", "here", [long])]
    kept, dropped = drop_seen_paragraphs(pages)
    assert [page.paragraphs for page in kept] == [[long, "Another thing."]]
    facts = ("read_python_docs", "paragraphs")
    assert [row[:5] for row in dropped] == [
        (*facts, "topic.a-p003", "topic.a", "duplicate"),
        (*facts, "b-p001", "b", "duplicate"),
    ]


def test_a_python_without_topics_or_sources_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(InputError, match="pydoc_data"):
        list(python_pages())
    monkeypatch.undo()
    monkeypatch.setattr(python_docs.sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    with pytest.raises(InputError, match="source files"):
        list(python_pages())


def test_parts_are_disjoint_and_have_all_passages():
    every = read_python_docs(seed=1)
    parts = [read_python_docs(seed=1, part=part) for part in ("language", "network", "library")]
    ids = [name for docs in parts for name in docs.documents["_id"]]
    assert sorted(ids) == sorted(every.documents["_id"])
    assert sum(docs.dropped.height for docs in parts) == every.dropped.height
    language, network, library = (set(docs.documents["origin"]) for docs in parts)
    assert all(origin.startswith("pydoc_data.topics") for origin in language)
    assert "asyncio.tasks (docstrings)" in network - library


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


def test_docstrings_are_parsed_in_source_order(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert read_docstrings(path, "pkg.module") == [
        ("pkg.module", "About the module."),
        ("pkg.module:Thing", "A thing."),
        ("pkg.module:Thing.grow", "Grow it."),
        ("pkg.module:Thing.Part", "A part."),
        ("pkg.module:later", "Come later, \\d."),
    ]


def test_source_files_are_sorted_without_tests_and_third_parties(tmp_path):
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
