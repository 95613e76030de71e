import pytest
from batch_helpers import Server
from llm_helpers import shorten_pauses


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_pauses(monkeypatch.setattr)


@pytest.fixture
def server():
    """A stand-in with batches, in a thread of its own."""
    with Server() as running:
        yield running
