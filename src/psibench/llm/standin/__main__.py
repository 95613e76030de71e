"""Run the stand-in server: ``python -m psibench.llm.standin``.

Prints its base URL as the first line, then serves until it is told to stop, or its standard input
ends (``--until-stdin-ends``: it must not outlive the process that started it).
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys

from psibench.errors import InputError
from psibench.llm.standin.imperfections import Imperfections
from psibench.llm.standin.server import StandIn, serving


async def serve(args: argparse.Namespace) -> None:
    """Serve until SIGTERM, SIGINT or the end of standard input."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    if args.until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(0, 1) else over.set())
    async with serving(StandIn(Imperfections.parse(args.imperfections)), port=args.port) as url:
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
