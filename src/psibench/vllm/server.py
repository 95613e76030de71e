"""`vllm serve` as a part of the job: started on a free port, awaited, and stopped with the job.

vLLM opens its port with SO_REUSEPORT, so that two servers that start at the same time may share a
port, and each receives some of the other's requests. Every server therefore has a random key, which
it demands with every request (VLLM_API_KEY): another job's server refuses, and no answer comes from
another model or revision.
"""

import contextlib
import json
import logging
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from psibench.config.secrets import Secret
from psibench.config.sections import VllmServer
from psibench.errors import InputError

logger = logging.getLogger("psibench")

POLL_S = 0.2
_LOOPBACK = "127.0.0.1"
HTTP_S = 5.0
LAUNCHER_S = 15.0
"""Seconds beyond stop_s that the launcher may take to kill processes that do not stop."""

CPU_CACHE_BYTES = 2 << 30
"""Size of the key-value cache of a server without GPUs, unless its arguments set it. vLLM's default
is a share of the machine's memory, which the job may not have."""
NO_PROGRAM = (
    "no such program on PATH. `psibench vllm-env FOLDER` makes an environment with vLLM; name its "
    "program in `vllm.command` of the model's entry (docs/vllm.md)"
)
_MOST_LINE_CHARS, MOST_NAMED, TAIL_LINES = 1000, 3, 12
_EXCEPTION = re.compile(
    r"(?:.*\bERROR [^]]*\] +|(?:\([^()]*pid=\d+[^()]*\) +)*)"
    r"((?:\w+\.)*\w+(?:Error|Exception): \S.*)"
)
"""An exception in vLLM's log, after the process, date and source line that logged it."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

RESERVED = frozenset("--host --port --uds --model --revision --api-key --hf-token".split())
"""Arguments of `vllm serve` that are refused."""
_PARALLEL = frozenset(
    "--tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size -dp".split()
)
_MEMORY = frozenset({"--gpu-memory-utilization", "--kv-cache-memory-bytes"})


class VllmProcess:
    """A server of one model; a context manager that stops it with all its processes.

    Entering starts nothing; `start` does. The server ends even if the job is killed. Its output
    goes to ``log``, which is removed at the end unless something went wrong. ``base_url`` is its
    address up to ``/v1``, once started; ``secret`` the key that only this server accepts; ``model``
    its name there.

    Parameters
    ----------
    model, revision
        Hub name or folder, and the commit.

    Raises
    ------
    InputError
        If the settings have arguments that the job sets.
    """

    def __init__(
        self,
        model: str,
        server: VllmServer,
        *,
        log: str | Path,
        revision: str | None = None,
    ) -> None:
        self.model, self._server, self._log = model, server, Path(log)
        self._revision = revision
        self._command(0)  # raises InputError before any work is done
        self.base_url = ""
        self._is_log_reported = False
        self.secret = Secret(secrets.token_hex(16))
        self._launcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "VllmProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if not self._is_log_reported and (kind is None or not issubclass(kind, InputError)):
            self._log.unlink(missing_ok=True)

    def start(self, check_stop: Callable[[], None] = lambda: None) -> None:
        """Start the server and wait until it is healthy and serves the model.

        Raises
        ------
        InputError
            If it ends, is not healthy in time, or serves another model; with the cause from its
            log.
        Exception
            From ``check_stop``, because the job has to end.
        """
        began = time.monotonic()
        self._launch()
        self._await_health(began + self._server.start_s, check_stop)
        self._refuse_another()
        logger.info("vllm: healthy after %.0f s", time.monotonic() - began)

    def stop(self) -> None:
        """Stop the server, first by SIGTERM; return once its processes are gone."""
        launcher = self._launcher
        if launcher is None:
            return
        deadline = time.monotonic() + self._server.stop_s + LAUNCHER_S
        if _status(launcher) is None:
            os.kill(launcher.pid, signal.SIGTERM)
        while _status(launcher) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):  # processes remain if the launcher was killed
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
        self._launcher = None

    def exit_reason(self) -> str | None:
        """Return how the server ended, and the cause; None while it runs."""
        status = None if self._launcher is None else _status(self._launcher)
        return None if status is None else self._message(f"ended with {status_words(status)}")

    def _launch(self) -> None:
        """Start `psibench.vllm.launcher`, which starts the server, in a new session.

        Ctrl-C in a terminal then reaches only this process, which stops the server. Output goes to
        a file, because a full pipe would block. VLLM_API_KEY is the server's key, whatever the
        job's environment has. The folder of this Python is last on PATH, so that `vllm` and its
        `ninja` are found in an environment that is not activated.
        """
        if not sys.platform.startswith("linux"):
            raise InputError(
                "backend vllm needs Linux; start the server on another machine and use "
                "`backend: openai` with its address (docs/vllm.md)"
            )
        variables = {"PATH": search_path(), "VLLM_API_KEY": self.secret.reveal()}
        port = free_port()
        program, *arguments = self._command(port)
        path = shutil.which(program, path=variables["PATH"])
        if path is None:
            raise InputError(f"{program}: {NO_PROGRAM}")
        # -P: imports nothing from the working directory, which may have files of the same name.
        launcher = [sys.executable, "-P", "-m", "psibench.vllm.launcher", str(os.getpid())]
        inherited = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
        command = [path, *arguments]
        logger.info("vllm: starting %s; output in %s", shlex.join(command), self._log)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("wb") as out:
                self._launcher = subprocess.Popen(
                    [*launcher, str(self._server.stop_s), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=inherited | variables,
                    start_new_session=True,
                )
        except OSError as error:
            raise InputError(f"vllm: cannot be started: {error}") from error
        self.base_url = f"http://{_LOOPBACK}:{port}/v1"

    def _await_health(self, deadline: float, check_stop: Callable[[], None]) -> None:
        while time.monotonic() < deadline:
            if (message := self.exit_reason()) is not None:
                raise InputError(message)
            if http_get(self.base_url.removesuffix("/v1") + "/health")[0] == 200:
                return
            check_stop()
            time.sleep(POLL_S)
        start_s = self._server.start_s
        event = f"was not healthy within vllm.start_s = {start_s:g} s and was stopped"
        raise InputError(self._message(event))

    def _refuse_another(self) -> None:
        """Raise InputError if the port belongs to another job's server, or the model is another."""
        status, body = http_get(f"{self.base_url}/models", key=self.secret)
        if status == 401:
            raise InputError(
                f"vllm: another program took the port of {self.base_url} first; run again"
            )
        try:
            names = [str(entry["id"]) for entry in json.loads(body)["data"]]
        except (ValueError, LookupError, TypeError):
            raise InputError(self._message(f"answers GET /v1/models with {status}")) from None
        if self.model not in names:
            raise InputError(
                f"vllm: requested the model {self.model!r}, but the server serves "
                f"{', '.join(map(repr, names))}. Set --served-model-name in vllm.arguments to "
                "the entry's `model`, or remove it"
            )

    def _command(self, port: int) -> list[str]:
        return vllm_command(self.model, self._server, port, revision=self._revision)

    def _message(self, event: str) -> str:
        self._is_log_reported = True
        if raised := exceptions_in(self._log):
            named = "\n  ".join(raised[:MOST_NAMED])
            return f"vllm serve {self.model} {event}.\n  {named}\nFull output: {self._log}"
        end = last_lines(self._log)
        return f"vllm serve {self.model} {event}. The end of {self._log}:\n{end}"


