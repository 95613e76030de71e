"""What the filters share: leads of a target, decisions with their reasons, and the ledger of both.

Rerankers are asked in order. An item that fails under one of them is decided there: no later one
scores it, and what a later one says of it is not read. Decisions are therefore the same whether
everything was scored or only what was needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from psibench.config.base import Section
from psibench.errors import InputError
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.domains import OutputPath
from psibench.tables.dropped import DROPPED_SCHEMA, as_attrition
from psibench.tables.schemas import ATTRITION
from psibench.tables.spec import BOOL, FLOAT64, INT64, STRING, Column, TableSpec
from psibench.text.segments import POSITIONS, equal_segments, tag_posq


class FilterSection(Section):
    """What a filter of candidates has in a benchmark's section, in a field of the filter's name.

    It writes a table of that name with the candidates it keeps, beside NAME.dropped and NAME.flow.
    """

    place: ClassVar[int]
    """Which filter comes first, and the place in FLOW: the same whatever else a benchmark has, so
    that one that is taken out reruns nothing but what comes after it."""


Outputs = Mapping[str, OutputPath]
"""Where a stage writes, by the names that its rule gives them."""

SPAN_PARTS = ("document", "removed")
PART_TEXT = "what of the document: beginning, middle, end, removed (without the span) or document"
SCORE_TEXT = "score in [0, 1]; null for an empty text, NaN if the reranker gave no number"
RAW_TEXT = "the reranker's own score, unbounded; null and NaN as for score"

NO_TARGET = "no_target"  # no target position is declared
NO_OTHER_SEGMENT = "no_other_segment"  # every segment is a target, so none is left to compare with
EMPTY_SEGMENT = "empty_segment"  # a segment has no text (a document of fewer than three characters)
EMPTY_DOCUMENT = "empty_document"  # the document has no text
SPAN_IS_DOCUMENT = "span_is_document"  # nothing is left of the document without the span
INVALID_SCORE = "invalid_score"  # a reranker returned no number
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

DECISIONS = TableSpec(
    "decisions",
    (
        Column("rule", STRING, "rule that decided"),
        Column("item_id", STRING, "query or document id"),
        Column("kept", BOOL, "whether the item passed the rule"),
        Column("reason", STRING, "reason code; empty if kept"),
        Column("score", FLOAT64, "score that decided; null if there is none", True),
        Column("decided_by", STRING, "whose score that is: reranker, judge or document", True),
    ),
    key=("rule", "item_id"),
)

SCORING_SAVINGS = TableSpec(
    "scoring_savings",
    (
        Column("rule", STRING, "rule the scores were made for"),
        Column("scorer", STRING, "reranker or judge, or all"),
        Column("n_complete", INT64, "scorings if everything is scored"),
        Column("n_scored", INT64, "scorings made"),
        Column("n_saved", INT64, "the difference"),
        Column("share_saved", FLOAT64, "n_saved / n_complete; null if that is 0", True),
    ),
    key=("rule", "scorer"),
)


def as_table(
    spec: TableSpec, rows: pl.DataFrame | Iterable[Mapping[str, object]] = ()
) -> pl.DataFrame:
    """Make a frame of a declared table: its columns, order and types; NaN becomes null.

    Columns that a frame lacks are null. Of rows by name every one has all columns; without rows the
    frame is empty.
    """
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


def part_text(text: str, span: Sequence[int], part: str) -> str:
    """Return a part of a document: a third of it, ``document``, or ``removed``.

    ``removed`` is the document without the characters of ``span``, [start, end); the two sides
    are joined as they are.
    """
    if part == "document":
        return text
    if part == "removed":
        return text[: span[0]] + text[span[1] :]
    start, end = equal_segments(len(text))[POSITIONS.index(part)]
    return text[start:end]


def all_parts(candidates: pl.DataFrame, parts: Sequence[str]) -> pl.DataFrame:
    """List ``query_id`` and ``part``: every part of every candidate, in order of both."""
    each = pl.lit(list(parts), dtype=pl.List(pl.String))
    return candidates.select(query_id="_id").with_columns(part=each).explode("part")


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
    return candidates.select(targets.alias("targets"), *extra, query_id="_id").select(
        "query_id", "targets", *extra
    )


def span_targets(candidates: pl.DataFrame) -> pl.DataFrame:
    """List ``query_id`` and ``targets``: the document, to be compared with ``removed``."""
    return candidates.select(query_id="_id", targets=pl.lit(["document"], dtype=pl.List(pl.String)))


def target_leads(
    scores: pl.DataFrame,
    items: pl.DataFrame,
    *,
    rerankers: Sequence[str],
    parts: Sequence[str],
) -> pl.DataFrame:
    """Compute how far the best target part of every item leads the best other part.

    Scores are laid out as (n_items, n_rerankers, n_parts): a table that is grouped by strings takes
    longer a row the more rows it has.

    ``scores`` are SEGMENT_SCORES rows, one a query, reranker and part; those of other queries,
    parts and rerankers are left aside.
    ``items`` has ``query_id`` and ``targets``.

    Returns
    -------
    (n_items * n_rerankers, ...) frame by item, then reranker: the columns of ``items``, ``item``
    and ``place`` (numbers of the item and of the reranker), ``reranker``, ``lead``, and
    ``unknown``, which says why there is no lead (null if there is one): no_target,
    no_other_segment, missing, empty_document (the part ``document`` has no text), empty_segment
    (another one has none), invalid_score.
    """
    panel = pl.DataFrame({"reranker": rerankers}).with_row_index("place")
    axes = {
        "item": items.select("query_id").with_row_index("item"),
        "place": panel,
        "which": pl.DataFrame({"part": parts}).with_row_index("which"),
    }
    found = scores.lazy().filter(pl.col("part").is_in(parts))
    for own in axes.values():
        found = found.join(own.lazy(), on=own.columns[1])
    known = found.select(*axes, "score").collect()
    at, score = tuple(known.select(*axes).to_numpy().T), known.get_column("score")
    shape = items.height, len(rerankers), len(parts)
    is_given, is_empty = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    values = np.full(shape, np.nan)
    is_given[at], is_empty[at], values[at] = True, score.is_null().to_numpy(), score.to_numpy()
    of_parts = [
        items.get_column("targets").list.contains(part).fill_null(False).to_numpy()
        for part in parts
    ]
    is_target = np.column_stack(of_parts)[:, None, :]
    best, other = (
        np.where(chosen, values, -np.inf).max(axis=-1) for chosen in (is_target, ~is_target)
    )
    reasons = {
        NO_TARGET: ~is_target.any(axis=-1),
        NO_OTHER_SEGMENT: is_target.all(axis=-1),
        "missing": ~is_given.all(axis=-1),
        EMPTY_DOCUMENT: (is_empty & (np.array(parts) == "document")).any(axis=-1),
        EMPTY_SEGMENT: is_empty.any(axis=-1),
        INVALID_SCORE: np.isnan(values).any(axis=-1),
    }
    code = np.select(list(reasons.values()), range(len(reasons)), default=len(reasons))
    unknown = pl.Series([*reasons, None]).gather(code.ravel())
    return (
        items.with_row_index("item")
        .join(panel, how="cross", maintain_order="left_right")
        .with_columns(lead=pl.Series((best - other).ravel()), unknown=unknown)
        .with_columns(lead=pl.when(pl.col("unknown").is_null()).then("lead"))
        .select(*items.columns, "item", "place", "reranker", "lead", "unknown")
    )


def first_failure(leads: pl.DataFrame, passes: pl.Expr) -> pl.DataFrame:
    """Find the first reranker under which each item fails.

    ``leads`` are of `target_leads`; ``passes`` says whether a known lead is enough. Returns the row
    of each item under that reranker, with ``fails``. Where an item passes under all of them it is
    the row with the least lead, the first of equal ones. An item that cannot be compared at all has
    no ``reranker``.

    Raises
    ------
    InputError
        If a score is missing that decides.
    """
    fails = pl.col("unknown").is_not_null() | ~passes
    place_or_lead = pl.when("fails").then(pl.col("place").cast(pl.Float64)).otherwise("lead")
    found = (
        leads.with_columns(fails=fails)
        .sort(
            "item",
            "fails",
            place_or_lead,
            "place",
            descending=[False, True, False, False],
        )
        .unique("item", keep="first", maintain_order=True)
    )
    missing = found.filter(pl.col("unknown") == "missing")
    if missing.height:
        query_id, reranker = missing.select("query_id", "reranker").row(0)
        raise InputError(
            f"no score of reranker {reranker!r} for a part of query {query_id!r} "
            f"({missing.height} such queries); score them, or leave the reranker out"
        )
    is_comparable = ~pl.col("unknown").is_in([NO_TARGET, NO_OTHER_SEGMENT]).fill_null(False)
    return found.with_columns(reranker=pl.when(is_comparable).then("reranker"))


def make_decisions(rule: str, outcome: pl.DataFrame, reason: pl.Expr) -> pl.DataFrame:
    """Make DECISIONS rows of ``item_id`` and, where known, ``score`` and ``decided_by``.

    ``reason`` is an item's reason code; null or empty where it is kept.
    """
    reasons = outcome.with_columns(reason=reason.fill_null(""), rule=pl.lit(rule))
    return as_table(DECISIONS, reasons.with_columns(kept=pl.col("reason") == ""))


def kept_items(items: pl.DataFrame, decisions: pl.DataFrame, key: str = "_id") -> pl.DataFrame:
    """Leave the items that the decisions keep, in their order; an item without one is left out."""
    kept = decisions.filter("kept").select("item_id")
    return items.join(kept, left_on=key, right_on="item_id", how="semi", maintain_order="left")


def count_savings(
    rule: str,
    scores: pl.DataFrame,
    items: pl.DataFrame,
    *,
    scorers: Sequence[str],
    parts: Sequence[str] = ("document",),
) -> pl.DataFrame:
    """Count the scorings made for a rule against those of scoring everything: SCORING_SAVINGS rows.

    One per scorer, in order, then ``all``. ``scores`` is the table the rule was decided on, its
    scorers in a column ``reranker`` or ``judge``; a row is a scoring, a null (no text to score)
    too. ``items`` has the key columns of what entered the rule.
    """
    scorer = "judge" if "judge" in scores.columns else "reranker"
    if "part" in scores.columns:
        scores = scores.filter(pl.col("part").is_in(parts))
    made = dict(scores.join(items, on=items.columns, how="semi").group_by(scorer).len().iter_rows())
    n_complete = items.height * len(parts)
    counts = [(name, n_complete, made.get(name, 0)) for name in scorers]
    counts.append(("all", n_complete * len(counts), sum(n for _, _, n in counts)))
    return as_table(
        SCORING_SAVINGS,
        (
            {
                "rule": rule,
                "scorer": name,
                "n_complete": of,
                "n_scored": n,
                "n_saved": of - n,
                "share_saved": (of - n) / of if of else None,
            }
            for name, of, n in counts
        ),
    )


@dataclass(frozen=True)
class Place:
    """Where what a filter dropped is counted.

    ``unit`` is what an item is called in FLOW, ``step`` the filter's place there; a further rule of
    the same stage has the next one.
    """

    unit: str
    step: int
    language: str
    domain: str


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
    columns = ("_id", "pos_corpus_id", "pos_char_span", "target_position")
    asked = candidates.select(columns).rename({"pos_corpus_id": "doc_id"})
    joined = asked.join(sizes, on="doc_id", how="left", maintain_order="left")
    return joined.select(
        "_id",
        "doc_id",
        single_positions(joined, "char_length"),
        "char_length",
        "length_bin",
    )


def single_positions(items: pl.DataFrame, length: str) -> pl.Series:
    """Give every item one ``target_position``: its own, or the single tag of ``pos_char_span``."""
    columns = ("target_position", "pos_char_span", length)
    found = [
        position or tag_posq(span[0], span[1], n_chars)
        for position, span, n_chars in items.select(columns).iter_rows()
    ]
    return pl.Series("target_position", found, dtype=pl.String)


def ledger_rows(
    decisions: pl.DataFrame, facts: pl.DataFrame, *, stage: str, step: int, unit: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Turn decisions into the rows of what a stage dropped, in their order, and its FLOW row.

    ``facts`` has ``_id``, ``doc_id`` and what is known of ``target_position`` and ``char_length``.
    What was dropped is in the columns of `psibench.tables.dropped`; ``detail`` says whose score
    decided.
    """
    known = [name for name in ("doc_id", "target_position", "char_length") if name in facts.columns]
    dropped = decisions.filter(~pl.col("kept")).join(
        facts.select("_id", *known),
        left_on="item_id",
        right_on="_id",
        how="left",
        maintain_order="left",
    )
    dropped = dropped.with_columns(
        stage=pl.lit(stage), unit=pl.lit(unit), detail=pl.lit("by ") + pl.col("decided_by")
    )
    counts = {"entered": decisions.height, "kept": decisions.height - dropped.height}
    flow = {"stage": stage, "step": step, "unit": unit, **counts, "dropped": dropped.height}
    return with_schema(dropped, DROPPED_SCHEMA), as_table(FLOW, [flow])


def write_ledger(
    ledger: Iterable[tuple[pl.DataFrame, pl.DataFrame]],
    place: Place,
    outputs: Outputs,
    source: Provenance,
) -> None:
    """Write ``dropped`` and ``flow`` of all rules of a stage, as `ledger_rows` makes them."""
    dropped, flow = zip(*ledger, strict=True)
    rows = as_attrition(pl.concat(dropped), language=place.language, domain=place.domain)
    write_table(rows, outputs["dropped"], ATTRITION, provenance=source)
    write_table(pl.concat(flow), outputs["flow"], FLOW, provenance=source)
