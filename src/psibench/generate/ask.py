"""Stage ``ask``: from documents to a language model's outcomes, and to a task's table.

A job asks one shard of one task about all domains of a language, and makes that shard's table of
the outcomes. How a model is asked (address, concurrency, patience, budget, prices) decides no
answer, so it is no parameter of a rule and no reason to rerun: a job reads it from the config it
was started with.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.generate.benchmarks import GeneratedBenchmark, parse_benchmark
from psibench.generate.recipes import step_spec, tasks_of
from psibench.lines import read_records
from psibench.llm.answer import REASKED, Outcome
from psibench.llm.asking import AskItem, OutcomeSink
from psibench.llm.prompts import PromptTemplate, load_prompt, task_requests
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings, Price, load_prices
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    TaskItem,
    replied,
    shard_documents,
)
from psibench.llm.usage import Usage
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
from psibench.translate.translate import TranslateSection

logger = logging.getLogger("psibench")

DETAIL_CHARS = 200
FILE_COLUMNS = ("id", "language", "translation")
"""What a line of a file of translations has."""


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
        """Parameters that decide the outcomes, apart from the documents."""
        return task_params(self.section, load_prompt(self.prompt)) | llm_params(self.llm)


def llm_params(llm: LlmSettings) -> dict[str, Any]:
    """Return the settings of a language model that decide its answers: parameters of the rule."""
    params = llm.model_dump(mode="json", include={"model", "revision", "sampling", "reply_format"})
    if llm.file is not None:
        path = Path(llm.file)
        params["file"] = hash_file(path) if path.is_file() else None
    return params | {"max_reasks": llm.asking.max_reasks}


def task_params(section: LlmTaskSection, prompt: PromptTemplate) -> dict[str, Any]:
    """Return the keys of a task's section that decide its items, and the template's hash."""
    params = section.model_dump(mode="json", exclude={"llm", "prompt"})
    return params | {"prompt_hash": prompt.hash}


def read_task_tables(task: LlmTask, domain: DomainJob) -> dict[str, pl.DataFrame]:
    """Read the tables a task's items are made of, by name."""
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
    """Ask a job's shard of a task, of all domains at once, and make its tables.

    Outputs: ``outcomes`` and what they used (``usage``), ``rows``, ``dropped`` and ``flow``;
    ``step`` is the task's place in FLOW. Answers are stored under ``store``/llm/ID as they arrive:
    a job that is stopped or fails asks nothing twice. ``check_stop`` raises if it has to end now.

    Raises
    ------
    InputError
        If requests remain without a reply for a reason that may pass, if the server refuses all
        requests, or if the budget is reached. Nothing is written then but the answers received.
    """
    template, shard = load_prompt(asking.prompt), Slice.parse(job.value("portion", str, default=""))
    frames = [
        shard_documents(read_task_tables(asking.task, domain), shard) for domain in job.domains()
    ]

    def requests() -> Iterator[AskItem]:  # ids are unique in a domain
        for number, tables in enumerate(frames):
            asked = task_requests(asking.task, asking.section, template, asking.llm, tables)
            for item, request in asked:
                yield AskItem(f"{number}:{item.id}", request)

    items = [list(asking.task.items(tables, asking.section)) for tables in frames]
    n_items = sum(map(len, items))
    files = {str(asking.prompt): hash_file(asking.prompt)}
    if asking.llm.file is not None:
        found = _from_file(asking, items)
        files[asking.llm.file] = hash_file(Path(asking.llm.file))
    else:
        found = {}
        with Progress(f"asking {asking.task.name}", total=n_items, unit="items") as progress:

            def keep(outcome: Outcome) -> None:
                found[outcome.item_id] = outcome
                progress.advance(1)

            totals = ask_all(
                requests(),
                asking.llm,
                store=answer_folder(job.value("store"), asking.llm_id),
                on_outcome=keep,
                prices=prices,
                check_stop=check_stop,
            )
        logger.info(
            "%s, %s: %d items, %d answered by the store, %d requests asked, %s",
            asking.task.name,
            asking.llm.model,
            totals.n_items,
            totals.n_from_store,
            totals.n_replies,
            ", ".join(f"{status} {count}" for status, count in sorted(totals.statuses.items())),
        )
        _report_forms(asking, totals)
    _refuse_unanswered(found.values(), n_items, asking)
    judge = {
        f"llm:{asking.llm_id}": "@".join(filter(None, (asking.llm.model, asking.llm.revision))),
        f"prompt:{asking.task.name}": template.hash,
    }
    made: dict[str, Any] = {
        "params": asking.params | {"task": asking.task.name, "shard": str(shard)},
        "files": files,
        "prompt_hash": template.hash,
        "revisions": judge if asking.task.judges else None,
        "llm_backend": asking.llm.backend,
        "queries_by": None if asking.task.judges else f"llm:{asking.llm.model}",
    }
    for number, domain in enumerate(job.domains()):
        outcomes = [_outcome_row(item, found[f"{number}:{item.id}"]) for item in items[number]]
        rows = pl.DataFrame(outcomes, schema=OUTCOMES.empty().schema)
        domain.write("outcomes", rows, OUTCOMES, **made)
        used = _usage_row(asking, template, rows)
        usage = pl.DataFrame([used], schema=LLM_USAGE.empty().schema)
        domain.write("usage", usage, LLM_USAGE, **made)
        gathered = gather(asking.task, asking.section, frames[number], rows)
        _warn_of_nothing(domain, asking.task, gathered)
        domain.write("rows", gathered.rows, asking.task.spec, **made)
        left_out = as_attrition(gathered.dropped, language=domain.language, domain=domain.name)
        domain.write("dropped", left_out, ATTRITION, **made)
        domain.write("flow", flow_frame(asking.task.name, step, gathered.flow), FLOW, **made)


