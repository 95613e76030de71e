"""Processes of `llm_faults.py`: a test server that counts requests, and its clients.

python bench/support/llm_processes.py serve PORT IMPERFECTIONS
python bench/support/llm_processes.py ask ARGUMENTS OPTIONS     both in JSON, for `ask`
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import _base_client

from psibench.errors import InputError
from psibench.llm.answer_store import stored_answers
from psibench.llm.asking import AskItem
from psibench.llm.request import Message, Request, ResponseSchema, Sampling
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.server import serving

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "llm"))
from faulty_standin import Imperfections
from standin_batches import BatchStandIn

MODEL, SEED, IN_FLIGHT, STOPPED = "stand-in/bench", 42, 16, 3
VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def serve(port: str, imperfections: str) -> None:
    """Print the address, serve until standard input ends, print the counts of requests and answers.

    Ends like a crash: connections break, and no request is answered after the count.
    """
    stand_in = BatchStandIn()
    stand_in.imperfections = Imperfections.parse(f"seed={SEED},{imperfections}")

    async def run() -> None:
        async with serving(stand_in, port=int(port)) as url:
            print(url, flush=True)
            await asyncio.to_thread(sys.stdin.read)
            print(json.dumps([stand_in.asked.total(), stand_in.answered]), flush=True)
            os._exit(0)

    asyncio.run(run())


def ask(
    base_url: str,
    store: str,
    job: str,
    n_items: int,
    *,
    backend: str = "stand-in",
    timeout_s: float = 60.0,
    free_bytes: int | None = None,
) -> None:
    """Ask a job's items, with the same prompts for every job, and print each outcome.

    ``free_bytes`` limits the size of the process's files: the kernel cuts a write at the limit and
    fails the next one, like on a full disk. If the run is stopped, prints the reason last.
    """
    if free_bytes is not None:
        sys.dont_write_bytecode = True  # the limit is for the answers
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, most))
    _base_client.INITIAL_RETRY_DELAY, _base_client.MAX_RETRY_DELAY = 0.02, 0.2  # faults are many
    settings = LlmSettings.model_validate(
        {
            "backend": backend,
            "model": MODEL,
            "base_url": base_url,
            "asking": {"concurrency": IN_FLIGHT, "timeout_s": timeout_s},
            "batch": {"poll_s": 0.1},
        }
    )

    def item(number: int) -> AskItem:
        text = f"<query>copper mine {number}</query>\n<segment>A copper mine opened.</segment>"
        schema = ResponseSchema("judge_segment", VERDICT)
        # With a seed, a repeated request has another body than the first one.
        request = Request(MODEL, (Message("user", text),), schema, sampling=Sampling(seed=SEED))
        return AskItem(f"{job}-{number}", request)

    try:
        ask_all(
            (item(number) for number in range(n_items)),
            settings,
            store=store,
            on_outcome=lambda o: print(o.item_id, o.status, len(o.text), flush=True),
        )
    except InputError as error:
        print(error)
        sys.exit(STOPPED)


class Server:
    """The test server in a separate process; counts include the time before restarts."""

    def __init__(self, imperfections: str) -> None:
        self.imperfections, self.port, self.url = imperfections, "0", ""
        self.n_requests, self.answered = 0, Counter[str]()
        self.start()

    def start(self) -> None:
        """Start the server, or restart it on the same port."""
        self._process = _started("serve", self.port, self.imperfections, stdin=subprocess.PIPE)
        self.url = line_of(self._process).strip()
        self.port = self.url.rsplit(":", 1)[1].split("/")[0]

    def stop(self) -> None:
        """Stop the server; pending requests get no reply."""
        n_requests, answered = json.loads(self._process.communicate()[0])
        self.n_requests += n_requests
        self.answered.update(answered)


@dataclass
class Trial:
    """Processes and results of one running fault.

    ``wanted`` has the items of all jobs; ``replies`` the status and length of each item's reply,
    from the output of clients that were not killed.
    """

    n_items: int
    server: Server
    store: Path
    wanted: set[str] = field(default_factory=set)
    replies: dict[str, tuple[str, int]] = field(default_factory=dict)
    n_faults: int = 0
    allowed: int = 0

    def start(self, job: str = "a", **options: Any) -> Any:
        """Start a client process."""
        self.wanted |= {f"{job}-{number}" for number in range(self.n_items)}
        given = [self.server.url, str(self.store), job, self.n_items]
        return _started("ask", json.dumps(given), json.dumps(options))

    def finish(self, client: Any, *head: str) -> None:
        """Wait for a client and collect its outcomes; ``head`` has the lines read before."""
        lines = [*head, *client.stdout]
        if client.wait():
            sys.exit(f"a client failed: {lines[-1:]}")
        for item_id, status, n_chars in map(str.split, lines):
            if status != "failed":
                self.replies[item_id] = (status, int(n_chars))

    def kill(self, client: Any, *, at_risk: int = IN_FLIGHT) -> None:
        """Kill a client with signal 9; up to ``at_risk`` requests may be repeated."""
        self.n_faults += client.poll() is None
        self.allowed += at_risk
        client.kill()
        client.communicate()

    @property
    def stored(self) -> int:
        """Return the number of distinct requests with an answer in the store."""
        return len(list(stored_answers(self.store)))


def line_of(process: Any) -> str:
    """Return the next line of a process's output."""
    line: str = process.stdout.readline()
    return line or sys.exit("a process ended too early")


def _started(*arguments: str, **options: Any) -> Any:
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        ask(*json.loads(sys.argv[2]), **json.loads(sys.argv[3]))
