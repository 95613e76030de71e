"""The stand-in server as a child process that ends with its parent."""

import os
import subprocess
import sys
import tempfile
from types import TracebackType

from psibench.errors import InputError

STOP_S = 5.0


class StandInProcess:
    """Start the stand-in on a free port; use as a context manager.

    Parameters
    ----------
    imperfections
        Options as in ``malformed=0.2,delay_s=0.05``; an empty string for none.
    port
        0 takes a free one. A fixed one lets a server be stopped and another take its place.

    Attributes
    ----------
    base_url
        Address up to ``/v1``, once started.
    """

    def __init__(self, imperfections: str = "", *, port: int = 0) -> None:
        self._options = ["--port", str(port), "--imperfections", imperfections]
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def __enter__(self) -> "StandInProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.base_url.rsplit(":", 1)[1].split("/")[0])

    def start(self) -> None:
        """Start it and wait until it listens.

        Raises
        ------
        InputError
            If it ends before it listens (a port in use, an unknown option).
        """
        command = [sys.executable, "-m", "psibench.llm.standin", "--until-stdin-ends"]
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by stop()
        self._process = subprocess.Popen(
            [*command, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        )
        stdout = self._process.stdout
        self.base_url = stdout.readline().strip() if stdout else ""
        if not self.base_url:
            self._process.communicate(timeout=STOP_S)
            self._words.seek(0)
            words = self._words.read().strip()[-500:]
            self.stop()
            raise InputError(f"the stand-in server did not start: {words}")

    def stop(self) -> None:
        """Stop it, gently first."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None
        self._words.close()
