"""Why a server of vLLM ended, out of what releases 0.27 to 0.32 print (cut)."""

import pytest

from psibench.vllm.causes import TAIL_LINES, cause_of, last_lines

INFO = "(APIServer pid=7) INFO 11-25 12:42:08 [launcher.py:186] Available routes are:\n"
WORKER = """\
(Worker pid=9) ERROR 11-25 12:44:23 [multiproc_executor.py:1063] WorkerProc hit an exception.
(Worker pid=9) ERROR 11-25 12:44:23 [multiproc_executor.py:1063] Traceback (most recent call last):
(Worker pid=9) ERROR 11-25 12:44:23 [multiproc_executor.py:1063]   File "w.py", line 220, in size
(Worker pid=9) ERROR 11-25 12:44:23 [multiproc_executor.py:1063]     raise ValueError(
(Worker pid=9) ERROR 11-25 12:44:23 [multiproc_executor.py:1063] ValueError: {words}
"""
ENGINE = """\
(EngineCore pid=8) ERROR 11-25 12:44:23 [core.py:1510] EngineCore failed to start.
(EngineCore pid=8) ERROR 11-25 12:44:23 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=8) ERROR 11-25 12:44:23 [core.py:1510]   File "core.py", line 1484, in run
(EngineCore pid=8) ERROR 11-25 12:44:23 [core.py:1510]     raise RuntimeError(
(EngineCore pid=8) ERROR 11-25 12:44:23 [core.py:1510] RuntimeError: Worker failed with error 'x'
"""
SERVER = """\
Traceback (most recent call last):
  File "vllm", line 8, in <module>
    sys.exit(main())
             ^^^^^^
RuntimeError: Engine core initialization failed. See root cause above.
"""
CHAINED = """\
Traceback (most recent call last):
  File "old.py", line 1, in optional
    import cupy
ModuleNotFoundError: No module named 'cupy'
Traceback (most recent call last):
  File "hub.py", line 106, in validate
    raise HFValidationError(
huggingface_hub.errors.HFValidationError: Repo id must be in the form 'a/b'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "vllm", line 8, in <module>
    raise OSError(f"{e}") from e
OSError: Can't load the configuration
"""
VALIDATION = """\
Traceback (most recent call last):
  File "model.py", line 9, in make
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (99) is greater [type=value_error, input_value=Args]
    For further information visit errors.pydantic.dev
Triton is installed.
"""
NOISE = """\
nanobind: leaked 4 instances!
 - leaked instance 0x7f of type "triton.ir"
 - ... skipped remainder
See https://nanobind.readthedocs.io/en/latest/refleaks.html
"""


def cause(tmp_path, text: str) -> str | None:
    (tmp_path / "log").write_text(text)
    return cause_of(tmp_path / "log")


def test_the_first_exception_of_a_worker_comes_before_all_that_follow_from_it(tmp_path):
    text = INFO + WORKER.format(words="no such kernel") + ENGINE + SERVER + NOISE
    assert cause(tmp_path, text) == "ValueError: no such kernel"
    assert cause(tmp_path, INFO + ENGINE + SERVER) == "RuntimeError: Worker failed with error 'x'"
    assert cause(tmp_path, "\x1b[1m" + text) == "ValueError: no such kernel"


def test_of_the_server_alone_it_is_the_first_of_the_last_chain(tmp_path):
    words = "HFValidationError: Repo id must be in the form 'a/b'"
    assert cause(tmp_path, CHAINED) == words


def test_indented_lines_below_an_exception_are_its_words(tmp_path):
    words = "Value error, User-specified max_model_len (99) is greater"
    assert cause(tmp_path, VALIDATION) == (
        f"ValidationError: 1 validation error for ModelConfig {words}"
    )


@pytest.mark.parametrize(
    ("words", "amounts"),
    [
        (
            "Available memory on node 0 (16.2/17.71 GiB) on kv cache allocation is less than "
            "requested memory for kv (400.0 GiB). Decrease --kv-cache-memory-bytes",
            "400.0 GiB needed, 16.2 GiB free",
        ),
        (
            "Available memory on node 0 (16.3/17.71 GiB) on startup is less than desired CPU "
            "memory utilization (0.99, 17.54 GiB).",
            "17.54 GiB needed, 16.3 GiB free",
        ),
        (
            "Free memory on device cuda:0 (3.2/79.15 GiB) on startup is less than desired GPU "
            "memory utilization (0.9, 71.24 GiB).",
            "71.24 GiB needed, 3.2 GiB free",
        ),
        (
            "To serve at least one request (0.5 GiB KV cache is needed, which is larger than the "
            "available KV cache memory (0.25 GiB).",
            "0.5 GiB needed, 0.25 GiB free",
        ),
        (
            "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 79.15 "
            "GiB of which 12.50 MiB is free. Process 5 has 79.1 GiB memory in use.",
            "96.00 MiB needed, 12.50 MiB free",
        ),
    ],
)
def test_memory_is_told_in_two_numbers(tmp_path, words, amounts):
    found = cause(tmp_path, WORKER.format(words=words) + SERVER)
    assert found == f"{amounts}: ValueError: {words}"


def test_a_traceback_that_is_logged_as_a_warning_ended_nothing(tmp_path):
    warned = WORKER.format(words="no flashinfer").replace(") ERROR ", ") WARNING ")
    assert cause(tmp_path, warned + ENGINE) == "RuntimeError: Worker failed with error 'x'"


def test_an_engine_that_is_killed_has_no_exception_and_it_is_said(tmp_path):
    dead = SERVER.replace(
        "RuntimeError: Engine core initialization failed.", "v.EngineDeadError: ?"
    )
    assert cause(tmp_path, INFO + dead).startswith("its engine ended without a word, as what is k")


def test_without_a_traceback_the_last_lines_less_the_libraries_noise(tmp_path):
    text = INFO * 100 + "vllm: error: unrecognized arguments: --no\n" + NOISE
    assert cause(tmp_path, text) is None
    found = last_lines(tmp_path / "log").splitlines()
    assert found[-1] == "vllm: error: unrecognized arguments: --no"
    assert len(found) == TAIL_LINES
    assert "not readable" in last_lines(tmp_path / "none")
