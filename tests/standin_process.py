"""The stand-in server as a child process that ends with its parent.

``python standin_process.py`` prints its base URL as the first line, then serves until it is told to
stop, or its standard input ends (``--until-stdin-ends``: it must not outlive who started it).
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from psibench.errors import InputError
from psibench.llm.standin.server import serving

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

    def __exit__(self, *_: object) -> None:
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
        command = [sys.executable, __file__, "--until-stdin-ends"]
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


async def serve(args: argparse.Namespace) -> None:
    """Serve until SIGTERM, SIGINT or the end of standard input."""
    sys.path.insert(0, str(Path(__file__).with_name("llm")))
    from faulty_standin import FaultyStandIn, Imperfections

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    if args.until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(0, 1) else over.set())
    stand_in = FaultyStandIn(Imperfections.parse(args.imperfections))
    async with serving(stand_in, port=args.port) as url:
        print(url, flush=True)
        await over.wait()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--imperfections", default="", help="as in malformed=0.2,delay_s=0.05")
    parser.add_argument("--until-stdin-ends", action="store_true")
    args = parser.parse_args()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(args))
    except (InputError, OSError) as error:
        sys.exit(f"stand-in: {error}")


if __name__ == "__main__":
    main()