def _warn_of_nothing(domain: DomainJob, task: LlmTask, gathered: Gathered) -> None:
    """Warn if a task keeps nothing of a domain."""
    for counts in gathered.flow:
        if counts.entered and not counts.kept:
            reasons = reasons_text(gathered.dropped.filter(unit=counts.unit))
            place = domain.job.outputs["dropped"]
            warn(
                f"{task.name} keeps none of {counts.entered} {counts.unit} of {domain.name}, "
                f"{domain.language}: {reasons}. A row for each is in {place}"
            )


def _report_forms(asking: Asking, totals: OutcomeSink) -> None:
    """Log how many replies had thoughts in them; warn of those whose form is of no use."""
    who = f"{asking.task.name}, {asking.llm.model}"
    if totals.n_with_thoughts:
        n = totals.n_with_thoughts
        logger.info("%s: thoughts removed from the replies to %d items", who, n)
    if not totals.form_reasons:
        return
    reasons = ", ".join(f"{reason} {n}" for reason, n in totals.form_reasons.most_common())
    n_without = sum(totals.statuses[status] for status in REASKED)
    warn(
        f"{who}: {totals.form_reasons.total()} replies had no usable form ({reasons}). After "
        f"{asking.llm.asking.max_reasks} further samples of each, {n_without} of {totals.n_items} "
        "items have no value and are dropped. What helps is in docs/generation.md, "
        '"Which part of a reply counts"'
    )


def _usage_row(asking: Asking, template: PromptTemplate, outcomes: pl.DataFrame) -> dict[str, Any]:
    """Sum up what outcomes used; items that asked the same share one request."""
    asked = outcomes.unique("key", keep="first", maintain_order=True)
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    return {
        "stage": asking.task.name,
        "llm": asking.llm_id,
        "model": asking.llm.model,
        "backend": asking.llm.backend,
        "n_items": outcomes.height,
        "n_ok": outcomes.filter(pl.col("status") == "ok").height,
        "n_requests": asked["n_replies"].sum(),
        **{name: asked[name].sum() for name in names},
        "prompt_hash": template.hash,
    }


