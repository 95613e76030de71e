import pytest
from batch_helpers import Server
from llm_helpers import short_pauses  # noqa: F401 - a fixture


@pytest.fixture
def server():
    """A stand-in with batches, in a separate thread."""
    with Server() as running:
        yield running
