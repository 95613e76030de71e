"""A stand-in with batches in a thread, and runs of the batch backend."""

import asyncio
import json
import threading

from faulty_standin import HEADER, Imperfections
from llm_helpers import MODEL, Run
from standin_batches import BatchStandIn

from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import OutcomeSink
from psibench.llm.batch import ask_batches
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.server import serving


class Server:
    """A stand-in in a separate thread, on a free or given port."""

    def __init__(self, faults="", *, port=0):
        self.stand_in, self.url, self._port = BatchStandIn(), "", port
        self.stand_in.imperfections = Imperfections.parse(faults)
        self._started, self._loop = threading.Event(), None
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self.stand_in, port=self._port) as self.url:
            self._started.set()
            await self._over.wait()

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    @property
    def n_requests(self) -> int:
        return self.stand_in.asked.total()

    @property
    def batches(self) -> list[dict]:
        return list(self.stand_in.batches.values())

    @property
    def batch_sizes(self) -> list[int]:
        return [batch["request_counts"]["total"] for batch in self.batches]


def batch_settings(url, faults="", *, backend="openai-batch", batch=None, **asking) -> LlmSettings:
    policy = {"max_tries": 6} | asking
    return LlmSettings(
        backend=backend,
        model=MODEL,
        base_url=url,
        asking=policy,
        headers={HEADER: faults} if faults else {},
        batch={"poll_s": 0.05} | (batch or {}),
    )


def ask(wanted, folder, chosen, **options) -> Run:
    """Send requests by the settings; the result includes the error raised."""
    run = Run()
    take = run.outcomes.append
    try:
        if not options:
            run.totals = ask_all(wanted, chosen, store=folder, on_outcome=take)
        else:  # a budget that the test looks at, or a check whether to stop
            results = OutcomeSink(take)
            with AnswerStore(folder) as store:
                chains = results.chains_to_ask(wanted, store, chosen.asking.max_reasks)
                ask_batches(chains, chosen, store=store, results=results, **options)
            run.totals = results
    except Exception as error:
        run.error = error
    return run


def records(folder) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / "batches").glob("*.json"))]