def _from_file(asking: Asking, items: Sequence[Sequence[TaskItem]]) -> dict[str, Outcome]:
    """Return the outcomes of a translator that is a file, by number of the domain and item.

    Raises InputError if the task is no translation, or the file lacks a text or has one twice.
    """
    path, section = Path(str(asking.llm.file)), asking.section
    if not isinstance(section, TranslateSection) or asking.task.name.startswith("judge_"):
        raise InputError(
            f"{asking.task.name}: language model {asking.llm_id!r} is a file of translations; it "
            "can be a translator (translate.llm, translate.quality.translators), nothing else"
        )
    made: dict[str, str] = {}
    for line, record in read_records(path):
        if not all(isinstance(record.get(key), str) for key in FILE_COLUMNS):
            raise InputError(
                f"{path}, line {line}: expected texts id, language and translation; found "
                f"{', '.join(record)}"
            )
        if record["language"] != section.target_language:
            continue
        if record["id"] in made:
            raise InputError(f"{path}, line {line}: {record['id']!r} is there twice")
        made[record["id"]] = record["translation"]
    lacking = [item.id for of_domain in items for item in of_domain if item.id not in made]
    if lacking:
        raise InputError(
            f"{path}: {len(lacking)} of {sum(map(len, items))} texts have no translation to "
            f"{section.target_language}, {lacking[0]!r} first. Add a line for each; an empty "
            "translation counts as one that the system could not make"
        )
    return {
        f"{number}:{item.id}": Outcome(
            item_id=item.id,
            key=f"{path.name}:{section.target_language}:{item.id}",
            status="ok",
            reason="",
            value={"translation": made[item.id]},
            text=made[item.id],
            model=asking.llm.model,
            usage=Usage(),
        )
        for number, of_domain in enumerate(items)
        for item in of_domain
    }


def _refuse_unanswered(outcomes: Iterable[Outcome], n_items: int, asking: Asking) -> None:
    """Raise InputError if items have no reply and might have one the next time, or none has one."""
    found = list(outcomes)
    failed = [o for o in found if o.status == "failed"]
    if len(failed) < len(found):  # a request refused among others speaks for itself alone
        failed = [o for o in failed if not o.is_rejected]
    if not failed:
        return
    reasons = Counter(outcome.reason for outcome in failed)
    may_pass = not all(outcome.is_rejected for outcome in failed)
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


# What is made of outcomes


def gather(
    task: LlmTask,
    section: LlmTaskSection,
    tables: Mapping[str, pl.DataFrame],
    outcomes: pl.DataFrame,
) -> Gathered:
    """Make a task's rows; unusable replies are added to what it dropped, with their reasons.

    ``char_length`` of what was dropped is that of its document.
    """
    usable = outcomes.filter(pl.col("status") == "ok")
    found = task.gather(tables, section, replied(usable))
    unusable = _unusable(task, outcomes.filter(pl.col("status") != "ok"))
    dropped = pl.concat([unusable, found.dropped]).drop("char_length")
    lengths = tables["documents"].select(
        doc_id="_id", char_length=pl.col("text").str.len_chars().cast(pl.Int32)
    )
    dropped = dropped.join(lengths, on="doc_id", how="left", maintain_order="left")
    counts = {task.unit: Flow(task.unit, outcomes.height, usable.height)}
    for flow in found.flow:
        n_unusable = outcomes.height - usable.height if flow.unit == task.unit else 0
        counts[flow.unit] = Flow(flow.unit, flow.entered + n_unusable, flow.kept)
    return Gathered(found.rows, dropped, tuple(counts.values()))


def _unusable(task: LlmTask, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Turn outcomes without a value into dropped rows: the status is the reason."""
    return dropped_frame(
        Dropped(
            task.name,
            task.unit,
            row["item_id"],
            row["doc_id"],
            row["status"],
            f"{row['reason']}: {row['reply'] or ''}"[:DETAIL_CHARS],
            target_position=row["target_position"],
        )
        for row in outcomes.iter_rows(named=True)
    )


# The stage


def asked_of(
    config: Mapping[str, Any], *, benchmark: str, task: str, language: str, prompt: str | Path
) -> tuple[Asking, dict[str, Price]]:
    """Return what an ``ask`` job asks of whom, and the prices, from the composed config."""
    section = parse_benchmark(config["benchmarks"][benchmark])
    found = translation_task(task)
    if found is not None:
        chosen: LlmTaskSection = translating_section(
            section.translate, task, source_language=section.language, language=language
        )
    else:
        assert isinstance(section, GeneratedBenchmark)
        ((found, chosen),) = (one for one in tasks_of(section) if one[0].name == task)
    llm = LlmSettings.model_validate(config["llms"][chosen.llm])
    return Asking(found, chosen, chosen.llm, llm, Path(prompt)), load_prices(config["prices"])


@stage("ask", version=7)
def ask(job: Job) -> None:
    """Ask a shard of a task about all domains of a language, and make its tables.

    Inputs: the tables that the task reads, and ``prompt``. Outputs: see `ask_domains`.
    """
    asking, prices = asked_of(
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
