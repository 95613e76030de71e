"""Replies without end, packed or not, words that cannot be shown, and damaged stores."""

import asyncio
import json
import logging
import zlib

import pytest
from aiohttp import web
from llm_helpers import ScriptedServer, ask, items, settings, short_pauses  # noqa: F401

from psibench.llm import batch as batches
from psibench.llm import connection
from psibench.llm.batch import BatchServer
from psibench.llm.ledger import EmbeddingCall, Ledger
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.server import serving
from psibench.llm.usage import Usage

MIB = 1 << 20


class Flood(ScriptedServer):
    """Sends blanks, so many MiB of them, plain or packed; counts what was taken of them."""

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


SPENT = {"n": 9, "job": "j", "texts": 1, "tokens": 5, "usd": 0.5, "state": "done", "seconds": 1.0}


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        "[" * 100_000,
        *(
            json.dumps(SPENT | changes)
            for changes in ({"n": "9"}, {"tokens": -5}, {"usd": float("nan")}, {"state": None})
        ),
    ],
    ids=lambda line: line[:60],
)
def test_a_damaged_line_of_the_spending_does_not_count_and_is_told(tmp_path, caplog, line):
    ledger = Ledger(tmp_path, job="j", usd_per_million=1.0, limit_usd=1.0)
    call = EmbeddingCall(Usage(9), n_texts=2, n_tokens=9)
    assert ledger.begin(call)
    ledger.end(call, Usage(8), is_usable=True)
    ledger.close()
    (path,) = (tmp_path / "spending").glob("*.jsonl")
    (tmp_path / "spending" / "x.jsonl").mkdir()  # a folder is passed over
    path.write_text(path.read_text() + line + "\n")
    caplog.set_level(logging.WARNING)
    again = Ledger(tmp_path, job="j", usd_per_million=1.0, limit_usd=1.0)
    assert again.spent_usd == pytest.approx(8e-6)
    assert again.spending()["tokens"] == 8
    assert f"{path}: 1 damaged lines" in caplog.text
