"""Code shared by the filters: parts of a document, targets, decisions with reasons, and the ledger.

Rerankers and judges score one after another. The first one that rejects an item decides on it:
later ones do not score the item, and any scores that they have are ignored. Decisions are therefore
the same whether everything was scored or only the necessary pairs. The ledger is two tables:
ATTRITION has each dropped item with its reason, FLOW the number of items that entered and left each
step.
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
    """Base of a filter's config section; its field in the benchmark has the filter's name.

    The filter writes a table of that name with the candidates it keeps, and the tables NAME.dropped
    and NAME.flow.
    """

    flow_step: ClassVar[int]
    """Number of the filter's step in FLOW, which orders the filters. It does not depend on a
    benchmark's other filters, so that removing a filter reruns only later steps."""


PROPOSE, LOCATE = "propose_questions", "locate_span"
"""PosIR's tasks: the first writes questions, the second locates their evidence (the span)."""

SPAN_PARTS = ("document", "removed")
PART_TEXT = "part of the document: beginning, middle, end, removed (without the span) or document"
SCORE_TEXT = "score in [0, 1]; null for an empty text"
RAW_TEXT = "the reranker's raw score, unbounded; null as for score"

NO_TARGET = "no_target"  # no target position is declared
NO_OTHER_SEGMENT = "no_other_segment"  # every segment is a target, so there is nothing to compare
EMPTY_SEGMENT = "empty_segment"  # a segment has no text (a document of fewer than three characters)
SPAN_IS_DOCUMENT = "span_is_document"  # the document without the span is empty
TARGET_NOT_FIRST = "target_not_first"  # another segment scores as high as the target or higher
MARGIN_BELOW = "margin_below_threshold"  # the target leads by less than the threshold
SPAN_NOT_NEEDED = "span_not_needed"  # without the span the document scores as high or higher
NO_GRADE = "no_grade"  # a judge gave no usable grade
GRADE_LOW = "grade_low"  # the grade is below the lowest one allowed
GRADE_NOT_ABOVE = "grade_not_above_others"  # the grade does not lead the others by enough
MAJORITY_POSITIVE = "majority_positive"  # enough rerankers score the document as relevant
JUDGED_RELEVANT = "judged_relevant"  # enough judges grade the document as relevant
ABOVE_POSITIVE = "above_positive"  # the document scores above the query's positive
UNUSABLE_VOTE = "unusable_vote"  # not positive, but might be if all votes were usable
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
"""A rule's decisions on queries or documents. The reason code is empty if the item is kept. The
score that decided, and the reranker, judge or document that it belongs to, are null if no score
decided; ``detail`` adds to the reason and may be null."""


def as_table(
    spec: TableSpec, rows: pl.DataFrame | Iterable[Mapping[str, object]] = ()
) -> pl.DataFrame:
    """Return rows as a frame of a declared table; NaN and missing columns become null."""
    schema = spec.empty().schema
    if not isinstance(rows, pl.DataFrame):
        rows = pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema)
    return with_schema(rows, schema).with_columns(pl.selectors.float().fill_nan(None))


