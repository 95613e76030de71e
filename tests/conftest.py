"""Fixtures of the whole suite."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real SQuAD and XQuAD files; skips where there is none."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("PSIBENCH_TEST_DATA") or beside)
    if not (folder / "xquad.en.json").is_file():
        pytest.skip(
            f"no real data: PSIBENCH_TEST_DATA is not set and {folder} holds no xquad.en.json"
        )
    return folder
