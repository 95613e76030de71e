"""Other projects' programs, which load what psibench writes: installed only by `make peers`."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from built_benchmark import make_benchmark

from psibench.cli import main

os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

REQUIRED = bool(os.environ.get("PSIBENCH_REQUIRE_PEERS"))


@pytest.fixture(scope="session")
def peer() -> Callable[[str], Any]:
    """Import a peer's module; without it skip, or fail where `make peers` runs the tests."""

    def load(name: str) -> Any:
        if find_spec(name.split(".")[0]) is None:
            if REQUIRED:
                pytest.fail(f"{name} is not installed, and PSIBENCH_REQUIRE_PEERS is set")
            pytest.skip(f"{name} is not installed: make peers")
        return import_module(name)

    return load


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let `datasets` store converted files in a folder of this session."""
    folder = str(tmp_path_factory.mktemp("datasets-cache"))
    os.environ["HF_DATASETS_CACHE"] = folder
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_DATASETS_CACHE = Path(folder)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of two languages and two domains, with runs of BM25."""
    return make_benchmark(tmp_path_factory.mktemp("peers") / "two-languages")


@pytest.fixture(scope="session")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Export one domain of the benchmark in a layout, once."""
    folder = tmp_path_factory.mktemp("exports")

    def export(layout: str) -> Path:
        out = folder / layout
        if not out.exists():
            options = ["--layout", layout, "--licence", "cc-by-4.0", "--domains", "game"]
            assert main(["export", str(built), str(out), *options]) == 0
        return out

    return export
