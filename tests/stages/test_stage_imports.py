"""Which libraries the start of a stage imports."""

import subprocess
import sys

import pytest

from psibench.tables.stage import read_stages

LARGE = (
    *("torch", "transformers", "sentence_transformers", "tokenizers", "huggingface_hub"),
    *("openvino", "openai", "httpx2", "aiohttp", "faiss", "bm25s", "numba", "datasets"),
    *("scipy", "sklearn", "pandas", "matplotlib", "snakemake"),
)


@pytest.mark.processes
def test_starting_stages_imports_no_large_library():
    modules = sorted({one.module for one in read_stages().values()})
    code = f"import sys, {', '.join(modules)}; print(*sorted(set({LARGE}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
