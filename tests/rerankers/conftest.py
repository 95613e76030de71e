"""The tiny reranker checkpoints, made once a session."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tiny_rerankers import CHECKPOINTS, EMBEDDED

from psibench.config.rerankers import RerankerModel
from psibench.rerankers.protocols import Reranker, Scores, TextPair
from psibench.rerankers.scoring import load_reranker

Entry = Callable[..., RerankerModel]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make the checkpoint of a kind, once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            CHECKPOINTS[kind][0](made[kind])
        return made[kind]

    return make


@pytest.fixture(scope="session")
def entry(checkpoint: Callable[[str], Path]) -> Entry:
    """Make the registry entry of a kind, with other fields if given."""

    def make(kind: str, **fields) -> RerankerModel:
        if kind in EMBEDDED:
            raw = EMBEDDED[kind] | fields
        else:
            defaults = {"max_tokens": 128, "dtype": "float32"}
            raw = CHECKPOINTS[kind][1] | defaults | fields
            raw.setdefault("checkpoint", str(checkpoint(kind)))
        return TypeAdapter(RerankerModel).validate_python(raw)

    return make


@pytest.fixture(scope="session")
def load(entry: Entry) -> Callable[..., Reranker]:
    """Load the reranker of a kind, with other fields if given."""
    return lambda kind, **fields: load_reranker(kind, entry(kind, **fields), device="cpu")


@pytest.fixture(scope="session")
def score() -> Callable[[Reranker, list[TextPair]], Scores]:
    """Score pairs in one batch."""
    return lambda reranker, pairs: reranker.score(reranker.tokenize(pairs))
