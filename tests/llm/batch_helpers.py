"""A stand-in with batches in a thread, and runs of the batch backend."""

import json

from faulty_standin import HEADER, Imperfections
from llm_helpers import MODEL, Run
from standin_batches import BatchStandIn
from threaded_server import ThreadedServer

from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import OutcomeSink
from psibench.llm.batch import ask_batches
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings


class Server(ThreadedServer):
    """A stand-in with batches, on a free or given port."""

    def __init__(self, faults="", *, port=0):
        super().__init__(BatchStandIn(), port=port)
        self.stand_in.imperfections = Imperfections.parse(faults)

    @property
    def url(self) -> str:
        return self.address

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
