"""Stores of the previous version (`earlier`) are migrated, and no request is sent again.

Each had a job that ended and one that was killed while it wrote.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from psibench.encode.store import EmbeddingStore, text_key
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.usage import Usage
from psibench.store import keyed
from psibench.store.pairs import PairStore, pair_keys

EARLIER = Path(__file__).with_name("earlier")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    shutil.copytree(EARLIER, tmp_path / "store")
    return tmp_path / "store"


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir() if path.is_file())


def stored_by_key(folder: Path) -> dict[str, Answer]:
    from psibench.llm.answer_store import stored_answers

    return {answer.key: answer for answer in stored_answers(folder)}


@pytest.mark.parametrize("times", [1, 2])
def test_answers(folder, times):
    logs = {path: path.read_bytes() for path in (folder / "llm").glob("*.jsonl")}
    known = stored_by_key(folder / "llm")
    assert len(known) == 4
    for _ in range(times):
        store = AnswerStore(folder / "llm")
        assert [store.get(key) for key in known] == [*known.values()]
        assert store.usage() == Usage(5 * 20, 5 * 5)
    assert names(folder / "llm") == [".jsonl", ".jsonl", ".keys"]
    assert {path: path.read_bytes() for path in logs} == logs
    one = next(iter(known.values()))
    with store:
        store.add(replace(one, key="0" * 64))
    assert AnswerStore(folder / "llm").get("0" * 64) is not None


@pytest.mark.parametrize("times", [1, 2])
def test_pair_scores(folder, times, monkeypatch):
    asked = pair_keys([("q", str(number)) for number in range(7)])
    for _ in range(times):
        found = PairStore(folder / "pairs", "f" * 64).find(asked)
        assert found.known.tolist() == [True] * 6 + [False]
        expected = np.arange(6) / 3
        first_or_second = [expected[3], expected[3] + 9]  # of a pair that two jobs scored
        assert found.raw[3] in first_or_second
        assert found.raw[[0, 1, 2, 4, 5]].tolist() == expected[[0, 1, 2, 4, 5]].tolist()
        assert found.score[:6].tolist() == (expected / 2).tolist()
    assert names(folder / "pairs" / ("f" * 24)).count(".scores") == 2
    assert set(names(folder / "pairs" / ("f" * 24))) <= {".scores", ".keys"}


def test_two_jobs_migrate_pair_scores_at_once(folder, monkeypatch):
    from psibench.store import pairs

    read = pairs.read_part

    def taken_over(path, *args, **options):
        if path.exists():
            monkeypatch.setattr(pairs, "read_part", read)
            assert PairStore(folder / "pairs", "f" * 64).find(pair_keys([("q", "0")])).known.all()
        return read(path, *args, **options)

    monkeypatch.setattr(pairs, "read_part", taken_over)
    assert PairStore(folder / "pairs", "f" * 64).find(pair_keys([("q", "0")])).known.all()


@pytest.mark.parametrize("times", [1, 2])
def test_vectors(folder, times):
    for _ in range(times):
        store = EmbeddingStore(folder / "embeddings", "f" * 64)
        keys = [text_key(letter) for letter in "edcbaf"]
        assert store.missing(keys) == [5]
        vectors = store.load(keys[:5])
        assert vectors.counts.tolist() == [0, 2, 1, 1, 1]
        assert vectors.values[:, 0].tolist() == [3, 3, 2, 1, 0]
    assert names(store.folder) == [".keys", ".parquet", ".parquet"]
