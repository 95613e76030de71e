"""A task of a language model, for stages: items to ask about, and rows from replies.

A recipe is a sequence of tasks. A task runs in shards; a shard has some of the documents, with the
rows of earlier tasks about these documents. The outcomes of all shards are then gathered into one
table, which later tasks read under the task's name.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from psibench.config.base import LlmId, Section, Template
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.tables.schemas import DOCUMENTS, TableSpec
from psibench.tables.slices import Slice
from psibench.text.copies import INSTRUCTION_WORDS, Runs, word_runs

Tables = Mapping[str, pl.DataFrame]

DOCUMENTS_TABLE = "documents"


class LlmTaskSection(Section):
    """Common config of language model tasks."""

    llm: LlmId
    """Id of the language model: of config/llms.yaml, or of your own `llms`."""
    prompt: Template = None
    """Template, relative to the working directory, or `shipped:prompts/...`; null is the shipped
    config/prompts/TASK.md."""


@dataclass(frozen=True)
class TaskItem:
    """One item to ask about; its id is unique within the task, and the same in every run.

    ``values`` are all variables of the task's prompt; ``target_position`` is beginning, middle or
    end if the item has one; ``sample`` is 0 for the first answer to a prompt, 1 for the second, ...
    ``limits`` narrow the reply for servers that enforce a schema (`ResponseSchema`).
    """

    id: str
    doc_id: str
    values: Mapping[str, Any]
    target_position: str | None = None
    sample: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """Rows made from a task's usable replies, in order of the documents.

    ``dropped`` has the contents of replies that the task refused, with reasons (`DROPPED_SCHEMA`;
    the caller adds the documents' lengths). ``flow`` counts the contents of replies; refused ones
    of a unit have rows in ``dropped``.
    """

    rows: pl.DataFrame
    dropped: pl.DataFrame = field(default_factory=dropped_frame)
    flow: tuple[Flow, ...] = ()


@dataclass(frozen=True)
class PromptCopies:
    """Text of a template that a reply must not repeat: names of its tags, and its messages."""

    tags: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()

    @cached_property
    def _tag(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, self.tags)) or "(?!)"
        return re.compile(rf"<\s*[/\\]{{0,2}}\s*(?:{names})\s*>", re.IGNORECASE)

    @cached_property
    def _runs(self) -> Runs:
        parts = [part for text in self.messages for part in text.split("\n\n")]
        return set().union(*(word_runs(part, INSTRUCTION_WORDS) for part in parts))

    def copied(self, text: str, given: str) -> str | None:
        """Return a tag or a run of five words of the template that a reply has; None without one.

        Those in ``given``, the text that the reply is about, do not count.
        """
        given_tags = {tag.casefold() for tag in self._tag.findall(given)}
        for tag in self._tag.findall(text):
            if tag.casefold() not in given_tags:
                return str(tag)
        runs = self._runs & word_runs(text, INSTRUCTION_WORDS)
        runs = runs and runs - word_runs(given, INSTRUCTION_WORDS)
        return " ".join(min(runs)) if runs else None


NO_PROMPT = PromptCopies()


@dataclass(frozen=True)
class Replied:
    """One item with a usable reply, whose value fits the response schema of the task's template.

    ``prompt`` has what the reply must not copy, ``language`` is the documents' language; None if
    unknown.
    """

    item_id: str
    doc_id: str
    target_position: str | None
    value: Any
    prompt: PromptCopies = NO_PROMPT
    language: str | None = None


@dataclass(frozen=True)
class LlmTask:
    """One task of a recipe.

    Attributes
    ----------
    name, unit
        Name of the stage and of its table; kind of its items (documents, chunks, questions).
    reads, documents
        Tables from which items are made, ``documents`` first, and the schema of that one.
    spec
        Schema of the task's table.
    items
        (tables of some documents, the task's section) -> items, in order of the documents.
    gather
        (tables of all documents, the task's section, replies in order of the documents) -> rows.
    prompt
        Task whose template it uses; None: the template of its name.
    varied
        Fields of the reply that differ between items of any corpus; a warning says if they do not.
    wanted
        Boolean column of its rows -> meaning of false; a warning says if most are false.
    """

    name: str
    unit: str
    reads: tuple[str, ...]
    spec: TableSpec
    items: Callable[[Tables, Any], Iterator[TaskItem]]
    gather: Callable[[Tables, Any, Iterable[Replied]], Gathered]
    prompt: str | None = None
    documents: TableSpec = DOCUMENTS
    varied: tuple[str, ...] = ()
    wanted: Mapping[str, str] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """Name of the task in its template's header."""
        return self.prompt or self.name

    @property
    def judges(self) -> bool:
        """Whether the task judges existing items; other tasks write new ones."""
        return self.prompt is not None


def replied(
    outcomes: pl.DataFrame, prompt: PromptCopies = NO_PROMPT, language: str | None = None
) -> Iterator[Replied]:
    """Yield the usable replies among OUTCOMES rows, in order."""
    columns = ("item_id", "doc_id", "target_position", "value")
    for item_id, doc_id, position, value in (
        outcomes.filter(pl.col("status") == "ok").select(columns).iter_rows()
    ):
        yield Replied(item_id, doc_id, position, json.loads(value), prompt, language)


def refusal(
    stage: str,
    unit: str,
    reply: Replied,
    reason: str,
    *,
    item_id: str | None = None,
    detail: str | None = None,
) -> Dropped:
    """Return the row of a refused reply, or with ``item_id`` of a refused part of the reply."""
    return Dropped(
        stage,
        unit,
        item_id or reply.item_id,
        reply.doc_id,
        reason,
        detail,
        target_position=reply.target_position,
    )


def shard_documents(tables: Mapping[str, pl.DataFrame], shard: Slice) -> dict[str, pl.DataFrame]:
    """Return the tables with a slice of the documents, and the rows that belong to them.

    A table without ``doc_id`` or ``pos_corpus_id`` stays whole. The concatenated results of all
    shards are the result of a single job.
    """
    documents = tables[DOCUMENTS_TABLE]
    low, high = shard.bounds(documents.height)
    some = documents.slice(low, high - low)
    of_shard = dict(tables) | {DOCUMENTS_TABLE: some}
    for name, frame in tables.items():
        column = next((key for key in ("doc_id", "pos_corpus_id") if key in frame.columns), None)
        if name != DOCUMENTS_TABLE and column is not None and some.height < documents.height:
            ids = some.select(pl.col("_id").alias(column))
            of_shard[name] = frame.join(ids, on=column, how="semi", maintain_order="left")
    return of_shard


def with_judgements(rows: pl.DataFrame, judgements: pl.DataFrame) -> pl.DataFrame:
    """Add judgements (``_id`` and judged columns) to rows; null for rows without one."""
    return rows.join(judgements, on="_id", how="left", maintain_order="left", validate="1:1")