def _status(launcher: "subprocess.Popen[bytes]") -> int | None:
    """Return the exit status, 128 + N after signal N; None while the launcher runs.

    The launcher is not reaped, because its process group id must stay reserved until it is stopped.
    """
    if launcher.returncode is not None:
        return launcher.returncode
    state = os.waitid(os.P_PID, launcher.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if state is None:
        return None
    return state.si_status + (0 if state.si_code == os.CLD_EXITED else 128)


def status_words(status: int) -> str:
    """Return an exit status in words, e.g. `status 137 (SIGKILL)`."""
    try:
        return f"status {status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return f"status {status}"


def log_name() -> str:
    """Return a name for a server's log: time, host, process id and random digits."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"vllm-{moment}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}.log"


def search_path() -> str:
    """Return the folders in which the job looks for a server's program."""
    folders = [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    return os.pathsep.join(folders)


def vllm_command(
    model: str,
    server: VllmServer,
    port: int,
    *,
    revision: str | None = None,
) -> list[str]:
    """Return the command that serves a model on a port of this machine.

    Options follow vLLM's page "vllm serve" (docs.vllm.ai, CLI reference). The model is split over
    ``gpus`` GPUs by tensor parallelism, unless ``arguments`` set the parallelism. Without GPUs the
    server's cache has `CPU_CACHE_BYTES`, unless arguments or VLLM_CPU_KVCACHE_SPACE set it.

    Raises
    ------
    InputError
        If the user may not set one of the arguments.
    """
    # vLLM accepts --max_model_len=8 as --max-model-len 8.
    options = (argument for argument in server.arguments if argument.startswith("-"))
    given = {option.split("=", 1)[0].replace("_", "-") for option in options}
    for name in sorted(given & RESERVED):
        raise InputError(
            f"{model}: vllm.arguments has {name}, which is set by the job or another key of the "
            "entry, or is a secret; remove it (docs/vllm.md)"
        )
    command = [*server.command, model]
    if revision is not None:
        command += ["--revision", revision]
    command += ["--host", _LOOPBACK, "--port", str(port)]
    if server.gpus > 1 and not given & _PARALLEL:
        command += ["--tensor-parallel-size", str(server.gpus)]
    if server.gpus == 0 and not given & _MEMORY and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
        command += ["--kv-cache-memory-bytes", str(CPU_CACHE_BYTES)]
    return command + server.arguments


def exceptions_in(log: str | Path) -> list[str]:
    """Return the exceptions in a server's log, each once, in order."""
    found = []
    for line, below in pairwise([*_printed(log), ""]):
        if (hit := _EXCEPTION.match(line)) is not None:
            more = f" {below.strip()}" if below.startswith("  ") else ""  # a continued message
            found.append((hit[1] + more)[:_MOST_LINE_CHARS])
    return list(dict.fromkeys(found))


def last_lines(log: str | Path) -> str:
    """Return the end of a server's output."""
    return "\n".join(line[:_MOST_LINE_CHARS] for line in _printed(log)[-TAIL_LINES:])


def _printed(log: str | Path) -> list[str]:
    """Return the lines of a server's output, without colours; if unreadable, the reason."""
    try:
        text = Path(log).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return [f"(not readable: {error})"]
    return _COLOUR.sub("", text).strip().splitlines()


def free_port() -> int:
    """Return a port that is currently free."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])


def http_get(url: str, *, key: Secret | None = None) -> tuple[int, bytes]:
    """Return status and body of a GET without proxies; status 0 if there is no answer."""
    import httpx2

    try:
        headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        reply = httpx2.get(url, headers=headers, timeout=HTTP_S, trust_env=False)
        return reply.status_code, reply.content
    except httpx2.HTTPError:
        return 0, b""
