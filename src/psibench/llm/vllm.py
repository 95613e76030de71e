"""`vllm serve` as part of the job: started on a free port, waited for, and stopped with it."""

import asyncio
import contextlib
import json
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from psibench.config.llms import LlmSettings
from psibench.errors import InputError
from psibench.llm.client import ChatClient, OpenAIChatClient, Reply
from psibench.llm.request import Request
from psibench.llm.usage import Budget

logger = logging.getLogger("psibench")

MAX_PORTS = 5
POLL_S = 0.2
TELL_EVERY_S = 60.0
TAIL_LINES, TAIL_CHARS = 30, 4000
PORT_TAKEN = ("address already in use", "errno 98")
LOG_FOLDER = "logs"
HOST = "127.0.0.1"
HTTP_S = 5.0
CLAIMS = 100
TAIL_BYTES = 1 << 16
LAUNCHER_S = 15.0
"""How much longer than stop_s the launcher may take: it kills what does not stop."""

RESERVED = {
    "--host": "the job chooses it",
    "--port": "the job chooses a free one",
    "--uds": "the job asks over a port",
    "--model": "set `model`",
    "--revision": "set `revision`: it is part of every request's key",
    "--api-key": "a server that only this machine reaches needs none, and secrets are no config",
    "--hf-token": "secrets are no config; export HF_TOKEN",
}
"""Arguments of `vllm serve` that are refused, and what to do instead."""

_PARALLEL = frozenset(
    {
        *("--tensor-parallel-size", "-tp"),
        *("--pipeline-parallel-size", "-pp"),
        *("--data-parallel-size", "-dp"),
    }
)