def with_schema(rows: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame with the columns, order and types of a schema; missing columns become null."""
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None).alias(name)).cast(kind)
        for name, kind in schema.items()
    )


# Parts of a document, and the target parts, which have to score above the others.


def part_text(text: str, span: Sequence[int], part: str) -> str:
    """Return the text of a part of a document: a third, ``document``, or ``removed``.

    ``removed`` is the document without the characters of ``span``, [start, end).
    """
    if part == "document":
        return text
    if part == "removed":
        return text[: span[0]] + text[span[1] :]
    start, end = equal_segments(len(text))[POSITIONS.index(part)]
    return text[start:end]


def all_parts(queries: pl.DataFrame, parts: Sequence[str]) -> pl.DataFrame:
    """Return ``query_id`` and ``part`` for every query and every part, in this order."""
    each = pl.lit(list(parts), dtype=pl.List(pl.String))
    return queries.select("query_id", part=each).explode("part")


def evidence_targets(candidates: pl.DataFrame) -> pl.DataFrame:
    """Return each candidate's ``query_id``, ``targets`` (target thirds) and known length bin.

    The targets are all thirds with evidence if the recipe lists them (with ``tagging: myopic``
    there may be two), else the target position; an empty list without a target position.
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
    """Return ``query_id`` and ``targets``: the parts that have to score above the others.

    If the parts are the document and the document without its evidence, the target is the document.
    """
    targets = evidence_targets(candidates)
    if tuple(parts) != SPAN_PARTS:
        return targets
    return targets.with_columns(targets=pl.lit(["document"], dtype=pl.List(pl.String)))


def incomparable_reason(parts: Sequence[str]) -> pl.Expr:
    """Return why ``targets`` cannot be compared with other parts; null if they can."""
    n_targets = pl.col("targets").list.len()
    return (
        pl.when(n_targets == 0)
        .then(pl.lit(NO_TARGET))
        .when(n_targets == len(parts))
        .then(pl.lit(NO_OTHER_SEGMENT))
    )


# Decisions.


def make_decisions(outcome: pl.DataFrame, reason: pl.Expr) -> pl.DataFrame:
    """Return DECISIONS rows from ``item_id`` and, if known, ``score, decided_by, detail``.

    ``reason`` is the item's reason code; null or empty if it is kept.
    """
    reasons = outcome.with_columns(reason=reason.fill_null(""))
    return with_schema(reasons.with_columns(kept=pl.col("reason") == ""), DECISIONS)


def kept_items(items: pl.DataFrame, decisions: pl.DataFrame, key: str = "_id") -> pl.DataFrame:
    """Return the items that the decisions keep, in their order; others are left out."""
    kept = decisions.filter("kept").select("item_id")
    return items.join(kept, left_on=key, right_on="item_id", how="semi", maintain_order="left")


# The ledger.


@dataclass(frozen=True)
class FlowStep:
    """The unit and the step number of a filter's rows in FLOW.

    ``unit`` names the items, e.g. queries. The filter's first rule has the number ``step``, each
    further rule of the same unit the next number.
    """

    unit: str
    step: int


@dataclass(frozen=True)
class Rule:
    """A filter's rule: its name in the ledger, its DECISIONS, and facts about the items.

    ``facts`` has ``_id``, ``doc_id`` and, if known, ``target_position`` and ``char_length``.
    ``unit`` is the unit of the items if it differs from the filter's.
    """

    name: str
    decisions: pl.DataFrame
    facts: pl.DataFrame
    unit: str | None = None


@dataclass(frozen=True)
class Filtered:
    """Result of a filter for one domain.

    Attributes
    ----------
    rules
        Decisions of its rules, in order; rules of one unit have consecutive steps in FLOW.
    tables
        The filter's other tables, by output: the kept candidates, and further counts.
    """

    rules: Sequence[Rule]
    tables: Mapping[str, tuple[pl.DataFrame, TableSpec]]


def run_filter(job: Job, decide: Callable[[DomainJob], Filtered], **record: Any) -> None:
    """Run a filter in every domain of a job; write the kept and dropped items and the counts.

    ``record`` is the provenance of every table: the ``params`` that decide the rows, and other
    arguments of `Job.record`. This function writes the outputs ``dropped`` and ``flow``, and the
    tables of `Filtered.tables` unchanged.
    """
    flow_step = job.value("place", FlowStep)
    for domain in job.domains():
        filtered = decide(domain)
        dropped, counts, n_rules = [], [], Counter[str]()
        for rule in filtered.rules:
            unit = rule.unit or flow_step.unit
            left_out, count = ledger_rows(rule, step=flow_step.step + n_rules[unit], unit=unit)
            n_rules[unit] += 1
            dropped.append(left_out)
            counts.append(count)
        rows = as_attrition(pl.concat(dropped), language=domain.language, domain=domain.name)
        domain.write("dropped", rows, ATTRITION, **record)
        domain.write("flow", pl.concat(counts), FLOW, **record)
        for name, (frame, spec) in filtered.tables.items():
            domain.write(name, frame, spec, **record)


def candidate_facts(candidates: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Return ``_id, doc_id, target_position, char_length, length_bin`` of every candidate.

    A candidate with two targets (Myopic) has the position of the single-tag rule, as in the earlier
    steps. Length and bin belong to its document; the bin is null if documents have none.
    """
    sizes = documents.select(
        doc_id="_id",
        char_length=pl.col("text").str.len_chars().cast(pl.Int32),
        length_bin="length_bin" if "length_bin" in documents.columns else pl.lit(None, pl.String),
    )
    facts = candidates.select("_id", "pos_char_span", "target_position", doc_id="pos_corpus_id")
    joined = facts.join(sizes, on="doc_id", how="left", maintain_order="left")
    positions = single_positions(joined, "char_length")
    return joined.select("_id", "doc_id", positions, "char_length", "length_bin")


def single_positions(items: pl.DataFrame, length: str) -> pl.Series:
    """Return one position per item: its ``target_position``, or the single tag of its span."""
    columns = ("target_position", "pos_char_span", length)
    positions = [
        position or tag_posq(span[0], span[1], n_chars)
        for position, span, n_chars in items.select(columns).iter_rows()
    ]
    return pl.Series("target_position", positions, dtype=pl.String)


def ledger_rows(rule: Rule, *, step: int, unit: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a rule's dropped rows (`DROPPED_SCHEMA`), in order of the decisions, and its FLOW row.

    If a decision has no detail, ``detail`` names the reranker or judge whose score decided.
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
