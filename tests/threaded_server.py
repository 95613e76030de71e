"""A stand-in server in a separate thread."""

import asyncio
import threading
from typing import Any, Self

from psibench.llm.standin.server import serving

START_S = 20.0


class ThreadedServer:
    """Serves a stand-in on a free or given port; use as a context manager."""

    def __init__(self, stand_in: Any, *, port: int = 0) -> None:
        self.stand_in, self.address, self._port = stand_in, "", port
        self._over, self._is_up = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serving(self.stand_in, port=self._port) as self.address:
            self._is_up.set()
            await self._over.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_up.wait(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(START_S)