class VllmProcess:
    """A server of one model; a context manager that stops it, all its processes included.

    Entering starts nothing; `start` does. The server goes even when the job is killed.

    Parameters
    ----------
    settings
        Model, revision, and the ``vllm`` section.
    log
        File for what the server prints. Removed at the end unless something went wrong.

    Attributes
    ----------
    base_url
        Address up to ``/v1``, once started.

    Raises
    ------
    InputError
        If the settings hold arguments that are the job's to choose.
    """

    def __init__(self, settings: LlmSettings, *, log: str | Path) -> None:
        vllm_command(settings, 0)  # its complaints come before any work
        self.base_url = ""
        self._settings, self._log = settings, Path(log)
        self._server: Launched | None = None
        self._claim: PortClaim | None = None
        self._has_failed = False
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def __enter__(self) -> "VllmProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        is_failure = kind is not None and issubclass(kind, Exception)
        if not self._has_failed and not is_failure:
            self._log.unlink(missing_ok=True)

    def start(self) -> None:
        """Start the server and wait until it is healthy and serves the model.

        Raises
        ------
        InputError
            If it ends before, is not healthy in time, or serves another model; with its last
            lines. It has been stopped then.
        """
        began = time.monotonic()
        try:
            for _ in range(MAX_PORTS):
                port = self._launch()
                if self._is_healthy_by(began + self._settings.vllm.start_s):
                    self._check_model()
                    logger.info("vllm: healthy after %.0f s", time.monotonic() - began)
                    return
                logger.warning("vllm: another program took port %d; trying another", port)
                self._stop_server()
            raise InputError(f"vllm: the port was taken before the server in {MAX_PORTS} tries")
        except InputError:
            self._has_failed = not self._is_over.is_set()
            self._stop_server()
            raise

    def interrupt(self) -> None:
        """Break off a start that is under way in another thread."""
        self._is_over.set()

    def stop(self) -> None:
        """Stop the server for good, gently first; return once its processes are gone."""
        self.interrupt()
        self._stop_server()

    def obituary(self) -> str | None:
        """Say how the server ended, with its last lines; None while it runs."""
        server = self._server
        status = None if server is None else server.status()
        if status is None:
            return None
        self._has_failed = True
        return self._words(f"ended with {status_words(status)}")

    def _launch(self) -> int:
        environment, stop_s = vllm_environment(), self._settings.vllm.stop_s
        with self._lock:
            if self._is_over.is_set():
                raise InputError("vllm: told to stop before it started")
            try:
                self._claim = PortClaim()
                port = self._claim.port
                command = found_program(vllm_command(self._settings, port), environment)
                logger.info("vllm: starting %s; output in %s", shlex.join(command), self._log)
                self._server = Launched(
                    command, log=self._log, environment=environment, stop_s=stop_s
                )
            except OSError as error:
                raise InputError(f"vllm: cannot be started: {error}") from error
        self.base_url = f"http://{HOST}:{port}/v1"
        return port

    def _is_healthy_by(self, deadline: float) -> bool:
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
            if self._is_over.wait(POLL_S):
                raise InputError("vllm: told to stop while it started")
        start_s = self._settings.vllm.start_s
        words = f"was not healthy within vllm.start_s = {start_s:g} s and was stopped"
        raise InputError(self._words(words))

    def _check_model(self) -> None:
        status, body = http_get(f"{self.base_url}/models")
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

    def _words(self, what: str) -> str:
        end = "\n".join(self._tail().splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]
        return f"vllm serve {self._settings.model} {what}. The end of {self._log}:\n{end}"

    def _tail(self) -> str:
        return "" if self._server is None else self._server.tail()

    def _stop_server(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.stop()
                self._server = None
            if self._claim is not None:
                self._claim.close()
                self._claim = None


class VllmClient:
    """Starts the server with the first request, asks it, and says so when it is gone.

    A run whose answers are all stored starts no server.
    """

    def __init__(self, settings: LlmSettings, server: VllmProcess, budget: Budget | None) -> None:
        self._settings, self._server, self._budget = settings, server, budget
        self._starting: asyncio.Task[OpenAIChatClient] | None = None

    async def ask(self, request: Request) -> Reply:
        """Return the reply to a request; the server's start is not timed.

        Raises
        ------
        TryFailedError
            As `OpenAIChatClient.ask`.
        InputError
            If the server does not start, or has ended.
        """
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        client = await asyncio.shield(self._starting)  # one asker that goes does not stop it
        return await client.ask(request)

    async def close(self) -> None:
        """Close all connections; the server is stopped by who made it."""
        self._server.interrupt()
        if self._starting is None:
            return
        self._starting.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await (await self._starting).close()

    async def _start(self) -> OpenAIChatClient:
        await asyncio.to_thread(self._server.start)
        return OpenAIChatClient(
            self._settings,
            base_url=self._server.base_url,
            budget=self._budget,
            obituary=self._server.obituary,
        )


@contextlib.contextmanager
def vllm_clients(
    settings: LlmSettings, *, store: str | Path
) -> Iterator[Callable[[Budget | None], ChatClient]]:
    """Give what makes the client of a run; stop the server at the end, however it comes about.

    The server's output goes to ``logs/`` in the store's folder; it is kept if something fails.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"vllm-{moment}-{socket.gethostname()}-{os.getpid()}.log"
    with VllmProcess(settings, log=Path(store) / LOG_FOLDER / name) as server:
        yield lambda budget: VllmClient(settings, server, budget)


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
    given = _option_names(vllm.arguments)
    for name in sorted(given & RESERVED.keys()):
        raise InputError(f"{settings.model}: vllm.arguments hold {name}: {RESERVED[name]}")
    command = [*vllm.command, settings.model]
    if settings.revision is not None:
        command += ["--revision", settings.revision]
    command += ["--host", HOST, "--port", str(port)]
    if vllm.gpus > 1 and not given & _PARALLEL:
        command += ["--tensor-parallel-size", str(vllm.gpus)]
    return command + vllm.arguments


def vllm_environment() -> dict[str, str]:
    """Return the job's environment, as the server gets it.

    VLLM_API_KEY is left out: with it the server asks for a key. Programs beside this Python are
    found last, so that `vllm` of an environment that is not activated is, and `ninja` for it.
    """
    environment = {k: v for k, v in os.environ.items() if k != "VLLM_API_KEY"}
    folders = [environment.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    return environment | {"PATH": os.pathsep.join(folders)}


def found_program(command: list[str], environment: dict[str, str]) -> list[str]:
    """Return a command with the program's full path.

    Raises
    ------
    InputError
        If there is no such program, or this is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise InputError("backend vllm needs Linux; start the server elsewhere, and ask it")
    path = shutil.which(command[0], path=environment["PATH"])
    if path is None:
        raise InputError(
            f"{command[0]}: no such program on PATH. Install it (pip install 'psibench[vllm]', "
            "on a machine with CUDA), or name it in `vllm.command` of the model's entry"
        )
    return [path, *command[1:]]


def _option_names(arguments: Iterable[str]) -> set[str]:
    """Names as vLLM reads them: it takes ``--max_model_len=8`` for ``--max-model-len 8``."""
    return {a.split("=", 1)[0].replace("_", "-") for a in arguments if a.startswith("-")}


class Launched:
    """A command that runs, started by `psibench.llm.launcher` in a session of its own.

    Ctrl-C in a terminal reaches this process alone, which stops the command.

    Parameters
    ----------
    command
        Program with its full path, and arguments.
    log
        File that what it prints goes to: a file takes any amount, while a full pipe blocks.
    environment
        All of its environment.
    stop_s
        Time it has to end after SIGTERM, before it is killed.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(
        self, command: list[str], *, log: Path, environment: Mapping[str, str], stop_s: float
    ) -> None:
        self._log, self._stop_s = log, stop_s
        launcher = [sys.executable, "-m", "psibench.llm.launcher", str(os.getpid()), str(stop_s)]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            self._launcher = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def status(self) -> int | None:
        """Return the exit status, 128 + N after signal N; None while it runs."""
        if self._launcher.returncode is not None:
            return self._launcher.returncode
        # Not reaped: `stop` needs the number of the process group to stay taken.
        state = os.waitid(os.P_PID, self._launcher.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return state.si_status + (0 if state.si_code == os.CLD_EXITED else 128)

    def stop(self) -> None:
        """End all its processes, gently first; return once they are gone."""
        if self._launcher.returncode is not None:
            return
        deadline = time.monotonic() + self._stop_s + LAUNCHER_S
        if self.status() is None:
            os.kill(self._launcher.pid, signal.SIGTERM)
        while self.status() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):  # no one is left, unless it was killed
            os.killpg(self._launcher.pid, signal.SIGKILL)
        self._launcher.wait()

    def tail(self) -> str:
        """Return the end of what it printed."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read().decode("utf-8", "replace").strip()
        except OSError as error:
            return f"(not readable: {error})"


def status_words(status: int) -> str:
    """Return an exit status in words, as in `status 137 (SIGKILL)`."""
    try:
        return f"status {status} ({signal.Signals(status - 128).name})"
    except ValueError:
        return f"status {status}"


class PortClaim:
    """A free port that no other claim on this machine holds, until it is closed.

    The port is free when it is looked for, and its server takes it seconds later. A name in the
    kernel's list of abstract sockets (``unix(7)``, Linux) keeps other claims away meanwhile, of
    any user: servers that share ports (SO_REUSEPORT) would otherwise both take it, and each get
    some of the other's requests. A program without a claim can still be faster.

    Raises
    ------
    OSError
        If no port is free.
    """

    def __init__(self) -> None:
        for _ in range(CLAIMS):
            self.port = free_port()
            self._name = socket.socket(socket.AF_UNIX)
            try:
                self._name.bind(f"\0psibench-port-{self.port}")
                return
            except OSError:
                self._name.close()
        raise OSError(f"{CLAIMS} free ports are all claimed")

    def close(self) -> None:
        """Give it up."""
        self._name.close()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def http_get(url: str) -> tuple[int, bytes]:
    """Return status and body of a GET past all proxies; status 0 if no one answers."""
    import httpx2

    try:
        reply = httpx2.get(url, timeout=HTTP_S, trust_env=False)
        return reply.status_code, reply.content
    except httpx2.HTTPError:
        return 0, b""
