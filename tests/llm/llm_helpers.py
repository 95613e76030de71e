"""Requests, items and runs that the tests of the LLM engine share."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from faulty_standin import FaultyStandIn, Imperfections
from openai import _base_client

from psibench.llm import asking
from psibench.llm.answer import Answer, Outcome
from psibench.llm.answer_store import AnswerStore, stored_answers
from psibench.llm.asking import AskItem, OutcomeSink
from psibench.llm.client import OpenAIChatClient
from psibench.llm.request import Message, Request, ResponseSchema
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.server import serving
from psibench.llm.usage import Usage

MODEL = "stand-in/rules"
VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
COMPLETION = {
    "model": MODEL,
    "choices": [{"message": {"content": '{"verdict": "yes"}'}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
}
JUDGE = ResponseSchema("judge_segment", VERDICT)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PLAIN = ResponseSchema("note", TEXT, "text")


def request(number: int = 0, **changes) -> Request:
    text = f"<query>copper mine {number}</query>\n<segment>A copper mine was opened.</segment>"
    return Request(
        **{"model": MODEL, "messages": (Message("user", text),), "response": JUDGE} | changes
    )


def items(n: int, **changes) -> list[AskItem]:
    return [AskItem(f"item-{number}", request(number, **changes)) for number in range(n)]


def answer(number: int = 0, text: str = '{"verdict": "yes"}', **changes) -> Answer:
    fields = {
        "key": request(number).key,
        "task": "judge_segment",
        "model": MODEL,
        "text": text,
        "finish_reason": "stop",
        "refusal": None,
        "usage": Usage(20, 5),
        "n_tries": 1,
        "latency_s": 0.1,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Answer(**fields | changes)


def settings(**asking) -> LlmSettings:
    policy = {"concurrency": 8, "timeout_s": 5.0}
    return LlmSettings(backend="stand-in", model=MODEL, asking=policy | asking)


@dataclass
class Run:
    """What one run of the engine came to."""

    outcomes: list[Outcome] = field(default_factory=list)
    totals: OutcomeSink | None = None
    error: Exception | None = None

    @property
    def by_item(self) -> dict[str, Outcome]:
        return {outcome.item_id: outcome for outcome in self.outcomes}

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(outcome.status for outcome in self.outcomes))


async def ask_client(client, wanted, chosen: LlmSettings, folder, **options) -> Run:
    """Send requests through a client; the result includes the error raised."""
    run = Run()
    results = OutcomeSink(run.outcomes.append)
    run.totals = results
    with AnswerStore(folder) as store:
        try:
            chains = results.chains_to_ask(wanted, store, chosen.asking.max_reasks)
            await asking.ask(chains, client, store, chosen.asking, results, **options)
        except Exception as error:
            run.error = error
        finally:
            await client.close()
    return run


def ask(wanted, folder, *, server=None, faults="", chosen=None, budget=None, **options) -> Run:
    """Ask a server in the same event loop: a stand-in, with faults, or a `ScriptedServer`."""
    server = server or FaultyStandIn()
    if faults:
        server.imperfections = Imperfections.parse(faults)
    chosen = chosen or settings()

    async def run() -> Run:
        async with serving(server) as url:
            client = OpenAIChatClient(chosen, base_url=url, budget=budget)
            return await ask_client(client, wanted, chosen, folder, **options)

    return asyncio.run(run())


class ScriptedServer:
    """A server whose replies follow a script; after its end, 1,000 tokens in and 100 out.

    A step is an error's status, or (status, code, headers); a text to reply with status 200;
    or seconds to take before the usual reply.
    """

    def __init__(self, *script):
        self.script, self.arrived = list(script), []

    @property
    def n_asked(self) -> int:
        return len(self.arrived)

    def app(self):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def _chat(self, request):
        await request.read()
        self.arrived.append(time.monotonic())
        step = self.script.pop(0) if self.script else 0.0
        if isinstance(step, float):
            await asyncio.sleep(step)
            return web.json_response(COMPLETION)
        if isinstance(step, str):
            return web.Response(text=step)
        status, code, headers = step if isinstance(step, tuple) else (step, "made_to_fail", {})
        error = {"message": "made to fail", "code": code}
        return web.json_response({"error": error}, status=status, headers=headers)


def shorten_pauses(set_attribute=setattr) -> None:
    """Let the openai client try again almost at once."""
    set_attribute(_base_client, "INITIAL_RETRY_DELAY", 0.01)
    set_attribute(_base_client, "MAX_RETRY_DELAY", 0.05)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_pauses(monkeypatch.setattr)


def start_job(settings: LlmSettings, store, n_items: int):
    """Start a process that asks items and prints a line per outcome."""
    program = Path(__file__).with_name("asking_job.py")
    command = [sys.executable, str(program), settings.model_dump_json(), str(store), str(n_items)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=program.parent
    )


def stored(folder) -> list[Answer]:
    return list(stored_answers(folder))


def files_text(folder: Path) -> str:
    """Return the content of a store's files."""
    return "".join(path.read_bytes().decode(errors="replace") for path in folder.rglob("*.*"))


def wait_for(condition, timeout_s: float = 300.0):
    """Wait until a condition returns a true value; return it."""
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)
    return found
