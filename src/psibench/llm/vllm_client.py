"""Asking a server that the job starts itself, and only if there is something to ask."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from psibench.config.llms import LlmSettings
from psibench.llm.client import ChatClient, OpenAIChatClient, Reply
from psibench.llm.request import Request
from psibench.llm.sigterm import sigterm_exits
from psibench.llm.usage import Budget
from psibench.llm.vllm_server import VllmProcess

LOG_FOLDER = "logs"


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
    SIGTERM ends the block in order, with exit status 143.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"vllm-{moment}-{socket.gethostname()}-{os.getpid()}.log"
    with (
        sigterm_exits(),
        VllmProcess(settings, log=Path(store) / LOG_FOLDER / name) as server,
    ):
        yield lambda budget: VllmClient(settings, server, budget)
