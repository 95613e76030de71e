"""What a task of a language model is to the stages: items to ask about, rows out of replies.

A recipe is a chain of tasks. A task is asked in shards, a shard being some of the documents with
all that earlier tasks made of them; then the outcomes of all shards are gathered into one table,
which later tasks read under the task's name.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from psibench.config.base import LlmId, Section, Template
from psibench.tables.dropped import Dropped, Flow, dropped_frame
from psibench.tables.schemas import DOCUMENTS, TableSpec
from psibench.tables.slices import Slice

Tables = Mapping[str, pl.DataFrame]

DOCUMENTS_TABLE = "documents"


class LlmTaskSection(Section):
    """What every task of a language model has."""

    llm: LlmId
    """Id of the language model: of config/llms.yaml, or of your own `llms`."""
    prompt: Template = None
    """Template, relative to the working directory; null is the shipped config/prompts/TASK.md."""


@dataclass(frozen=True)
class TaskItem:
    """One thing to ask about; its id is unique within the task, and the same in every run.

    ``values`` are all variables of the task's prompt; ``target_position`` is beginning, middle or
    end where the item has one; ``sample`` is 0 for the first answer wanted to one and the same
    prompt, 1 for the second, ...
    """

    id: str
    doc_id: str
    values: Mapping[str, Any]
    target_position: str | None = None
    sample: int = 0


@dataclass(frozen=True)
class Gathered:
    """What a task's usable replies came to: rows of its table, in order of the documents.

    ``dropped`` is what a reply held and the task refused, with reasons (`DROPPED_SCHEMA`; lengths
    of documents are put in by who gathers); ``flow`` counts what the replies held; dropped ones of
    a unit have rows in ``dropped``.
    """

    rows: pl.DataFrame
    dropped: pl.DataFrame = field(default_factory=dropped_frame)
    flow: tuple[Flow, ...] = ()


@dataclass(frozen=True)
class Replied:
    """One item with a usable reply, whose value fits the response schema of the task's template."""

    item_id: str
    doc_id: str
    target_position: str | None
    value: Any


@dataclass(frozen=True)
class LlmTask:
    """One task of a recipe.

    Attributes
    ----------
    name, unit
        Of the stage and of the table it makes; what an item is (documents, chunks, questions).
    reads, documents
        Tables its items are made of, ``documents`` first, and the schema of that one.
    spec
        Schema of the table it makes.
    items
        (tables of some documents, the task's section) -> items, in order of the documents.
    gather
        (tables of all documents, the task's section, replies in order of the documents) -> rows.
    prompt
        Task whose template it uses; None: its own.
    """

    name: str
    unit: str
    reads: tuple[str, ...]
    spec: TableSpec
    items: Callable[[Tables, Any], Iterator[TaskItem]]
    gather: Callable[[Tables, Any, Iterable[Replied]], Gathered]
    prompt: str | None = None
    documents: TableSpec = DOCUMENTS

    @property
    def template(self) -> str:
        """Name of the task as its template's header gives it."""
        return self.prompt or self.name

    @property
    def judges(self) -> bool:
        """Whether it judges what there is; other tasks write."""
        return self.prompt is not None


def replied(outcomes: pl.DataFrame) -> Iterator[Replied]:
    """Yield the usable replies among OUTCOMES rows, in their order."""
    columns = ("item_id", "doc_id", "target_position", "value")
    for item_id, doc_id, position, value in (
        outcomes.filter(pl.col("status") == "ok").select(columns).iter_rows()
    ):
        yield Replied(item_id, doc_id, position, json.loads(value))


def refusal(
    stage: str,
    unit: str,
    reply: Replied,
    reason: str,
    *,
    item_id: str | None = None,
    detail: str | None = None,
) -> Dropped:
    """Make the row of an item whose reply is refused; of a thing in the reply, by ``item_id``."""
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
    """Return the tables with a run of the documents alone, and what belongs to these.

    A table without ``doc_id`` or ``pos_corpus_id`` stays whole. What the shards make, put together
    in their order, is what one job would make.
    """
    documents = tables[DOCUMENTS_TABLE]
    low, high = shard.bounds(documents.height)
    kept = documents.slice(low, high - low)
    of_shard = dict(tables) | {DOCUMENTS_TABLE: kept}
    for name, frame in tables.items():
        column = next((key for key in ("doc_id", "pos_corpus_id") if key in frame.columns), None)
        if name != DOCUMENTS_TABLE and column is not None and kept.height < documents.height:
            ids = kept.select(pl.col("_id").alias(column))
            of_shard[name] = frame.join(ids, on=column, how="semi", maintain_order="left")
    return of_shard


def with_judgements(rows: pl.DataFrame, judgements: pl.DataFrame) -> pl.DataFrame:
    """Add judgements (``_id`` and what was judged) to rows; null without one."""
    return rows.join(judgements, on="_id", how="left", maintain_order="left", validate="1:1")
