"""What the filters share: parts and targets, decisions with their reasons, and the ledger of both.

Rerankers and judges are asked in order. An item that fails under one of them is decided there: no
later one scores it, and what a later one says of it is not read. Decisions are therefore the same
whether everything was scored or only what was needed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from psibench.config.base import Section
from psibench.tables.build_schemas import FLOW
from psibench.tables.dropped import DROPPED_SCHEMA, Flow, as_attrition, flow_frame
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import ATTRITION
from psibench.tables.spec import TableSpec
from psibench.text.segments import POSITIONS, equal_segments, tag_posq


class FilterSection(Section):
    """What a filter of candidates has in a benchmark's section, in a field of the filter's name.

    It writes a table of that name with the candidates it keeps, beside NAME.dropped and NAME.flow.
    """

    flow_step: ClassVar[int]
    """Which filter comes first, and the place in FLOW: the same whatever else a benchmark has, so
    that one that is taken out reruns nothing but what comes after it."""


PROPOSE, LOCATE = "propose_questions", "locate_span"
"""PosIR's tasks before the evidence of a question is located."""

SPAN_PARTS = ("document", "removed")
PART_TEXT = "what of the document: beginning, middle, end, removed (without the span) or document"
SCORE_TEXT = "score in [0, 1]; null for an empty text"
RAW_TEXT = "the reranker's own score, unbounded; null as for score"

NO_TARGET = "no_target"  # no target position is declared
NO_OTHER_SEGMENT = "no_other_segment"  # every segment is a target, so none is left to compare with
EMPTY_SEGMENT = "empty_segment"  # a segment has no text (a document of fewer than three characters)
SPAN_IS_DOCUMENT = "span_is_document"  # nothing is left of the document without the span
TARGET_NOT_FIRST = "target_not_first"  # another segment scores as high as the target or higher
MARGIN_BELOW = "margin_below_threshold"  # the target leads by less than the threshold
SPAN_NOT_NEEDED = "span_not_needed"  # without the span the document scores as high or higher
NO_GRADE = "no_grade"  # a judge gave no usable grade
GRADE_LOW = "grade_low"  # the grade is below the lowest one allowed
GRADE_NOT_ABOVE = "grade_not_above_others"  # the grade does not lead the others by enough
MAJORITY_POSITIVE = "majority_positive"  # enough rerankers score the document as relevant
JUDGED_RELEVANT = "judged_relevant"  # enough judges grade the document as relevant
ABOVE_POSITIVE = "above_positive"  # the document scores above the query's positive
UNUSABLE_VOTE = "unusable_vote"  # not positive, but might be if all votes could be used
FALSE_NEGATIVE = "false_negative"  # a document other than the positive counts as relevant
POSITIVE_REMOVED = "positive_removed"  # the query's positive was removed from the corpus
NOT_SAMPLED = "not_sampled"  # not drawn when the sample was balanced or cut
REPEATED_TEXT = "repeated_text"  # its text is in the sample already

DECISIONS: Mapping[str, Any] = {
    "item_id": pl.String,
    "kept": pl.Boolean,
    "reason": pl.String,
    "score": pl.Float64,
    "decided_by": pl.String,
    "detail": pl.String,
}
"""What a rule says of queries or documents: the reason code is empty where one is kept; the score
that decided and whose it is (a reranker's, a judge's, a document's) are null without one; so is
``detail``, what else explains the reason."""


def as_table(
    spec: TableSpec, rows: pl.DataFrame | Iterable[Mapping[str, object]] = ()
) -> pl.DataFrame:
    """Make a frame of a declared table; NaN, and columns that a given frame lacks, become null."""
    schema = spec.empty().schema
    if not isinstance(rows, pl.DataFrame):
        rows = pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema)
    return with_schema(rows, schema).with_columns(pl.selectors.float().fill_nan(None))


