"""Ask all items of a synchronous stage, and pass on each outcome."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.answer import Outcome
from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import AskItem, OutcomeSink, ask
from psibench.llm.client import OpenAIChatClient
from psibench.llm.limits import Budget
from psibench.llm.sections import LlmSettings, Price, price_of


def ask_all(
    items: Iterable[AskItem],
    settings: LlmSettings,
    *,
    store: str | Path,
    on_outcome: Callable[[Outcome], None],
    prices: Mapping[str, Price] | None = None,
    check_stop: Callable[[], None] = lambda: None,
) -> OutcomeSink:
    """Pass the outcome of each item to ``on_outcome``, and ask for outcomes that are not stored.

    If the store has all outcomes, no server is needed or started.

    Parameters
    ----------
    items
        Drawn one by one as workers need them.
    settings, store
        Model, server, policy and budget; folder of this model's answer store.
    prices
        Price table, needed with ``settings.budget_usd``; the cost of stored answers counts as
        spent.
    check_stop
        Raises if the job has to end now; the call then ends within seconds: running requests get a
        few seconds, and their answers are stored.

    Raises
    ------
    InputError
        Before the first request, if the service has stopped serving the model.
    BudgetReachedError, InputError
        As in `asking.ask` and `ask_batches`, after all outcomes were passed on.
    """
    results, asking = OutcomeSink(on_outcome), settings.asking
    with AnswerStore(store) as answers:
        chains = results.chains_to_ask(items, answers, asking.max_reasks)
        if (first := next(chains, None)) is None:
            return results
        chains = itertools.chain([first], chains)
        _refuse_retired(settings)
        budget = _budget(settings, prices or {}, answers)
        if settings.backend == "openai-batch":
            from psibench.llm.batch import ask_batches

            ask_batches(
                chains,
                settings,
                store=answers,
                results=results,
                budget=budget,
                check_stop=check_stop,
            )
            return results

        async def run(
            base_url: str | None,
            secret: Secret | None = None,
            exit_reason: Callable[[], str | None] = lambda: None,
        ) -> None:
            async with contextlib.AsyncExitStack() as stack:
                if settings.backend == "stand-in" and base_url is None:
                    from psibench.llm.standin.server import StandIn, serving

                    base_url = await stack.enter_async_context(serving(StandIn()))
                client = OpenAIChatClient(
                    settings,
                    base_url=base_url,
                    secret=secret,
                    budget=budget,
                    exit_reason=exit_reason,
                )
                stack.push_async_callback(client.close)
                await ask(chains, client, answers, asking, results, check_stop=check_stop)
                results.n_sent, results.n_timeouts = client.n_sent, client.n_timeouts

        if settings.backend == "vllm":
            from psibench.vllm.server import VllmProcess, log_name

            log = Path(store) / "logs" / log_name()
            with VllmProcess(
                settings.model, settings.vllm, log=log, revision=settings.revision
            ) as server:
                server.start(check_stop)
                asyncio.run(run(server.base_url, server.secret, server.exit_reason))
        else:
            asyncio.run(run(settings.base_url))
    return results


def _refuse_retired(settings: LlmSettings) -> None:
    is_past, state = settings.retirement() or (False, "")
    if is_past:
        raise InputError(
            f"model {settings.model!r} is {state}. No request was sent; stored answers remain "
            "valid. Name another `llm:`, or, if another service still serves it, add an entry "
            "with its base_url and without `retired` under `llms:`"
        )


def _budget(settings: LlmSettings, prices: Mapping[str, Price], answers: AnswerStore) -> Budget:
    """Return the budget minus the cost of all answers in the store."""
    if settings.budget_usd is None:
        return Budget()
    price, is_batch = price_of(settings.model, prices), settings.backend == "openai-batch"
    spent_usd = price.cost(answers.usage(), is_batch=is_batch)
    return Budget(settings.budget_usd, price, spent_usd=spent_usd, is_batch=is_batch)
