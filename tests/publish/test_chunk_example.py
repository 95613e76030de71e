"""The example that cuts a corpus in three ways; its encoder is a bag of words here."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from built_benchmark import make_benchmark

from psibench.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "chunks"
NAMES = ("words-100", "words-100-overlapping", "paragraphs")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module("chunkings")


class BagOfWords:
    """Replaces the checkpoint: each word has a dimension, by its hash."""

    def __init__(self, folder):
        assert Path(folder).is_dir()

    def encode(self, texts, *, normalize_embeddings):
        assert normalize_embeddings
        vectors = np.zeros((len(texts), 4096), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[[sum(word.encode()) % 4096 for word in text.split()]] = 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_its_runs_are_scored_by_the_same_labels(example, tmp_path, monkeypatch, capsys):
    fake = SimpleNamespace(SentenceTransformer=BagOfWords)
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    data = make_benchmark(tmp_path / "two") / "data" / "eng-Latn"
    example.main(data, tmp_path / "runs")
    found = pl.read_ndjson(tmp_path / "runs" / "paragraphs.jsonl")
    asked, searched = (pl.col(name).str.split("/").list.first() for name in ("query_id", "doc_id"))
    assert found.select((asked == searched).all()).item()  # queries search only their domain
    runs = [word for name in NAMES for word in ("--run", tmp_path / "runs" / f"{name}.jsonl")]
    files = [
        word for kind in ("queries", "qrels") for word in (f"--{kind}", data / f"{kind}.parquet")
    ]
    options = ["--buckets", "thirds", "--out", tmp_path / "out"]
    assert main(["score", *map(str, [*runs, *files, *options])]) == 0
    assert "Evidence found in the first k chunks:" in capsys.readouterr().out
    psi = pl.read_parquet(tmp_path / "out" / "psi_table.parquet").filter(length_bucket="all")
    recall = psi.filter(metric="span-recall@10", evidence="all")
    assert recall["model"].to_list() == list(NAMES)
    assert recall["mean"].min() > 0.3
