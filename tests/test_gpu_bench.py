"""`bench/gpu.py`, with tiny networks on a CPU; each section is a process."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "bench" / "gpu.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("gpu_bench", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def run(*args: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), "--cpu", "--tokens", "2000", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


EXPECTED = {
    "machine": "CPU, ",
    "encode-xlm-roberta": "psibench, packed ",
    "encode-qwen3": "ratio to the fastest batch size ",
    "rerank": "psibench, qwen3, packed ",
    "rerank-vllm": "not compared",
    "memory": "not enough memory for ",
    "bfloat16": "bfloat16, packed   nDCG@10 ",
}


@pytest.mark.processes
def test_every_section_of_the_gpu_bench_prints_its_numbers(bench):
    done = run()
    assert done.returncode == 0, done.stderr[-2000:]
    printed = {part.split("\n")[0]: part for part in done.stdout.split("=== ")[1:]}
    assert list(printed) == list(bench.SECTIONS) == list(EXPECTED)
    assert [name for name, text in EXPECTED.items() if text not in printed[name]] == []


@pytest.mark.processes
def test_failing_section_does_not_stop_the_others():
    done = run("bfloat16", "machine", "--squad", "not-there.json")
    assert done.returncode == 1
    assert "failed: bfloat16" in done.stderr
    assert "CPU, " in done.stdout.split("=== machine")[1]


def test_unknown_section_of_the_gpu_bench_is_refused(bench, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "encode"])
    with pytest.raises(SystemExit) as refused:
        bench.main()
    assert refused.value.code == 2
    assert "known: machine, encode-xlm-roberta" in capsys.readouterr().err


def test_operations_are_counted_by_hand(bench):
    """2 x 3 parameters x 5 tokens + 4 x 2 wide x 1 layer x 25 = 230; causal 130."""
    from types import SimpleNamespace

    import torch

    embeddings = torch.nn.Embedding(7, 2)
    network = SimpleNamespace(
        config=SimpleNamespace(hidden_size=2, num_attention_heads=1, num_hidden_layers=1),
        parameters=lambda: [embeddings.weight, torch.zeros(3)],
        get_input_embeddings=lambda: embeddings,
    )
    assert bench.operations(network, [5], causal=False) == 230
    assert bench.operations(network, [5], causal=True) == 130
