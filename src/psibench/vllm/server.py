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
HOST = "127.0.0.1"
HTTP_S = 5.0
LAUNCHER_S = 15.0
"""How much longer than stop_s the launcher may take: it kills what does not stop."""

CPU_CACHE_BYTES = 2 << 30
"""Of keys and values, of a server without GPUs, where its arguments do not say it. vLLM's own
measure is a share of the machine's memory, which the job may not have."""
MOST_CHARS, MOST_NAMED, TAIL_LINES = 1000, 3, 12
_EXCEPTION = re.compile(
    r"(?:.*\bERROR [^]]*\] +|(?:\([^()]*pid=\d+[^()]*\) +)*)"
    r"((?:\w+\.)*\w+(?:Error|Exception): \S.*)"
)
"""A line of vLLM's log that is an exception, behind the process, date and place that wrote it."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

RESERVED = frozenset("--host --port --uds --model --revision --api-key --hf-token".split())
"""Arguments of `vllm serve` that are refused."""
_PARALLEL = frozenset(
    "--tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size -dp".split()
)
_MEMORY = frozenset({"--gpu-memory-utilization", "--kv-cache-memory-bytes"})


class VllmProcess:
    """A server of one model; a context manager that stops it, all its processes included.

    Entering starts nothing; `start` does. The server goes even when the job is killed. What it
    prints goes to ``log``, which is removed at the end unless something went wrong. ``base_url`` is
    its address up to ``/v1``, once started; ``secret`` the key that this server alone asks for;
    ``model`` its name there.

    Parameters
    ----------
    model, revision
        Name on the hub or folder, and which commit of it.

    Raises
    ------
    InputError
        If the settings hold arguments that are the job's to choose.
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
        self._command(0)  # its complaints come before any work
        self.base_url = ""
        self._is_log_told = False
        self.secret = Secret(secrets.token_hex(16))
        self._launcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "VllmProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if not self._is_log_told and (kind is None or not issubclass(kind, InputError)):
            self._log.unlink(missing_ok=True)

    def start(self, check_stop: Callable[[], None] = lambda: None) -> None:
        """Start the server and wait until it is healthy and serves the model.

        Raises
        ------
        InputError
            If it ends before, is not healthy in time, or serves another model; with what it
            said of the cause.
        Exception
            What ``check_stop`` raised because the job has to end.
        """
        began = time.monotonic()
        self._launch()
        self._await_health(began + self._server.start_s, check_stop)
        self._refuse_another()
        logger.info("vllm: healthy after %.0f s", time.monotonic() - began)

    def stop(self) -> None:
        """Stop the server, gently first; return once its processes are gone."""
        launcher = self._launcher
        if launcher is None:
            return
        deadline = time.monotonic() + self._server.stop_s + LAUNCHER_S
        if _status(launcher) is None:
            os.kill(launcher.pid, signal.SIGTERM)
        while _status(launcher) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):  # no one is left, unless it was killed
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
        self._launcher = None

    def exit_reason(self) -> str | None:
        """Say how the server ended, and of what; None while it runs."""
        status = None if self._launcher is None else _status(self._launcher)
        return None if status is None else self._words(f"ended with {status_words(status)}")

    def _launch(self) -> None:
        """Start `psibench.vllm.launcher`, which starts the server, in a session of its own.

        Ctrl-C in a terminal reaches this process alone, which stops the server. What it prints goes
        to a file, which takes any amount, while a full pipe blocks. VLLM_API_KEY is the key that
        the server asks for, whatever it is in the job. Programs beside this Python are found last,
        so that `vllm` of an environment that is not activated is, and `ninja` for it.
        """
        if not sys.platform.startswith("linux"):
            raise InputError("backend vllm needs Linux; start the server elsewhere, and ask it")
        folders = [os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]
        variables = {"PATH": os.pathsep.join(folders), "VLLM_API_KEY": self.secret.reveal()}
        port = free_port()
        program, *arguments = self._command(port)
        path = shutil.which(program, path=variables["PATH"])
        if path is None:
            raise InputError(
                f"{program}: no such program on PATH. Install vLLM in an environment of its own, "
                "and name its program in `vllm.command` of the model's entry (docs/vllm.md)"
            )
        # -P: nothing is imported from the working directory, which may hold a user's own files.
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
        self.base_url = f"http://{HOST}:{port}/v1"

    def _await_health(self, deadline: float, check_stop: Callable[[], None]) -> None:
        while time.monotonic() < deadline:
            if (words := self.exit_reason()) is not None:
                raise InputError(words)
            if http_get(self.base_url.removesuffix("/v1") + "/health")[0] == 200:
                return
            check_stop()
            time.sleep(POLL_S)
        start_s = self._server.start_s
        words = f"was not healthy within vllm.start_s = {start_s:g} s and was stopped"
        raise InputError(self._words(words))

    def _refuse_another(self) -> None:
        """Refuse another model, and another job's server at the port, which refuses the key."""
        status, body = http_get(f"{self.base_url}/models", key=self.secret)
        if status == 401:
            raise InputError(
                f"vllm: another program took the port of {self.base_url} first; run again"
            )
        try:
            names = [str(entry["id"]) for entry in json.loads(body)["data"]]
        except (ValueError, LookupError, TypeError):
            raise InputError(self._words(f"answers GET /v1/models with {status}")) from None
        if self.model not in names:
            raise InputError(
                f"vllm: asked for model {self.model!r}, and the server serves "
                f"{', '.join(map(repr, names))}. Set --served-model-name in vllm.arguments to "
                "`model`, or leave it out"
            )

    def _command(self, port: int) -> list[str]:
        return vllm_command(self.model, self._server, port, revision=self._revision)

    def _words(self, what: str) -> str:
        self._is_log_told = True
        if raised := exceptions_in(self._log):
            named = "\n  ".join(raised[:MOST_NAMED])
            return f"vllm serve {self.model} {what}.\n  {named}\nAll it printed: {self._log}"
        end = last_lines(self._log)
        return f"vllm serve {self.model} {what}. The end of {self._log}:\n{end}"


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


