"""Stage ``ask``: one shard of one task of a language model, from documents to outcomes."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.llms import LlmSettings, Price, price_of
from psibench.errors import InputError
from psibench.generate.recipes import step_spec
from psibench.llm.answer import Outcome
from psibench.llm.answer_store import AnswerStore, stored_usage
from psibench.llm.asking import Chain, Item
from psibench.llm.expected import estimate_requests
from psibench.llm.prompts import Prompt, load_prompt
from psibench.llm.request import Request
from psibench.llm.run import ask_all
from psibench.llm.tasks import DOCUMENTS_TABLE, LlmTask, LlmTaskSection, TaskItem, shard_documents
from psibench.progress import Progress
from psibench.stages.llm_requests import requests_of
from psibench.tables import hash_file, read_table, write_table
from psibench.tables.build_schemas import LLM_USAGE, OUTCOMES
from psibench.tables.derived import derived
from psibench.tables.domains import OutputPath, TablePath
from psibench.tables.spec import TableSpec

logger = logging.getLogger("psibench")

PERMANENT = frozenset({"http_400", "http_413", "http_422"})
"""Failures that lie in the request itself: asked again, it would fail again."""


@dataclass(frozen=True)
class Asking:
    """What is asked of whom: a task, its section, the language model under its id."""

    task: LlmTask
    section: LlmTaskSection
    llm_id: str
    llm: LlmSettings
    prompt: Path

    @property
    def params(self) -> dict[str, Any]:
        """What decides the outcomes, apart from the documents."""
        return task_params(self.section, load_prompt(self.prompt)) | llm_params(self.llm)


def llm_params(llm: LlmSettings) -> dict[str, Any]:
    """Return what of a language model's settings decides its answers: parameters of the rule."""
    params = llm.model_dump(mode="json", include={"model", "revision", "sampling", "reply_format"})
    return params | {"max_reasks": llm.asking.max_reasks}


def task_params(section: LlmTaskSection, prompt: Prompt) -> dict[str, Any]:
    """Return what of a task's section decides its items; of the template, what is sent."""
    params = section.model_dump(mode="json", exclude={"llm", "prompt"})
    return params | {"prompt_hash": prompt.hash}


def read_task_tables(task: LlmTask, paths: Mapping[str, TablePath]) -> dict[str, pl.DataFrame]:
    """Read the tables a task's items are made of, by name."""
    return {
        name: read_table(
            paths[name], task.documents if name == DOCUMENTS_TABLE else step_spec(name)
        )
        for name in task.reads
    }


@dataclass(frozen=True)
class AskedDomain:
    """What is asked about one domain: the tables the task reads, by name, and where it goes."""

    tables: Mapping[str, TablePath]
    outcomes: OutputPath
    usage: OutputPath


