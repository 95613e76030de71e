"""`vllm serve` as part of the job: started on a free port, waited for, and stopped with it.

vLLM shares its port with whoever asks for that (SO_REUSEPORT), so that servers of two jobs that
start at once may have one, and each gets some of the other's requests. Hence every server has a key
of its own, which it asks for with every request (VLLM_API_KEY): another job's server refuses, and
no answer comes from another model or revision.
"""

import contextlib
import json
import logging
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from psibench.errors import InputError
from psibench.llm.secret import Secret
from psibench.llm.sections import LlmSettings

logger = logging.getLogger("psibench")

MAX_PORTS = 5
POLL_S = 0.2
TELL_EVERY_S = 60.0
TAIL_LINES, TAIL_CHARS = 30, 4000
PORT_TAKEN = ("address already in use", "errno 98")
HOST = "127.0.0.1"
HTTP_S = 5.0
TAIL_BYTES = 1 << 16
LAUNCHER_S = 15.0
"""How much longer than stop_s the launcher may take: it kills what does not stop."""

RESERVED = {
    "--host": "the job chooses it",
    "--port": "the job chooses a free one",
    "--uds": "the job asks over a port",
    "--model": "set `model`",
    "--revision": "set `revision`: it is part of every request's key",
    "--api-key": "the job's server has a key of the job's, and secrets are no config",
    "--hf-token": "secrets are no config; export HF_TOKEN",
}
"""Arguments of `vllm serve` that are refused, and what to do instead."""

_PARALLEL = frozenset(
    "--tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size -dp".split()
)


