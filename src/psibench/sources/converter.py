"""Conversion of documents in a separate process with limits of memory and time.

A file may make a library use all memory, run forever or abort. The process then ends, and the file
counts as bad. One process converts file after file; it is restarted after it has ended.
"""

import atexit
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.sources.convert import CONVERTERS, PagedText

logger = logging.getLogger("psibench")
MOST_MEMORY_BYTES = 2 << 30
"""Limit of address space, on systems that enforce one (macOS does not). A DOCX of `MOST_XML_BYTES`
needs half of it."""
MOST_SECONDS = 300.0
"""Limit of time per file; PDFium reads a thousand pages in ten seconds."""
_SERVE_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from psibench.sources.converter import serve; serve(int(sys.argv[2]), float(sys.argv[3]))"
)


def convert(path: Path, suffix: str) -> str:
    """Return the text of a document; for a PDF a `PagedText`.

    Raises
    ------
    InputError
        If it cannot be read, or needs more than `MOST_MEMORY_BYTES` or `MOST_SECONDS`.
    ModuleNotFoundError
        If the library for such files is not installed.
    """
    return _converter().convert(path, suffix)


@cache
def _converter() -> "Converter":
    converter = Converter()
    atexit.register(converter.stop)
    return converter


class Converter:
    """A client of the process that converts documents."""

    def __init__(
        self, *, memory_bytes: int = MOST_MEMORY_BYTES, timeout_s: float = MOST_SECONDS
    ) -> None:
        self.memory_bytes, self.timeout_s = memory_bytes, timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def convert(self, path: Path, suffix: str) -> str:
        """Return the text of a document; see `convert`."""
        if self._process is not None and self._process.poll() is not None:
            self.stop()  # something else ended it after the last file
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([os.getcwd(), str(path), suffix]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line.endswith(b"\n"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
            self.stop()
            is_late = process.returncode == -signal.SIGALRM
            raise InputError(
                f"{path}: its conversion "
                + (
                    f"took more than {self.timeout_s:g} s"
                    if is_late
                    else f"ended with code {process.returncode}; it needs more than "
                    f"{self.memory_bytes / 2**30:g} GiB, or the file is damaged"
                )
                + ". Remove the file, or open it and save it again"
            )
        reply = json.loads(line)
        for warned in reply.get("warnings", ()):
            logger.warning("%s: %s", path, warned)
        return _text_of(reply)

    def _start(self) -> subprocess.Popen[bytes]:
        folders = json.dumps([os.path.abspath(folder) for folder in sys.path])
        limits = [str(self.memory_bytes), str(self.timeout_s)]
        command = [sys.executable, "-I", "-c", _SERVE_CODE, folders, *limits]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process

    def stop(self) -> None:
        """End the process if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _text_of(reply: dict[str, Any]) -> str:
    if "missing" in reply:
        raise ModuleNotFoundError(reply["error"], name=reply["missing"])
    if "error" in reply:
        raise InputError(reply["error"])
    if "page_starts" not in reply:
        return str(reply["text"])
    paged = PagedText(reply["text"])
    paged.page_starts = reply["page_starts"]
    return paged


def serve(memory_bytes: int, timeout_s: float) -> None:
    """Convert the files named on standard input, one per line; print answers as lines of JSON.

    A file that takes too long ends the process, even if the client has ended.
    """
    # Redirect the libraries' own output, so that it does not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    _bound_memory(memory_bytes)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    for line in sys.stdin:
        folder, path, suffix = json.loads(line)
        os.chdir(folder)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        answer = _answer(Path(path), suffix)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _bound_memory(n_bytes: int) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        n_bytes = min(n_bytes, hard)
    with suppress(ValueError, OSError):  # macOS refuses all limits
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(path: Path, suffix: str) -> dict[str, Any]:
    noted = _Noted()
    logging.getLogger().addHandler(noted)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            text = CONVERTERS[suffix](path)
    except InputError as error:
        return {"error": str(error)}
    except ModuleNotFoundError as error:
        return {"error": str(error), "missing": error.name}
    except MemoryError:
        return {"error": f"{path}: its conversion needs too much memory; split or remove the file"}
    except Exception as error:  # a library's error on an unknown file
        return {"error": f"{path}: cannot be converted ({type(error).__name__}: {error})"}
    finally:
        logging.getLogger().removeHandler(noted)
    found = [*noted.messages, *(str(one.message) for one in warned)]
    reply: dict[str, Any] = {"text": str(text)}
    if isinstance(text, PagedText):
        reply["page_starts"] = text.page_starts
    if found:
        reply["warnings"] = list(dict.fromkeys(one.strip().split("\n")[0] for one in found))
    return reply


class _Noted(logging.Handler):
    """Collects the warnings that a library logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