def run_ask(
    asking: Asking,
    domains: Sequence[AskedDomain],
    *,
    shard: str,
    prices: Mapping[str, Price],
    store: str | Path,
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask one shard of a task, of all domains at once; write outcomes and what they used.

    Answers are stored under ``store``/llm/ID as they arrive: an interrupted or failed job asks
    nothing twice. ``shard`` is like ``2-of-8``. ``check_stop`` raises if the job has to end now.

    Raises
    ------
    InputError
        If requests remain without a reply for a reason that may pass, if the server refuses all
        requests, or if the budget is reached. Nothing is written then but the answers received.
    """
    template = load_prompt(asking.prompt)
    frames = [
        shard_documents(read_task_tables(asking.task, domain.tables), shard) for domain in domains
    ]

    def pairs(number: int) -> Iterator[tuple[TaskItem, Request]]:
        return requests_of(asking.task, asking.section, template, asking.llm, frames[number])

    def requests() -> Iterator[Item]:  # ids are unique in a domain
        for number in range(len(domains)):
            yield from (Item(f"{number}:{item.id}", request) for item, request in pairs(number))

    items = [list(asking.task.items(of_domain, asking.section)) for of_domain in frames]
    n_items = sum(map(len, items))
    folder = Path(store) / "llm" / asking.llm_id
    # Before anything is asked: what is said to have been expected knows no answers.
    estimates = [
        estimate_requests(((one.values, r) for one, r in pairs(n)), template, asking.llm)
        for n in range(len(domains))
    ]
    found = _stored(requests(), asking, folder)
    if len(found) < n_items:  # else no server is needed, and none is started
        found = _ask(requests(), n_items, asking, prices, folder, check_stop)
    else:
        logger.info(
            "%s, %s: %d items, all answered by the store, 0 requests asked",
            *(asking.task.name, asking.llm.model, n_items),
        )
    _refuse_unanswered(found.values(), n_items, asking)
    for number, domain in enumerate(domains):
        source = derived(
            "ask",
            list(domain.tables.values()),
            params=asking.params | {"task": asking.task.name, "shard": shard},
            files={str(asking.prompt): hash_file(asking.prompt)},
            prompt_hash=template.hash,
            revisions=_judge_revision(asking, template) if asking.task.judges else None,
            llm_backend=asking.llm.backend,
            queries_by=None if asking.task.judges else f"llm:{asking.llm.model}",
        )
        rows = _frame(
            (_outcome_row(item, found[f"{number}:{item.id}"]) for item in items[number]), OUTCOMES
        )
        write_table(rows, domain.outcomes, OUTCOMES, provenance=source)
        used = usage_row(asking, template, rows) | {
            f"estimated_{name}": value for name, value in estimates[number].items()
        }
        write_table(_frame([used], LLM_USAGE), domain.usage, LLM_USAGE, provenance=source)


def usage_row(asking: Asking, template: Prompt, outcomes: pl.DataFrame) -> dict[str, Any]:
    """Sum up what outcomes used; items that asked the same share one request."""
    asked = outcomes.unique("key", keep="first", maintain_order=True)
    sums = asked.select(
        pl.col("n_replies", "input_tokens", "cached_input_tokens", "output_tokens").sum()
    ).row(0, named=True)
    return {
        "stage": asking.task.name,
        "llm": asking.llm_id,
        "model": asking.llm.model,
        "backend": asking.llm.backend,
        "n_items": outcomes.height,
        "n_ok": outcomes.filter(pl.col("status") == "ok").height,
        "n_requests": sums.pop("n_replies"),
        **sums,
        "prompt_hash": template.hash,
    }


def _judge_revision(asking: Asking, template: Prompt) -> dict[str, str]:
    """Say who judges, for the record of the judgements: model and template."""
    model = "@".join(filter(None, (asking.llm.model, asking.llm.revision)))
    return {f"llm:{asking.llm_id}": model, f"prompt:{asking.task.name}": template.hash}


def _stored(requests: Iterable[Item], asking: Asking, folder: Path) -> dict[str, Outcome]:
    """Return the outcomes of items from the answer store, up to the first that lacks one."""
    found: dict[str, Outcome] = {}
    with AnswerStore(folder) as answers:
        answers.refresh()
        for item in requests:
            chain = Chain(item.id, item.request, asking.llm.asking.max_reasks)
            outcome = chain.follow_stored(answers)
            if outcome is None:
                break
            found[item.id] = outcome
    return found


def _ask(
    requests: Iterable[Item],
    n_items: int,
    asking: Asking,
    prices: Mapping[str, Price],
    folder: Path,
    check_stop: Callable[[], None],
) -> dict[str, Outcome]:
    """Ask all and return the outcomes by item."""
    found: dict[str, Outcome] = {}
    with Progress(f"asking {asking.task.name}", total=n_items, unit="items") as progress:

        def take(outcome: Outcome) -> None:
            found[outcome.item_id] = outcome
            progress.advance(1)

        totals = ask_all(
            requests,
            asking.llm,
            store=folder,
            on_outcome=take,
            prices=prices,
            spent_usd=_spent_usd(asking.llm, prices, folder),
            check_stop=check_stop,
        )
    logger.info(
        "%s, %s: %d items, %d answered by the store, %d requests asked, %s",
        asking.task.name,
        asking.llm.model,
        totals.n_items,
        totals.n_from_store,
        totals.n_asked,
        ", ".join(f"{status} {count}" for status, count in sorted(totals.statuses.items())),
    )
    return found


def _spent_usd(llm: LlmSettings, prices: Mapping[str, Price], folder: Path) -> float:
    """Return what all stored answers of a model cost, where it has a budget."""
    if llm.budget_usd is None:
        return 0.0
    price = price_of(llm.model, prices)
    return price.cost(stored_usage(folder), is_batch=llm.backend == "openai-batch")


def _refuse_unanswered(outcomes: Iterable[Outcome], n_items: int, asking: Asking) -> None:
    """Raise InputError if items have no reply and might have one the next time, or none has one."""
    found = list(outcomes)
    failed = [o for o in found if o.status == "failed"]
    if len(failed) < len(found):  # a request refused among others speaks for itself alone
        failed = [o for o in failed if o.reason not in PERMANENT]
    if not failed:
        return
    reasons = Counter(outcome.reason for outcome in failed)
    may_pass = not all(outcome.reason in PERMANENT for outcome in failed)
    advice = (
        "run again to ask the rest"
        if may_pass
        else "asked again, these would be refused again: mend what the server names first (the "
        "model's settings in `llms:`, or the length of the documents)"
    )
    raise InputError(
        f"{asking.task.name}: {len(failed)} of {n_items} requests to {asking.llm.model} got no "
        f"reply ({', '.join(f'{reason} {count}' for reason, count in reasons.most_common())}; "
        f"the last: {failed[-1].text[:200]}). All answers are stored; {advice}."
    )


def _outcome_row(item: TaskItem, outcome: Outcome) -> dict[str, Any]:
    is_ok = outcome.status == "ok"
    return {
        "item_id": item.id,
        "doc_id": item.doc_id,
        "target_position": item.target_position,
        "status": outcome.status,
        "reason": outcome.reason,
        "value": json.dumps(outcome.value, ensure_ascii=False) if is_ok else None,
        "reply": None if is_ok else outcome.text,
        "key": outcome.key,
        "model": outcome.model,
        "n_replies": outcome.n_reasks + (outcome.status != "failed"),
        "input_tokens": outcome.usage.input_tokens,
        "cached_input_tokens": outcome.usage.cached_input_tokens,
        "output_tokens": outcome.usage.output_tokens,
    }


def _frame(rows: Iterable[Mapping[str, Any]], spec: TableSpec) -> pl.DataFrame:
    empty = spec.empty()
    return pl.DataFrame(list(rows), schema=empty.schema)