class VllmProcess:
    """A server of one model; a context manager that stops it, all its processes included.

    Entering starts nothing; `start` does. The server goes even when the job is killed. What it
    prints goes to ``log``, which is removed at the end unless something went wrong. ``base_url`` is
    its address up to ``/v1``, once started; ``secret`` the key that this server alone asks for.

    Raises
    ------
    InputError
        If the settings hold arguments that are the job's to choose.
    """

    def __init__(self, settings: LlmSettings, *, log: str | Path) -> None:
        vllm_command(settings, 0)  # its complaints come before any work
        self.base_url = ""
        self.secret = Secret(secrets.token_hex(16))
        self._settings, self._log = settings, Path(log)
        self._launcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "VllmProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None or not issubclass(kind, InputError):
            self._log.unlink(missing_ok=True)

    def start(self, check_stop: Callable[[], None] = lambda: None) -> None:
        """Start the server and wait until it is healthy and serves the model.

        Raises
        ------
        InputError
            If it ends before, is not healthy in time, or serves another model; with its last
            lines.
        Exception
            What ``check_stop`` raised because the job has to end.
        """
        began = time.monotonic()
        for _ in range(MAX_PORTS):
            port = self._launch()
            deadline = began + self._settings.vllm.start_s
            if self._is_healthy_by(deadline, check_stop) and self._is_own():
                logger.info("vllm: healthy after %.0f s", time.monotonic() - began)
                return
            logger.warning("vllm: another program took port %d; trying another", port)
            self.stop()
        raise InputError(f"vllm: the port was taken before the server in {MAX_PORTS} tries")

    def stop(self) -> None:
        """Stop the server, gently first; return once its processes are gone."""
        launcher = self._launcher
        if launcher is None:
            return
        deadline = time.monotonic() + self._settings.vllm.stop_s + LAUNCHER_S
        if _status(launcher) is None:
            os.kill(launcher.pid, signal.SIGTERM)
        while _status(launcher) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):  # no one is left, unless it was killed
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
        self._launcher = None

    def obituary(self) -> str | None:
        """Say how the server ended, with its last lines; None while it runs."""
        status = None if self._launcher is None else _status(self._launcher)
        return None if status is None else self._words(f"ended with {status_words(status)}")

    def _launch(self) -> int:
        """Start `psibench.llm.launcher`, which starts the server, in a session of its own.

        Ctrl-C in a terminal reaches this process alone, which stops the server. What it prints goes
        to a file, which takes any amount, while a full pipe blocks. VLLM_API_KEY is the key that
        the server asks for, whatever it is in the job. Programs beside this Python are found last,
        so that `vllm` of an environment that is not activated is, and `ninja` for it.
        """
        if not sys.platform.startswith("linux"):
            raise InputError("backend vllm needs Linux; start the server elsewhere, and ask it")
        folders = [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
        own = {"PATH": os.pathsep.join(folders), "VLLM_API_KEY": self.secret.reveal()}
        port = free_port()
        program, *arguments = vllm_command(self._settings, port)
        path = shutil.which(program, path=own["PATH"])
        if path is None:
            raise InputError(
                f"{program}: no such program on PATH. Install it (pip install 'psibench[vllm]', "
                "on a machine with CUDA), or name it in `vllm.command` of the model's entry"
            )
        launcher = [sys.executable, "-m", "psibench.llm.launcher", str(os.getpid())]
        command = [path, *arguments]
        logger.info("vllm: starting %s; output in %s", shlex.join(command), self._log)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("wb") as out:
                self._launcher = subprocess.Popen(
                    [*launcher, str(self._settings.vllm.stop_s), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=os.environ | own,
                    start_new_session=True,
                )
        except OSError as error:
            raise InputError(f"vllm: cannot be started: {error}") from error
        self.base_url = f"http://{HOST}:{port}/v1"
        return port

    def _is_healthy_by(self, deadline: float, check_stop: Callable[[], None]) -> bool:
        """Wait for health; False if the server ended because the port was taken."""
        told = time.monotonic()
        while time.monotonic() < deadline:
            if (words := self.obituary()) is not None:
                if any(hint in words.lower() for hint in PORT_TAKEN):
                    return False
                raise InputError(words)
            if http_get(self.base_url.removesuffix("/v1") + "/health")[0] == 200:
                return True
            if time.monotonic() - told >= TELL_EVERY_S:
                told = time.monotonic()
                logger.info("vllm: still starting: %s", "".join(self._tail().splitlines()[-1:]))
            check_stop()
            time.sleep(POLL_S)
        start_s = self._settings.vllm.start_s
        words = f"was not healthy within vllm.start_s = {start_s:g} s and was stopped"
        raise InputError(self._words(words))

    def _is_own(self) -> bool:
        """Check what is served; False if another job's server answers, which refuses the key."""
        status, body = http_get(f"{self.base_url}/models", key=self.secret)
        if status == 401:
            return False
        try:
            names = [str(entry["id"]) for entry in json.loads(body)["data"]]
        except (ValueError, LookupError, TypeError):
            raise InputError(self._words(f"answers GET /v1/models with {status}")) from None
        if self._settings.model not in names:
            raise InputError(
                f"vllm: asked for model {self._settings.model!r}, and the server serves "
                f"{', '.join(map(repr, names))}. Set --served-model-name in vllm.arguments to "
                "`model`, or leave it out"
            )
        return True

    def _words(self, what: str) -> str:
        end = "\n".join(self._tail().splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]
        return f"vllm serve {self._settings.model} {what}. The end of {self._log}:\n{end}"

    def _tail(self) -> str:
        """Return the end of what the server printed."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read().decode("utf-8", "replace").strip()
        except OSError as error:
            return f"(not readable: {error})"


def _status(launcher: "subprocess.Popen[bytes]") -> int | None:
    """Return the exit status, 128 + N after signal N; None while it runs.

    It is not reaped: to stop it, the number of the process group has to stay taken.
    """
    if launcher.returncode is not None:
        return launcher.returncode
    state = os.waitid(os.P_PID, launcher.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if state is None:
        return None
    return state.si_status + (0 if state.si_code == os.CLD_EXITED else 128)


def status_words(status: int) -> str:
    """Return an exit status in words, as in `status 137 (SIGKILL)`."""
    try:
        return f"status {status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return f"status {status}"


def vllm_command(settings: LlmSettings, port: int) -> list[str]:
    """Return the command that serves a model on a port of this machine.

    Options as of vLLM's page "vllm serve" (docs.vllm.ai, CLI reference). The model is split over
    ``vllm.gpus`` GPUs by tensor parallelism, unless ``vllm.arguments`` say how to use them.

    Raises
    ------
    InputError
        If the arguments hold one that is not the user's to choose.
    """
    vllm = settings.vllm
    # vLLM takes --max_model_len=8 for --max-model-len 8.
    options = (argument for argument in vllm.arguments if argument.startswith("-"))
    given = {option.split("=", 1)[0].replace("_", "-") for option in options}
    for name in sorted(given & RESERVED.keys()):
        raise InputError(f"{settings.model}: vllm.arguments hold {name}: {RESERVED[name]}")
    command = [*vllm.command, settings.model]
    if settings.revision is not None:
        command += ["--revision", settings.revision]
    command += ["--host", HOST, "--port", str(port)]
    if vllm.gpus > 1 and not given & _PARALLEL:
        command += ["--tensor-parallel-size", str(vllm.gpus)]
    return command + vllm.arguments


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def http_get(url: str, *, key: Secret | None = None) -> tuple[int, bytes]:
    """Return status and body of a GET past all proxies; status 0 if no one answers."""
    import httpx2

    try:
        headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        reply = httpx2.get(url, headers=headers, timeout=HTTP_S, trust_env=False)
        return reply.status_code, reply.content
    except httpx2.HTTPError:
        return 0, b""