def with_schema(rows: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Give a frame the columns of a schema, in its order and types; those it lacks are null."""
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None).alias(name)).cast(kind)
        for name, kind in schema.items()
    )


# Parts of a document, and those that have to score above the others.


def part_text(text: str, span: Sequence[int], part: str) -> str:
    """Return a part of a document: a third of it, ``document``, or ``removed``.

    ``removed`` is the document without the characters of ``span``, [start, end).
    """
    if part == "document":
        return text
    if part == "removed":
        return text[: span[0]] + text[span[1] :]
    start, end = equal_segments(len(text))[POSITIONS.index(part)]
    return text[start:end]


def all_parts(queries: pl.DataFrame, parts: Sequence[str]) -> pl.DataFrame:
    """List ``query_id`` and ``part``: every part of the document of every query, in this order."""
    each = pl.lit(list(parts), dtype=pl.List(pl.String))
    return queries.select("query_id", part=each).explode("part")


def evidence_targets(candidates: pl.DataFrame) -> pl.DataFrame:
    """List ``query_id`` and ``targets``, the thirds a query is aimed at, and a known length bin.

    These are all thirds of the chunk where the recipe lists them (under ``tagging: myopic`` a
    chunk may have two), else the target position; none makes an empty list.
    """
    nothing = pl.lit([], dtype=pl.List(pl.String))
    if "positions" in candidates.columns:
        targets = pl.col("positions").fill_null(nothing)
    else:
        known = pl.col("target_position").is_not_null()
        targets = pl.when(known).then(pl.concat_list("target_position")).otherwise(nothing)
    extra = [name for name in ("length_bin",) if name in candidates.columns]
    return candidates.select(pl.col("_id").alias("query_id"), targets.alias("targets"), *extra)


def target_parts(candidates: pl.DataFrame, parts: Sequence[str]) -> pl.DataFrame:
    """List ``query_id`` and ``targets``: which of the parts have to score above the others.

    Of a document and what is left of it without the evidence it is the document.
    """
    targets = evidence_targets(candidates)
    if tuple(parts) != SPAN_PARTS:
        return targets
    return targets.with_columns(targets=pl.lit(["document"], dtype=pl.List(pl.String)))


def incomparable_reason(parts: Sequence[str]) -> pl.Expr:
    """Say why ``targets`` cannot be compared with other parts; null where they can."""
    n_targets = pl.col("targets").list.len()
    return (
        pl.when(n_targets == 0)
        .then(pl.lit(NO_TARGET))
        .when(n_targets == len(parts))
        .then(pl.lit(NO_OTHER_SEGMENT))
    )


# Decisions.


def make_decisions(outcome: pl.DataFrame, reason: pl.Expr) -> pl.DataFrame:
    """Make DECISIONS rows of ``item_id`` and, where known, ``score``, ``decided_by``, ``detail``.

    ``reason`` is an item's reason code; null or empty where it is kept.
    """
    reasons = outcome.with_columns(reason=reason.fill_null(""))
    return with_schema(reasons.with_columns(kept=pl.col("reason") == ""), DECISIONS)


def kept_items(items: pl.DataFrame, decisions: pl.DataFrame, key: str = "_id") -> pl.DataFrame:
    """Leave the items that the decisions keep, in their order; an item without one is left out."""
    kept = decisions.filter("kept").select("item_id")
    return items.join(kept, left_on=key, right_on="item_id", how="semi", maintain_order="left")


# The ledger.


@dataclass(frozen=True)
class FlowStep:
    """Where what a filter dropped is counted.

    ``unit`` is what an item is called in FLOW, ``step`` the filter's place there; a further rule of
    the same stage has the next one.
    """

    unit: str
    step: int


@dataclass(frozen=True)
class Rule:
    """What one rule of a filter decided: its name in the ledger, DECISIONS, and the items' facts.

    ``facts`` has ``_id``, ``doc_id`` and what is known of ``target_position`` and ``char_length``.
    ``unit`` is what an item is called where that is not the filter's unit.
    """

    name: str
    decisions: pl.DataFrame
    facts: pl.DataFrame
    unit: str | None = None


@dataclass(frozen=True)
class Filtered:
    """What a filter makes of one domain.

    Attributes
    ----------
    rules
        What its rules decided, in order; those of one unit have consecutive places in FLOW.
    tables
        The tables it writes, by output: those it keeps, and what else it counts.
    """

    rules: Sequence[Rule]
    tables: Mapping[str, tuple[pl.DataFrame, TableSpec]]


def run_filter(job: Job, decide: Callable[[DomainJob], Filtered], **record: Any) -> None:
    """Run a filter in every domain of a job: write what it keeps, what it drops, and the counts.

    ``record`` is what provenance has of every table: the ``params`` that decide the rows, and what
    else `Job.record` takes. The outputs ``dropped`` and ``flow`` are written here, those in
    `Filtered.tables` as they are.
    """
    place = job.value("place", FlowStep)
    for domain in job.domains():
        found = decide(domain)
        dropped, counts, n_rules = [], [], Counter[str]()
        for rule in found.rules:
            unit = rule.unit or place.unit
            left_out, count = ledger_rows(rule, step=place.step + n_rules[unit], unit=unit)
            n_rules[unit] += 1
            dropped.append(left_out)
            counts.append(count)
        rows = as_attrition(pl.concat(dropped), language=domain.language, domain=domain.name)
        domain.write("dropped", rows, ATTRITION, **record)
        domain.write("flow", pl.concat(counts), FLOW, **record)
        for name, (frame, spec) in found.tables.items():
            domain.write(name, frame, spec, **record)


def candidate_facts(candidates: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Give ``_id, doc_id, target_position, char_length, length_bin`` of every candidate.

    A candidate with two targets (Myopic) has the position of the single-tag rule, as in the steps
    before. Length and bin are those of its document; the bin is null where documents have none.
    """
    sizes = documents.select(
        doc_id="_id",
        char_length=pl.col("text").str.len_chars().cast(pl.Int32),
        length_bin="length_bin" if "length_bin" in documents.columns else pl.lit(None, pl.String),
    )
    asked = candidates.select("_id", "pos_char_span", "target_position", doc_id="pos_corpus_id")
    joined = asked.join(sizes, on="doc_id", how="left", maintain_order="left")
    positions = single_positions(joined, "char_length")
    return joined.select("_id", "doc_id", positions, "char_length", "length_bin")


def single_positions(items: pl.DataFrame, length: str) -> pl.Series:
    """Give every item one ``target_position``: its own, or the single tag of ``pos_char_span``."""
    columns = ("target_position", "pos_char_span", length)
    found = [
        position or tag_posq(span[0], span[1], n_chars)
        for position, span, n_chars in items.select(columns).iter_rows()
    ]
    return pl.Series("target_position", found, dtype=pl.String)


def ledger_rows(rule: Rule, *, step: int, unit: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Turn decisions into what a rule dropped (`DROPPED_SCHEMA`), in their order, and a FLOW row.

    ``detail`` says whose score decided where the decision has no detail of its own.
    """
    facts, decisions = rule.facts, rule.decisions
    known = [name for name in ("doc_id", "target_position", "char_length") if name in facts.columns]
    dropped = (
        decisions.filter(~pl.col("kept"))
        .join(facts.select(*known, item_id="_id"), on="item_id", how="left", maintain_order="left")
        .with_columns(
            stage=pl.lit(rule.name),
            unit=pl.lit(unit),
            detail=pl.coalesce("detail", pl.lit("by ") + pl.col("decided_by")),
        )
    )
    counts = Flow(unit, decisions.height, decisions.height - dropped.height)
    return with_schema(dropped, DROPPED_SCHEMA), flow_frame(rule.name, step, [counts])
