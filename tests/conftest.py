"""Fixtures of the whole suite."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a worker a core: torch and BLAS read it at import
# The engine that is faster on a machine is measured: no test may depend on it (test_compiled does).
os.environ.setdefault("PSIBENCH_ENGINE", "torch")

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")  # no example has to end in 200 ms: a busy machine takes longer

RUNS = ("workflow", "end_to_end", "package")
"""Folders of tests of `make process-test`: whole runs and installed packages."""


gc.disable()  # until all is imported and collected, which stays


def pytest_collection_finish() -> None:
    """Exclude objects made before the tests from garbage collection."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take minutes first: what then evens out the workers takes seconds."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in RUNS:
            item.add_marker("processes")
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real SQuAD and XQuAD files; skips the test without it."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("PSIBENCH_TEST_DATA") or beside)
    if not (folder / "xquad.en.json").is_file():
        pytest.skip(
            f"no real data: PSIBENCH_TEST_DATA is not set and {folder} holds no xquad.en.json"
        )
    return folder
