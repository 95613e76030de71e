"""Replies without end, packed or not, words that cannot be shown."""

import asyncio
import zlib

import pytest
from aiohttp import web
from llm_helpers import ScriptedServer, ask, items, settings, short_pauses  # noqa: F401

from psibench.llm import batch as batches
from psibench.llm import connection
from psibench.llm.batch import BatchServer
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.server import serving

MIB = 1 << 20


class Flood(ScriptedServer):
    """Sends some MiB of blanks, plain or compressed; counts the bytes that the client read."""

    def __init__(self, mib: int, *, packed: bool = False) -> None:
        super().__init__()
        self.mib, self.packed, self.n_sent = mib, packed, 0

    def app(self) -> web.Application:
        app = super().app()
        for path in ("/v1/embeddings", "/v1/files/{id}/content"):
            app.router.add_route("*", path, self._chat)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.arrived.append(0.0)
        pack = zlib.compressobj(9, zlib.DEFLATED, 31)
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if self.packed else {})
        await response.prepare(request)
        for _ in range(self.mib):
            blanks = b" " * MIB
            await response.write(pack.compress(blanks) if self.packed else blanks)
            self.n_sent += 1
        await response.write(pack.flush() if self.packed else b"")
        return response


@pytest.mark.parametrize("packed", [False, True])
def test_a_reply_without_end_is_not_read_to_it(tmp_path, packed):
    server = Flood(1024, packed=packed)
    run = ask(items(1), tmp_path, server=server, chosen=settings(timeout_s=60.0, max_tries=3))
    assert (run.error, run.statuses, server.n_asked) == (None, {"failed": 1}, 1)
    assert run.outcomes[0].reason == "too_large"
    assert "a reply of more than 16 MiB, unpacked" in run.outcomes[0].text
    assert packed or server.n_sent < 200


def test_an_output_file_without_end_is_not_read_to_it(monkeypatch):
    monkeypatch.setattr(batches, "MOST_OUTPUT_BYTES", 4 * MIB)

    async def run() -> None:
        async with serving(Flood(64, packed=True)) as url:
            own = LlmSettings(backend="openai-batch", model="m", base_url=url, api_key_env=None)
            server = BatchServer(own)
            await asyncio.to_thread(lambda: list(server.lines("file-1", None)))

    with pytest.raises(connection.TryFailedError, match="a reply of more than 4 MiB"):
        asyncio.run(run())
