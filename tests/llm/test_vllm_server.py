"""The server that a job starts answers, and none of its processes outlives the job."""

import logging
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from llm_helpers import items, start_job, stored, wait_for

from psibench.errors import InputError
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings
from psibench.stopping import STOPPED_STATUS
from psibench.vllm import server as vllm_module
from psibench.vllm.server import VllmProcess, exceptions_in, http_get, vllm_command

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
MODEL = "acme/Tiny-1B"
FAKE = [sys.executable, str(HERE / "fake_vllm.py")]


def vllm(*arguments, asking=None, start_s=60.0, stop_s=5.0, gpus=1, **changes) -> LlmSettings:
    server = {"command": FAKE, "arguments": [str(a) for a in arguments], "gpus": gpus}
    policy = {"concurrency": 4, "timeout_s": 5.0}
    fields = {
        "backend": "vllm",
        "model": MODEL,
        "asking": policy | (asking or {}),
        "vllm": server | {"start_s": start_s, "stop_s": stop_s},
    }
    return LlmSettings.model_validate(fields | changes)


def process(settings: LlmSettings, log: Path) -> VllmProcess:
    return VllmProcess(settings.model, settings.vllm, log=log, revision=settings.revision)


def ask(settings, store, n_items):
    outcomes = []
    totals = ask_all(items(n_items, model=MODEL), settings, store=store, on_outcome=outcomes.append)
    return outcomes, totals


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def pids(path: Path) -> list[int]:
    wait_for(path.exists)
    return [int(word) for word in path.read_text().split()]


def logs(store: Path) -> list[Path]:
    return sorted((store / "logs").glob("*"))


