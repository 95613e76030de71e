"""One call for a stage that is not asynchronous itself: ask all items, hand on each outcome."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from psibench.errors import InputError
from psibench.llm.answer import Outcome
from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import Asker
from psibench.llm.chain import Item, Totals
from psibench.llm.client import OpenAIChatClient
from psibench.llm.engine import Engine
from psibench.llm.settings import LlmSettings
from psibench.llm.usage import Budget, Price, price_of


def ask_all(
    items: Iterable[Item],
    settings: LlmSettings,
    *,
    store: str | Path,
    on_outcome: Callable[[Outcome], None],
    prices: Mapping[str, Price] | None = None,
    spent_usd: float = 0.0,
) -> Totals:
    """Ask all items of a stage and hand each outcome to ``on_outcome`` as it comes about.

    Parameters
    ----------
    items
        Drawn as fast as they are asked; never held all at once.
    settings
        Model, server, policy and budget.
    store
        Folder of the answer store of this model.
    prices
        Price table; needed with ``settings.budget_usd``.
    spent_usd
        What counts as spent of the budget before this run.

    Raises
    ------
    BudgetReachedError, InputError
        As `Engine.ask`, after all outcomes were handed on.
    """
    budget = None
    if settings.budget_usd is not None:
        price = price_of(settings.model, prices or {})
        budget = Budget(settings.budget_usd, price, spent_usd=spent_usd)

    async def run(base_url: str | None, answers: AnswerStore) -> Totals:
        client = OpenAIChatClient(settings, base_url=base_url)
        engine = Engine(Asker(client, settings.asking, budget), answers)
        try:
            async with contextlib.aclosing(engine.ask(items)) as outcomes:
                async for outcome in outcomes:
                    on_outcome(outcome)
        finally:
            await client.close()
        return engine.totals

    with (
        _server(settings) as base_url,
        AnswerStore(store, fsync_every_s=settings.fsync_s) as answers,
    ):
        return asyncio.run(run(base_url, answers))


@contextlib.contextmanager
def _server(settings: LlmSettings) -> Iterator[str | None]:
    """Start the stand-in where the settings name it without an address."""
    if settings.backend != "stand-in" or settings.base_url is not None:
        yield settings.base_url
        return
    from psibench.llm.standin.process import StandInProcess

    with StandInProcess() as server:
        if not server.base_url:
            raise InputError("the stand-in server did not start")
        yield server.base_url
