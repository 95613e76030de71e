"""Stage ``ask``: sends a task's requests to a language model and writes the task's tables.

A job asks one shard of one task about all domains of a language. The model's address, concurrency,
timeouts, budget and prices change no answer. They are therefore not rule parameters: a job reads
them from the config it was started with.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.generate.base import REPLY_DETAIL_CHARS
from psibench.generate.benchmarks import GeneratedBenchmark, parse_benchmark
from psibench.generate.recipes import step_spec, tasks_of
from psibench.generate.translations import outside_translations
from psibench.llm.answer import REASKED, Outcome
from psibench.llm.asking import AskItem, OutcomeSink
from psibench.llm.connection import PROMPT_TOO_LONG
from psibench.llm.prompts import PromptTemplate, load_prompt, task_requests
from psibench.llm.reply_warnings import limit_warnings, value_warnings
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings, Price, load_prices
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    NO_PROMPT,
    Gathered,
    LlmTask,
    LlmTaskSection,
    PromptCopies,
    TaskItem,
    replied,
    shard_documents,
)
from psibench.progress import Progress, warn
from psibench.stopping import watched_stop
from psibench.tables import hash_file
from psibench.tables.build_schemas import FLOW, LLM_USAGE, OUTCOMES
from psibench.tables.dropped import (
    Dropped,
    Flow,
    as_attrition,
    dropped_frame,
    flow_frame,
    reasons_text,
)
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import ATTRITION
from psibench.tables.slices import Slice
from psibench.tables.stage import stage
from psibench.translate.steps import translating_section, translation_task
from psibench.translate.translate import TRANSLATE

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Asking:
    """A task, its config section and prompt, and the language model that answers."""

    task: LlmTask
    section: LlmTaskSection
    llm_id: str
    llm: LlmSettings
    prompt: Path

    @property
    def title(self) -> str:
        """Task and model, for messages."""
        return f"{self.task.name}, {self.llm.model}"

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that decide the outcomes, except for the documents."""
        return task_params(self.section, load_prompt(self.prompt)) | llm_params(self.llm)


def llm_params(llm: LlmSettings) -> dict[str, Any]:
    """Return the language model's settings that decide its answers, as rule parameters."""
    params = llm.model_dump(mode="json", include={"model", "revision", "sampling", "reply_format"})
    if llm.file is not None:
        path = Path(llm.file)
        params["file"] = hash_file(path) if path.is_file() else None
    if llm.command is not None:
        params |= {"command": llm.command, "language_codes": llm.language_codes}
    return params | {"max_reasks": llm.asking.max_reasks}


def task_params(section: LlmTaskSection, prompt: PromptTemplate) -> dict[str, Any]:
    """Return the keys of a task's section that decide its requests, and the template's hash."""
    params = section.model_dump(mode="json", exclude={"llm", "prompt"})
    return params | {"prompt_hash": prompt.hash}


def read_task_tables(task: LlmTask, domain: DomainJob) -> dict[str, pl.DataFrame]:
    """Read the tables that a task reads, by name."""
    return {
        name: domain.read(name, task.documents if name == DOCUMENTS_TABLE else step_spec(name))
        for name in task.reads
    }


