"""The bench of inference measures what the package does: its tables are read by `result_tables`."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "inference.py"


@pytest.fixture
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_inference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("with_parts", [False, True])
def test_every_model_it_writes_is_aggregated(
    bench: ModuleType, tmp_path: Path, with_parts: bool
) -> None:
    bench.write_scores(tmp_path, n_queries=300, n_models=2)

    found = bench.aggregate(tmp_path, n_models=2, with_parts=with_parts)

    assert found["rows"] >= 2
    assert found["cpu_s"] > 0