def log_name() -> str:
    """Return a name for a server's log: when it started, where, of which process."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"vllm-{moment}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}.log"


def vllm_command(
    model: str,
    server: VllmServer,
    port: int,
    *,
    revision: str | None = None,
) -> list[str]:
    """Return the command that serves a model on a port of this machine.

    Options as of vLLM's page "vllm serve" (docs.vllm.ai, CLI reference). The model is split over
    ``gpus`` GPUs by tensor parallelism, unless ``arguments`` say how to use them. Without GPUs the
    server's cache has `CPU_CACHE_BYTES`, unless arguments or VLLM_CPU_KVCACHE_SPACE say another.

    Raises
    ------
    InputError
        If the arguments hold one that is not the user's to choose.
    """
    # vLLM takes --max_model_len=8 for --max-model-len 8.
    named = (argument for argument in server.arguments if argument.startswith("-"))
    given = {option.split("=", 1)[0].replace("_", "-") for option in named}
    for name in sorted(given & RESERVED):
        raise InputError(
            f"{model}: vllm.arguments hold {name}: the job or another key of the entry decides it, "
            "or it is a secret (docs/vllm.md)"
        )
    command = [*server.command, model]
    if revision is not None:
        command += ["--revision", revision]
    command += ["--host", HOST, "--port", str(port)]
    if server.gpus > 1 and not given & _PARALLEL:
        command += ["--tensor-parallel-size", str(server.gpus)]
    if server.gpus == 0 and not given & _MEMORY and "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
        command += ["--kv-cache-memory-bytes", str(CPU_CACHE_BYTES)]
    return command + server.arguments


def exceptions_in(log: str | Path) -> list[str]:
    """Return the exceptions that a server's log names, each once, in order."""
    found = []
    for line, below in pairwise([*_printed(log), ""]):
        if (hit := _EXCEPTION.match(line)) is not None:
            more = f" {below.strip()}" if below.startswith("  ") else ""  # more of its words
            found.append((hit[1] + more)[:MOST_CHARS])
    return list(dict.fromkeys(found))


def last_lines(log: str | Path) -> str:
    """Return the end of what a server printed."""
    return "\n".join(line[:MOST_CHARS] for line in _printed(log)[-TAIL_LINES:])


def _printed(log: str | Path) -> list[str]:
    """Read what a server printed, without colours; where that cannot be read, a line on why."""
    try:
        text = Path(log).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return [f"(not readable: {error})"]
    return _COLOUR.sub("", text).strip().splitlines()


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