def test_command_line_of_a_pinned_model_on_four_gpus():
    settings = vllm("--max-model-len", 8192, gpus=4, revision="0123abc")
    command = vllm_command(MODEL, settings.vllm, 4321, revision="0123abc")
    assert command[len(FAKE) :] == [
        *(MODEL, "--revision", "0123abc", "--host", "127.0.0.1", "--port", "4321"),
        *("--tensor-parallel-size", "4", "--max-model-len", "8192"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [["-tp", "2"], ["--tensor_parallel_size=2"], ["--data-parallel-size", "4"], ["-pp=2"]],
)
def test_users_parallelism_arguments_are_kept(arguments):
    command = vllm_command(MODEL, vllm(*arguments, gpus=4).vllm, 1)
    assert command[-len(arguments) :] == arguments
    assert "--tensor-parallel-size" not in command


@pytest.mark.parametrize("argument", ["--port", "--host=0.0.0.0", "--revision", "--api_key"])
def test_arguments_that_are_not_the_users_are_refused(tmp_path, argument):
    with pytest.raises(InputError, match=r"has --\S+, which is set by the job or another key"):
        process(vllm(argument, "x"), tmp_path / "log")


def test_a_missing_program_is_named(tmp_path):
    settings = vllm()
    settings.vllm.command[:] = ["no-such-vllm", "serve"]
    with pytest.raises(InputError, match=r"no-such-vllm: no such program .*vllm.command"):
        ask(settings, tmp_path, 3)


def test_starts_answers_and_leaves_nothing_behind(tmp_path, monkeypatch, caplog):
    """With a proxy that leads nowhere, a key in the environment, and more output than a pipe."""
    caplog.set_level(logging.INFO)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("VLLM_API_KEY", "set for other servers")
    settings = vllm("--fake-pids", tmp_path / "pids", "--fake-noise-mb", 1, "--fake-load-s", 0.5)
    outcomes, totals = ask(settings, tmp_path / "store", 20)
    assert [o.status for o in outcomes] == ["ok"] * 20
    assert {o.model for o in outcomes} == {MODEL}
    assert (totals.n_replies, len(stored(tmp_path / "store"))) == (20, 20)
    assert not any(is_alive(pid) for pid in pids(tmp_path / "pids"))
    assert logs(tmp_path / "store") == []
    assert "vllm: healthy after" in caplog.text


def test_server_that_ends_at_start_is_reported_with_its_output(tmp_path):
    words = "ValueError: max_model_len 8192 is too large"
    with pytest.raises(InputError) as caught:
        ask(vllm("--fake-fail", words), tmp_path, 3)
    assert f"vllm serve {MODEL} ended with status 3" in str(caught.value)
    assert f"\n  {words}\nFull output: " in str(caught.value)
    (log,) = logs(tmp_path)
    assert str(log) in str(caught.value)
    assert words in log.read_text()


LOG = """\
(APIServer pid=7) INFO 11-25 12:42:08 [launcher.py:186] Available routes are:
(Worker pid=9) WARNING 11-25 12:44:22 [a.py:1] ImportError: no flashinfer
(Worker pid=9) ERROR 11-25 12:44:23 [executor.py:1063] Traceback (most recent call last):
(Worker pid=9) ERROR 11-25 12:44:23 [executor.py:1063]     raise ValueError(
(Worker pid=9) ERROR 11-25 12:44:23 [executor.py:1063] ValueError: no room
\x1b[0;36m(EngineCore pid=8)\x1b[0;0m ERROR 11-25 12:44:23 [core.py:1510] ValueError: no room
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (99) is greater
    For further information visit errors.pydantic.dev
RuntimeError: Engine core initialization failed. See root cause above.
"""


def test_exceptions_in_a_log_are_reported_once(tmp_path):
    (tmp_path / "log").write_text(LOG)
    assert exceptions_in(tmp_path / "log") == [
        "ValueError: no room",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig "
        "Value error, User-specified max_model_len (99) is greater",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]


def test_a_server_that_is_not_healthy_in_time_is_stopped(tmp_path):
    settings = vllm("--fake-pids", tmp_path / "pids", "--fake-load-s", 60, start_s=1.0)
    with (
        process(settings, tmp_path / "log") as server,
        pytest.raises(InputError, match=r"not healthy within vllm.start_s = 1 s"),
    ):
        server.start()
    # It may have been stopped before it wrote them.
    started = pids(tmp_path / "pids") if (tmp_path / "pids").exists() else []
    assert not any(is_alive(pid) for pid in started)


def test_server_of_another_model_is_refused(tmp_path):
    with (
        process(vllm("--served-model-name", "other"), tmp_path / "log") as server,
        pytest.raises(InputError, match=rf"requested the model '{MODEL}', .* serves 'other'"),
    ):
        server.start()


@pytest.mark.parametrize("session", [[], ["--fake-own-session"]])
def test_process_that_ignores_sigterm_is_killed(tmp_path, session):
    settings = vllm("--fake-deaf", "--fake-pids", tmp_path / "pids", *session, stop_s=0.5)
    with process(settings, tmp_path / "log") as server:
        server.start()
        url = server.base_url
        assert http_get(f"{url}/models", key=server.secret)[0] == 200
        assert all(is_alive(pid) for pid in pids(tmp_path / "pids"))
        began = time.monotonic()
    assert 0.5 <= time.monotonic() - began < 60
    assert not any(is_alive(pid) for pid in pids(tmp_path / "pids"))
    assert http_get(f"{url}/models")[0] == 0


def test_killing_the_launcher_ends_the_server(tmp_path):
    settings = vllm("--fake-deaf", "--fake-pids", tmp_path / "pids")
    with process(settings, tmp_path / "log") as server:
        server.start()
        pid, worker = pids(tmp_path / "pids")
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        wait_for(lambda: not is_alive(pid))
        assert "ended with status 137 (SIGKILL)" in server.exit_reason()
    wait_for(lambda: not is_alive(worker))


def test_port_shared_with_another_jobs_server_ends_the_start(tmp_path, monkeypatch):
    """Both take it, as vLLM's do, and the other one answers while the own one loads."""
    with process(vllm(revision="old"), tmp_path / "log") as other:
        other.start()
        assert http_get(f"{other.base_url}/models")[0] == 401
        shared = int(other.base_url.split(":")[2].split("/")[0])
        monkeypatch.setattr(vllm_module, "free_port", lambda: shared)
        with (
            process(vllm("--fake-load-s", 1, revision="new"), tmp_path / "log2") as server,
            pytest.raises(InputError, match="another program took the port"),
        ):
            server.start()


def test_server_that_dies_ends_the_run_immediately(tmp_path):
    pid_file = tmp_path / "pids"
    settings = vllm("--fake-die-after", 12, "--fake-pids", pid_file)
    began = time.monotonic()
    with pytest.raises(InputError) as caught:
        ask(settings, tmp_path / "store", 200)
    assert time.monotonic() - began < 20
    assert f"vllm serve {MODEL} ended with status 1" in str(caught.value)
    assert "EngineDeadError: CUDA error" in str(caught.value)
    assert "All answers so far are stored" in str(caught.value)
    n_stored = len(stored(tmp_path / "store"))
    assert 9 <= n_stored <= 12  # at most three were under way beside the one that killed it
    assert not any(is_alive(pid) for pid in pids(pid_file))
    _, totals = ask(vllm(), tmp_path / "store", 30)
    assert (totals.n_replies, totals.n_from_store) == (30 - n_stored, n_stored)


def test_sigterm_keeps_the_answers_and_stops_the_server(tmp_path):
    store, pid_file = tmp_path / "store", tmp_path / "pids"
    settings = vllm("--fake-delay-s", 0.05, "--fake-deaf", "--fake-pids", pid_file, stop_s=1.0)
    job = start_job(settings, store, 400)
    for _ in range(10):
        assert job.stdout.readline().endswith(" ok\n")
    job.send_signal(signal.SIGTERM)
    job.send_signal(signal.SIGTERM)  # batch systems send it again; it stops the server now
    out, err = job.communicate(timeout=300)
    assert job.returncode == STOPPED_STATUS, err
    assert "Traceback" not in err
    assert not any(is_alive(pid) for pid in pids(pid_file))
    n_stored = len(stored(store))
    assert 10 + out.count(" ok") <= n_stored < 400
    assert logs(store) == []
    _, totals = ask(vllm(), store, n_stored + 10)
    assert (totals.n_replies, totals.n_from_store) == (10, n_stored)


def test_sigterm_while_the_server_starts_stops_it(tmp_path):
    settings = vllm("--fake-load-s", 60, "--fake-pids", tmp_path / "pids")
    job = start_job(settings, tmp_path / "store", 5)
    running = pids(tmp_path / "pids")
    job.terminate()
    assert job.wait(timeout=300) == STOPPED_STATUS
    assert not any(is_alive(pid) for pid in running)
    assert logs(tmp_path / "store") == []
    job.communicate()


@pytest.mark.parametrize("load_s", [0, 60])
def test_killed_job_leaves_no_server_or_worker(tmp_path, load_s):
    settings = vllm(
        *("--fake-delay-s", 0.05, "--fake-load-s", load_s),
        *("--fake-pids", tmp_path / "pids", "--fake-own-session"),
    )
    job = start_job(settings, tmp_path / "store", 400)
    running = pids(tmp_path / "pids")
    if not load_s:
        job.stdout.readline()
    job.kill()
    job.communicate()
    wait_for(lambda: not any(is_alive(pid) for pid in running), timeout_s=60)