def ask_domains(
    job: Job,
    asking: Asking,
    *,
    step: int = 0,
    prices: Mapping[str, Price],
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Ask a job's shard of a task about all of its domains and write the task's tables.

    Outputs: ``outcomes``, their token counts in ``usage``, ``rows``, ``dropped`` and ``flow``.
    ``step`` is the task's position in FLOW. Answers are stored under ``store``/llm/ID as they
    arrive, so a stopped or failed job does not repeat requests. ``check_stop`` raises if the job
    has to end now.

    Raises
    ------
    InputError
        If requests remain without a reply for a reason that may pass, if the server refuses all
        requests, or if the budget is reached. Answers received until then stay in the store.
    """
    template, shard = load_prompt(asking.prompt), Slice.parse(job.value("portion", str, default=""))
    frames = [
        shard_documents(read_task_tables(asking.task, domain), shard) for domain in job.domains()
    ]
    items = [list(asking.task.items(tables, asking.section)) for tables in frames]
    record, n_items = _record(asking, template, shard), sum(map(len, items))
    if asking.llm.backend in ("file", "command"):
        outcomes = outside_translations(asking, items, check_stop)
    else:
        requests = (
            AskItem(f"{number}:{item.id}", request)  # item ids are unique only within a domain
            for number, tables in enumerate(frames)
            for item, request in task_requests(
                asking.task, asking.section, template, asking.llm, tables
            )
        )
        outcomes = _ask_model(job, asking, requests, n_items, prices=prices, check_stop=check_stop)
    _refuse_unanswered(outcomes.values(), n_items, asking)
    every: list[tuple[pl.DataFrame, pl.DataFrame]] = []
    for number, domain in enumerate(job.domains()):
        of_domain = [_outcome_row(item, outcomes[f"{number}:{item.id}"]) for item in items[number]]
        rows = pl.DataFrame(of_domain, schema=OUTCOMES.empty().schema)
        gathered = gather(
            asking.task, asking.section, frames[number], rows,
            prompt=template.copies, language=domain.language,
        )  # fmt: skip
        _warn_if_empty(domain, asking.task, gathered)
        left_out = as_attrition(gathered.dropped, language=domain.language, domain=domain.name)
        used = _usage_row(asking, template, rows)
        for name, frame, spec in (
            ("outcomes", rows, OUTCOMES),
            ("usage", pl.DataFrame([used], schema=LLM_USAGE.empty().schema), LLM_USAGE),
            ("rows", gathered.rows, asking.task.spec),
            ("dropped", left_out, ATTRITION),
            ("flow", flow_frame(asking.task.name, step, gathered.flow), FLOW),
        ):
            domain.write(name, frame, spec, **record)
        every.append((rows, gathered.rows))
    for text in value_warnings(asking.task, *zip(*every, strict=True)):
        warn(f"{asking.title}: {text}")


def _record(asking: Asking, template: PromptTemplate, shard: Slice) -> dict[str, Any]:
    """Return what the provenance of a task's tables records, with the files as they are now."""
    task, llm = asking.task, asking.llm
    judge = {
        f"llm:{asking.llm_id}": "@".join(filter(None, (llm.model, llm.revision))),
        f"prompt:{task.name}": template.hash,
    }
    author = "translation" if task is TRANSLATE else "llm"
    return {
        "params": asking.params | {"task": task.name, "shard": str(shard)},
        "files": {path: hash_file(Path(path)) for path in (str(asking.prompt), llm.file) if path},
        "prompt_hash": template.hash,
        "revisions": judge if task.judges else None,
        "llm_backend": llm.backend,
        "queries_by": None if task.judges else f"{author}:{llm.model}",
    }


def _ask_model(
    job: Job, asking: Asking, requests: Iterable[AskItem], n_items: int, **options: Any
) -> dict[str, Outcome]:
    """Return the outcomes by item id, and report on the replies; ``options`` are of `ask_all`."""
    outcomes: dict[str, Outcome] = {}
    with Progress(f"asking {asking.task.name}", total=n_items, unit="items") as progress:

        def keep(outcome: Outcome) -> None:
            outcomes[outcome.item_id] = outcome
            progress.advance(1)

        store = answer_folder(job.value("store"), asking.llm_id)
        totals = ask_all(requests, asking.llm, store=store, on_outcome=keep, **options)
    statuses = ", ".join(f"{status} {count}" for status, count in sorted(totals.statuses.items()))
    logger.info(
        "%s: %d items, %d answered from the store, %d requests sent, %s",
        asking.title, totals.n_items, totals.n_from_store, totals.n_replies, statuses,
    )  # fmt: skip
    _report_forms(asking, totals)
    for text in limit_warnings(totals):
        warn(f"{asking.title}: {text}")
    return outcomes


def _warn_if_empty(domain: DomainJob, task: LlmTask, gathered: Gathered) -> None:
    for counts in gathered.flow:
        if counts.entered and not counts.kept:
            reasons = reasons_text(gathered.dropped.filter(unit=counts.unit))
            warn(
                f"{task.name} keeps none of {counts.entered} {counts.unit} of {domain.name}, "
                f"{domain.language}: {reasons}. A row for each is in "
                f"{domain.job.outputs['dropped']}"
            )


def _report_forms(asking: Asking, totals: OutcomeSink) -> None:
    """Log how many replies contained thoughts; warn if replies could not be parsed."""
    if n := totals.n_with_thoughts:
        logger.info("%s: thoughts removed from the replies to %d items", asking.title, n)
    if not totals.form_reasons:
        return
    reasons = ", ".join(f"{reason} {n}" for reason, n in totals.form_reasons.most_common())
    n_without = sum(totals.statuses[status] for status in REASKED)
    warn(
        f"{asking.title}: {totals.form_reasons.total()} replies could not be parsed ({reasons}). "
        f"After {asking.llm.asking.max_reasks} further samples of each, {n_without} of "
        f"{totals.n_items} items have no value and are dropped. See docs/generation.md, "
        '"Which part of a reply counts"'
    )


def _usage_row(asking: Asking, template: PromptTemplate, outcomes: pl.DataFrame) -> dict[str, Any]:
    """Return a row of LLM_USAGE; items with the same request count once."""
    requests = outcomes.unique("key", keep="first", maintain_order=True)
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    return {
        "stage": asking.task.name,
        "llm": asking.llm_id,
        "model": asking.llm.model,
        "backend": asking.llm.backend,
        "n_items": outcomes.height,
        "n_ok": outcomes.filter(pl.col("status") == "ok").height,
        "n_requests": requests["n_replies"].sum(),
        **{name: requests[name].sum() for name in names},
        "prompt_hash": template.hash,
    }


def _refuse_unanswered(outcomes: Iterable[Outcome], n_items: int, asking: Asking) -> None:
    """Raise InputError if a retry may give missing replies, or if the server refused them all."""
    every = list(outcomes)
    failed = [o for o in every if o.status == "failed"]
    if len(failed) < len(every):  # other requests got replies, so a refusal concerns one item
        _warn_if_rejected([o for o in failed if o.is_rejected], n_items, asking)
        failed = [o for o in failed if not o.is_rejected]
    if not failed:
        return
    reasons = Counter(outcome.reason for outcome in failed)
    may_pass = not all(outcome.is_rejected for outcome in failed)
    advice = (
        "run again to send the remaining requests"
        if may_pass
        else "the server would refuse these requests again, so first fix the cause that it "
        "reports (the model's settings in `llms:`, or for prompt_too_long a larger context of the "
        "server, a smaller sampling.max_output_tokens, or shorter documents)"
    )
    raise InputError(
        f"{asking.task.name}: {len(failed)} of {n_items} requests to {asking.llm.model} got no "
        f"reply ({', '.join(f'{reason} {count}' for reason, count in reasons.most_common())}; "
        f"the last: {failed[-1].text[:200]}). All answers are stored; {advice}."
    )


def _warn_if_rejected(rejected: Sequence[Outcome], n_items: int, asking: Asking) -> None:
    if rejected:
        reasons = Counter(outcome.reason for outcome in rejected).most_common()
        warn(
            f"{asking.title}: the server rejected {len(rejected)} of {n_items} requests, and their "
            f"items are dropped ({', '.join(f'{reason} {count}' for reason, count in reasons)}; "
            f"the last: {rejected[-1].text[:200]})"
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


# From outcomes to a task's tables


def gather(
    task: LlmTask,
    section: LlmTaskSection,
    tables: Mapping[str, pl.DataFrame],
    outcomes: pl.DataFrame,
    *,
    prompt: PromptCopies = NO_PROMPT,
    language: str | None = None,
) -> Gathered:
    """Return a task's rows, and the items it dropped, including those without a usable reply.

    ``prompt`` has what replies must not copy, ``language`` is the documents' language.
    ``char_length`` of a dropped item is the length of its document.
    """
    usable = outcomes.filter(pl.col("status") == "ok")
    gathered = task.gather(tables, section, replied(usable, prompt, language))
    unusable = _unusable(task, outcomes.filter(pl.col("status") != "ok"))
    dropped = pl.concat([unusable, gathered.dropped]).drop("char_length")
    lengths = tables["documents"].select(
        doc_id="_id", char_length=pl.col("text").str.len_chars().cast(pl.Int32)
    )
    dropped = dropped.join(lengths, on="doc_id", how="left", maintain_order="left")
    counts = {task.unit: Flow(task.unit, outcomes.height, usable.height)}
    for flow in gathered.flow:
        n_unusable = outcomes.height - usable.height if flow.unit == task.unit else 0
        counts[flow.unit] = Flow(flow.unit, flow.entered + n_unusable, flow.kept)
    return Gathered(gathered.rows, dropped, tuple(counts.values()))


def _unusable(task: LlmTask, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Return a dropped row for each outcome without a value.

    The reason is the status, or `PROMPT_TOO_LONG` if the server refused the prompt's length.
    """
    return dropped_frame(
        Dropped(
            task.name,
            task.unit,
            row["item_id"],
            row["doc_id"],
            PROMPT_TOO_LONG if row["reason"] == PROMPT_TOO_LONG else row["status"],
            f"{row['reason']}: {row['reply'] or ''}"[:REPLY_DETAIL_CHARS],
            target_position=row["target_position"],
        )
        for row in outcomes.iter_rows(named=True)
    )


# The stage


def read_asking(
    config: Mapping[str, Any], *, benchmark: str, task: str, language: str, prompt: str | Path
) -> tuple[Asking, dict[str, Price]]:
    """Return the task and model of an ``ask`` job, and the prices, from the composed config."""
    section = parse_benchmark(config["benchmarks"][benchmark])
    llm_task = translation_task(task)
    if llm_task is not None:
        chosen: LlmTaskSection = translating_section(
            section.translate, task, source_language=section.language, language=language
        )
    else:
        assert isinstance(section, GeneratedBenchmark)
        ((llm_task, chosen),) = (one for one in tasks_of(section) if one[0].name == task)
    llm = LlmSettings.model_validate(config["llms"][chosen.llm])
    return Asking(llm_task, chosen, chosen.llm, llm, Path(prompt)), load_prices(config["prices"])


@stage("ask", version=9)
def run_ask(job: Job) -> None:
    """Ask a shard of a task about all domains of a language and write the task's tables.

    Inputs: the tables that the task reads, and ``prompt``. Outputs: see `ask_domains`.
    """
    asking, prices = read_asking(
        job.config,
        benchmark=job.value("benchmark"),
        task=job.value("task"),
        language=job.value("lang"),
        prompt=job.path("prompt"),
    )
    with watched_stop() as stop:
        ask_domains(job, asking, step=job.value("step"), prices=prices, check_stop=stop.check)


def answer_folder(store: str | Path, llm: str) -> Path:
    """Return the folder of a language model's answers."""
    return Path(store) / "llm" / llm
