"""The pure parts of studies/sampling: the generated source and what is planted in it."""

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from psibench.sources.documents import SourceDocuments
from psibench.text.near_duplicates import normalise, shingle_hashes

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "sampling"))

import generated_source
from generated_source import generate

WORDS = " ".join(f"{a}{b}" for a in "bcdfghjk" for b in ("an", "or", "im", "uz", "el"))


@pytest.fixture(autouse=True)
def _few_words(monkeypatch):
    """Words of one short text in place of the Python documentation's."""
    frame = pl.DataFrame({"text": [WORDS]})
    monkeypatch.setattr(
        generated_source, "read_documents", lambda source: SourceDocuments(iter([frame]))
    )


def read(path):
    records = map(json.loads, path.read_text().splitlines())
    return {record["_id"]: record["text"] for record in records}


def test_the_same_seed_gives_the_same_source_in_either_format(tmp_path):
    made = [generate(tmp_path / name, n_bytes=300_000, seed=3) for name in ("a.jsonl", "b.jsonl")]
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert made[0].planted.equals(made[1].planted)
    assert made[0].n_bytes == (tmp_path / "a.jsonl").stat().st_size
    generate(tmp_path / "c.parquet", n_bytes=300_000, seed=3)
    rows = pl.read_parquet(tmp_path / "c.parquet").rows()
    assert dict(rows) == read(tmp_path / "a.jsonl")
    assert len(rows) == made[0].n_documents
    generate(tmp_path / "d.jsonl", n_bytes=300_000, seed=4)
    assert read(tmp_path / "d.jsonl") != dict(rows)


def test_planted_duplicates_repeat_what_they_are_said_to(tmp_path):
    planted = generate(tmp_path / "a.jsonl", n_bytes=1_000_000, seed=3).planted
    texts = read(tmp_path / "a.jsonl")
    kinds = planted.get_column("kind").to_list()
    assert min(kinds.count("exact"), kinds.count("near")) >= 3
    for key, other, kind in planted.iter_rows():
        own, original = normalise(texts[key]), normalise(texts[other])
        assert (own == original) == (kind == "exact")
        assert len(own.split()) == len(original.split())
        assert len(shingle_hashes(own)) > 0
