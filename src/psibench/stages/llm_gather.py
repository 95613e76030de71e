"""Stage ``gather``: the outcomes of all shards of a task become the task's table."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.llm.tasks import Gathered, LlmTask, LlmTaskSection, replied
from psibench.progress import warn
from psibench.stages.ledger import check_balance
from psibench.stages.llm_ask import read_task_tables
from psibench.tables import write_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE, OUTCOMES
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import OutputPath, TablePath
from psibench.tables.dropped import (
    Dropped,
    Flow,
    as_attrition,
    dropped_frame,
    flow_frame,
    reasons_text,
)
from psibench.tables.schemas import ATTRITION

DETAIL_CHARS = 200


def run_gather(
    task: LlmTask,
    section: LlmTaskSection,
    *,
    step: int,
    language: str,
    domain: str,
    tables: Mapping[str, TablePath],
    outcomes: Sequence[TablePath],
    rows: OutputPath,
    dropped: OutputPath,
    flow: OutputPath,
    usages: Sequence[TablePath] = (),
    usage: OutputPath | None = None,
) -> None:
    """Gather a task's shards and write its table, what it dropped, its counts.

    And what the shards used in all, where there is a place for it.
    """
    frames = read_task_tables(task, tables)
    found = in_document_order(read_all(outcomes, OUTCOMES), frames["documents"])
    gathered, counts = gather(task, section, frames, found)
    paths = [*tables.values(), *outcomes]
    source = derived("gather", paths, params={"task": task.name, **_plain(section)})
    for flow_of in counts:
        if flow_of.entered and not flow_of.kept:
            mine = gathered.dropped.filter(unit=flow_of.unit)
            warn(
                f"{task.name} keeps none of {flow_of.entered} {flow_of.unit} of {domain}, "
                f"{language}: {reasons_text(mine)}. A row for each is in {dropped}"
            )
    left_out = as_attrition(gathered.dropped, language=language, domain=domain)
    write_table(gathered.rows, rows, task.spec, provenance=source)
    write_table(left_out, dropped, ATTRITION, provenance=source)
    write_table(flow_frame(task.name, step, counts), flow, FLOW, provenance=source)
    if usage is not None:
        total = sum_usage(read_all(usages, LLM_USAGE))
        write_table(total, usage, LLM_USAGE, provenance=derived("gather", usages, params={}))


def in_document_order(outcomes: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Sort outcomes by the order of their documents; within one, they keep their order."""
    places = documents.select(doc_id="_id").with_row_index("place")
    joined = outcomes.join(places, on="doc_id", how="left", maintain_order="left")
    return joined.sort("place", maintain_order=True).drop("place")


def gather(
    task: LlmTask,
    section: LlmTaskSection,
    tables: Mapping[str, pl.DataFrame],
    outcomes: pl.DataFrame,
) -> tuple[Gathered, list[Flow]]:
    """Make a task's rows; unusable replies are added to what it dropped, with their reasons.

    Returns
    -------
    gathered, flow
        All that was dropped is accounted for: the counts of ``flow`` are those of ``dropped``.

    Raises
    ------
    AssertionError
        If they are not.
    """
    usable = outcomes.filter(pl.col("status") == "ok")
    found = task.gather(tables, section, replied(usable))
    unusable = _unusable(task, tables["documents"], outcomes.filter(pl.col("status") != "ok"))
    counts = _merge(Flow(task.unit, outcomes.height, usable.height), found.flow)
    dropped = pl.concat([unusable, found.dropped])
    foreign = set(dropped.get_column("stage")) - {task.name}
    if foreign:
        raise AssertionError(f"{task.name}: rows dropped by another stage: {sorted(foreign)}")
    check_balance(dropped, flow_frame(task.name, 0, counts))
    return Gathered(found.rows, dropped, tuple(counts)), counts


def sum_usage(usages: pl.DataFrame) -> pl.DataFrame:
    """Add up the shards' usage."""
    names = ["stage", "llm", "model", "backend", "prompt_hash"]
    total = usages.group_by(names, maintain_order=True).agg(pl.exclude(names).sum())
    return total.select(LLM_USAGE.column_names)


def _merge(asked: Flow, inside: Sequence[Flow]) -> list[Flow]:
    """Join the count of items asked with what the task counts itself in the same unit."""
    same = [flow for flow in inside if flow.unit == asked.unit]
    others = [flow for flow in inside if flow.unit != asked.unit]
    if not same:
        return [asked, *others]
    (flow,) = same
    entered = asked.entered + flow.entered - asked.kept
    return [Flow(asked.unit, entered, flow.kept), *others]


def _unusable(task: LlmTask, documents: pl.DataFrame, outcomes: pl.DataFrame) -> pl.DataFrame:
    """Turn outcomes without a value into dropped rows: the status is the reason."""
    lengths = documents.select(doc_id="_id", char_length=pl.col("text").str.len_chars())
    joined = outcomes.join(lengths, on="doc_id", how="left", maintain_order="left")
    return dropped_frame(
        Dropped(
            task.name,
            task.unit,
            row["item_id"],
            row["doc_id"],
            row["status"],
            f"{row['reason']}: {row['reply'] or ''}"[:DETAIL_CHARS],
            target_position=row["target_position"],
            char_length=row["char_length"],
        )
        for row in joined.iter_rows(named=True)
    )


def _plain(section: LlmTaskSection) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude={"llm", "prompt"})
