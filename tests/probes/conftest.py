"""Encoders with known behaviour: position-blind, or limited to the first tokens."""

from collections.abc import Callable
from pathlib import Path

import pytest

from psibench.config.models import SentenceTransformerModel
from psibench.config.registry import load_registry
from psibench.config.sections import Encoding
from psibench.probes.encoding import ProbeEncoder


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., ProbeEncoder]:
    """Load an encoder of the registry by id, or the embedded network with the given fields."""

    def loaded(model: str = "minilm-static", *, tokens_per_batch: int = 8192, **fields):
        entry = (
            SentenceTransformerModel(
                backend="sentence-transformers", checkpoint="embedded:all-MiniLM-L6-v2", **fields
            )
            if fields
            else load_registry()[model]
        )
        settings = Encoding(tokens_per_batch=tokens_per_batch, device="cpu", dtype="float32")
        name = f"{model}-{tokens_per_batch}"
        return ProbeEncoder(entry, model=name, store=tmp_path, settings=settings)

    return loaded
