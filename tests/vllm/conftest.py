"""Tests with a vLLM that really runs, on this machine's CPUs: `make vllm-test` only.

PSIBENCH_VLLM names programs `vllm`, with colons between, the one that all tests take first. The
others are tried with a few requests.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_chat import ARGUMENTS, PROGRAMS, save_chat_model

from psibench.llm.sections import LlmSettings
from psibench.vllm.server import VllmProcess

collect_ignore_glob = [] if PROGRAMS else ["test_*.py"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS"):
        monkeypatch.setenv(name, "1")


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 of two layers with a byte tokenizer and a chat template."""
    return save_chat_model(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="session")
def settings(chat_model: Path) -> Callable[..., LlmSettings]:
    """Make the settings of a language model that a job serves on CPUs."""

    def make(
        *more: str, program: str = PROGRAMS[0] if PROGRAMS else "", **changes: Any
    ) -> LlmSettings:
        sampling = {"temperature": 1.0, "max_output_tokens": 3000}
        fields = {
            "backend": "vllm",
            "model": str(chat_model),
            "sampling": sampling,
            "asking": {"concurrency": 8, "timeout_s": 300.0, "max_reasks": 5},
            "vllm": {"gpus": 0, "start_s": 600.0, "command": [program, "serve"]}
            | {"arguments": [*ARGUMENTS, *more]},
        }
        return LlmSettings.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def server(
    settings: Callable[..., LlmSettings], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmProcess]:
    """One server for all tests that only ask."""
    chosen = settings()
    log = tmp_path_factory.mktemp("server") / "log"
    with VllmProcess(chosen.model, chosen.vllm, log=log) as process:
        process.start()
        yield process
