"""A filter by a language model's grades, and the pairs that judges see.

- ``segments`` (PosQ, appendix A.2, stage 1b): the target third has a grade of at least
  ``min_grade``, and leads every other third by at least ``min_lead``.
- ``span`` (PosIR, section 2.3, appendix C.3): the document has a grade of at least ``min_grade``,
  and a higher grade than without the span. (PosIR's formula is missing in print; "highly relevant"
  is read as 3 or more.)

A query is dropped if the judge gave no usable grade where one is needed. If a query has several
targets, the best grade counts. Grading takes at most two rounds: first the targets (or the whole
document), then the other parts of candidates that are still undecided. A part without text is not
sent to a judge and has no grade.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import polars as pl
from pydantic import Field

from psibench.filters.decide import (
    GRADE_LOW,
    GRADE_NOT_ABOVE,
    NO_GRADE,
    SPAN_PARTS,
    Filtered,
    FilterSection,
    Rule,
    all_parts,
    candidate_facts,
    incomparable_reason,
    kept_items,
    make_decisions,
    part_text,
    run_filter,
    target_parts,
)
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    LlmTaskSection,
    Replied,
    Tables,
    TaskItem,
    with_judgements,
)
from psibench.tables.build_schemas import CANDIDATES, GRADES, PAIRS, VERDICTS
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage
from psibench.text.segments import POSITIONS

# Config.


class Grade(FilterSection, LlmTaskSection):
    """A language model grades relevance from 0 to 4; low or undecided candidates are dropped.

    Grading takes two rounds: the first decides most candidates, the second the remaining ones.
    """

    flow_step = 22  # after its two rounds

    rule: Literal["segments", "span"] | None = None
    """segments: the target third has a grade of at least min_grade and leads every other third by
    at least min_lead (PosQ, appendix A.2). span: the document has a grade of at least min_grade,
    and a higher one than without the evidence (PosIR, 2.3). null: span for posir, segments for the
    others."""
    min_grade: int = Field(default=3, ge=0, le=4)
    """Lowest grade of the target, or of the whole document."""
    min_lead: int = Field(default=1, ge=1, le=4)
    """Least lead of the target over every other third (rule segments)."""

    @property
    def rule_label(self) -> str:
        """Name of the rule in decisions and in the ledger."""
        return "span_grades" if self.rule == "span" else "segment_grades"

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the document that are graded, by the names of `part_text`."""
        return SPAN_PARTS if self.rule == "span" else POSITIONS

    @property
    def least_lead(self) -> int:
        """Smallest lead of the target that passes; under ``span`` any lead does."""
        return 1 if self.rule == "span" else self.min_lead


# The rules.


def wanted_gradings(section: Grade, known: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Return the ``query_id`` and ``part`` to grade next, in order of both.

    These are first the targets, then the other parts of candidates whose target has a high enough
    grade. The result is empty once all candidates are decided.
    """
    graded = _with_grades(section, known, candidates)
    is_target, is_ungraded = pl.col("is_target"), pl.col("is_known").is_null()
    is_first_round = (is_ungraded & is_target).any().over("query_id")
    is_high = (_best(is_target) >= section.min_grade).fill_null(False).over("query_id")
    is_next = pl.when(is_first_round).then(is_target).otherwise(~is_target & is_high)
    is_comparable = incomparable_reason(section.parts).is_null()
    return graded.filter(is_comparable & is_ungraded & is_next).select("query_id", "part")


def decide_grades(section: Grade, known: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Decide on candidates: keep those whose target has a high grade that leads the other parts.

    ``known`` has ``query_id``, ``part`` and ``grade``, null without a usable reply or without text.
    Returns DECISIONS rows, one per candidate, in their order. ``score`` is the target's grade if it
    is too low, else its lead. Reasons: no_target, no_other_segment, no_grade, grade_low,
    grade_not_above_others.
    """
    is_target, nothing = pl.col("is_target"), incomparable_reason(section.parts)
    target, lead = pl.col("target"), pl.col("target") - pl.col("other")
    graded = (
        _with_grades(section, known, candidates)
        .group_by("query_id", maintain_order=True)
        .agg(pl.first("targets"), target=_best(is_target), other=_best(~is_target))
        .with_columns(nothing=nothing)
    )
    is_low, is_compared = target < section.min_grade, pl.col("nothing").is_null()
    reason = (
        pl.when(~is_compared)
        .then("nothing")
        .when(is_low)
        .then(pl.lit(GRADE_LOW))
        .when(lead.is_null())
        .then(pl.lit(NO_GRADE))
        .when(lead < section.least_lead)
        .then(pl.lit(GRADE_NOT_ABOVE))
    )
    outcome = graded.with_columns(
        item_id="query_id",
        score=pl.when(is_compared).then(pl.when(is_low).then(target).otherwise(lead)),
        decided_by=pl.when(is_compared).then(pl.lit(section.llm)),
    )
    return make_decisions(outcome, reason)


def _with_grades(section: Grade, known: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Return a row per candidate and part, with ``grade`` and ``is_target``.

    ``is_known`` is null if the part was not graded.
    """
    targets = target_parts(candidates, section.parts)
    parts, on = all_parts(targets, section.parts), ["query_id", "part"]
    return (
        parts.join(targets, on="query_id", how="left", maintain_order="left")
        .join(known.with_columns(is_known=True), on=on, how="left", maintain_order="left")
        .with_columns(is_target=pl.col("targets").list.contains(pl.col("part")))
    )


def _best(of: pl.Expr) -> pl.Expr:
    """Return the highest grade of the parts; null if a part has no grade."""
    grades = pl.col("grade").filter(of)
    return pl.when(grades.null_count() == 0).then(grades.max())


# Pairs that judges see.


def part_pairs(
    candidates: pl.DataFrame, documents: pl.DataFrame, wanted: pl.DataFrame
) -> pl.DataFrame:
    """Return the PAIRS of candidates with parts of their documents, without blank parts.

    ``wanted`` has the ``query_id`` and ``part`` of the pairs, in their order.
    """
    spans = candidates.select("pos_char_span", query_id="_id", doc_id="pos_corpus_id")
    pairs = wanted.join(spans, on="query_id", how="left", maintain_order="left")
    rows = _with_texts(pairs, candidates, documents)
    parts = [part_text(*row) for row in rows.select("text", "pos_char_span", "part").iter_rows()]
    return _pairs(rows.with_columns(text=pl.Series(parts, dtype=pl.String)), "part")


def document_pairs(
    pairs: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame
) -> pl.DataFrame:
    """Return the PAIRS of queries with whole documents, without documents that have no text.

    ``pairs`` has ``query_id`` and ``doc_id``, in their order.
    """
    rows = _with_texts(pairs, queries, corpus)
    return _pairs(rows.with_columns(part=pl.lit("document")), "doc_id")


def _with_texts(
    pairs: pl.DataFrame, queries: pl.DataFrame, documents: pl.DataFrame
) -> pl.DataFrame:
    query_texts = queries.select(query_id="_id", query="text")
    with_query = pairs.join(query_texts, on="query_id", how="left", maintain_order="left")
    texts = documents.select("text", doc_id="_id")
    return with_query.join(texts, on="doc_id", how="left", maintain_order="left")


def _pairs(rows: pl.DataFrame, id_column: str) -> pl.DataFrame:
    """Return the PAIRS with text on both sides; their ids join the query's id and a column."""
    has_text = [bool(a.strip() and b.strip()) for a, b in rows.select("query", "text").iter_rows()]
    with_ids = rows.with_columns(pl.format("{}--{}", "query_id", id_column).alias("_id"))
    return with_ids.filter(pl.Series(has_text, dtype=pl.Boolean)).select(PAIRS.column_names)


def known_grades(
    section: Grade, candidates: pl.DataFrame, documents: pl.DataFrame, graded: pl.DataFrame
) -> pl.DataFrame:
    """Return ``query_id, part, grade`` of GRADES rows, with null for parts without text."""
    every = all_parts(candidates.select(query_id="_id"), section.parts)
    with_text = part_pairs(candidates, documents, every)
    without_text = every.join(with_text, on=["query_id", "part"], how="anti", maintain_order="left")
    grades = graded.select("query_id", "part", "grade")
    return pl.concat([grades, without_text.with_columns(grade=pl.lit(None, pl.Int32))])


# Judging tasks.


def pairs_table(task: str) -> str:
    """Return the name of the PAIRS table that a judging task reads."""
    return f"{task}_pairs"


def grading_task(name: str) -> LlmTask:
    """Return a task that grades every pair of ``{name}_pairs`` from 0 to 4: GRADES rows."""

    def read(reply: Replied) -> int:
        return reply.value["grade"]

    # The first round grades the segments that should answer: they may all have the same grade.
    varied = ("grade",) if name == "grade_rest" else ()
    return _judging_task(name, "grade_relevance", "passage", GRADES, "grade", read, varied)


def verdict_task(name: str) -> LlmTask:
    """Return a task that answers yes or no for every pair of ``{name}_pairs``: VERDICTS rows.

    The prompt does not reveal the target segment (Controlled, appendix B).
    """

    def read(reply: Replied) -> bool:
        return reply.value["verdict"] == "yes"

    return _judging_task(name, "judge_segment", "segment", VERDICTS, "is_yes", read, ("verdict",))


def _judging_task(
    name: str,
    template: str,
    text_variable: str,
    spec: TableSpec,
    judged: str,
    read: Callable[[Replied], int | bool],
    varied: tuple[str, ...],
) -> LlmTask:
    source = pairs_table(name)

    def pairs(tables: Tables) -> pl.DataFrame:
        """Return the pairs of the given documents, by document; within one, in their order."""
        documents = tables[DOCUMENTS_TABLE].select(doc_id="_id")
        return documents.join(tables[source], on="doc_id", maintain_order="left_right")

    def items(tables: Tables, _section: Any) -> Iterator[TaskItem]:
        """Yield the items of the given documents; pairs of other shards are left out."""
        columns = ("_id", "doc_id", "query", "text")
        for pair_id, doc_id, query, text in pairs(tables).select(columns).iter_rows():
            yield TaskItem(pair_id, doc_id, {"query": query, text_variable: text})

    def gather(tables: Tables, _section: Any, replies: Iterable[Replied]) -> Gathered:
        """Return a row for every pair; the judgement is null without a usable reply."""
        values = [(reply.item_id, read(reply)) for reply in replies]
        schema = {name: spec.empty().schema[name] for name in ("_id", judged)}
        judgements = pl.DataFrame(values, schema=schema, orient="row")
        rows = with_judgements(pairs(tables), judgements)
        return Gathered(rows.select(spec.column_names))

    reads = (DOCUMENTS_TABLE, source)
    return LlmTask(name, "pairs", reads, spec, items, gather, prompt=template, varied=varied)


# The stages.


@stage("grade_pairs", version=1)
def run_grade_pairs(job: Job) -> None:
    """Write the PAIRS of a round of grading, in order of the candidates and parts.

    Inputs: ``candidates``, ``documents``, and in the second round ``first``, the GRADES of the
    first one. ``section`` has its rule filled in.
    """
    section = job.section(Grade)
    decided_by = section.model_dump(mode="json", exclude_unset=True)
    params = decided_by | {"round": 1 + job.has("first")}
    for domain in job.domains():
        candidates = domain.read("candidates", CANDIDATES)
        documents = domain.read("documents", DOCUMENTS)
        known = known_grades(section, candidates, documents, domain.read("first", GRADES))
        pairs = part_pairs(candidates, documents, wanted_gradings(section, known, candidates))
        domain.write("pairs", pairs, PAIRS, params=params)


@stage("grade", version=2)
def run_grade(job: Job) -> None:
    """Decide on every candidate; write the kept ones, the dropped ones, and the counts.

    Inputs: ``candidates``, ``documents``, and ``grades``, the GRADES of both rounds. ``section``
    has its rule filled in. Outputs: rows, dropped, flow.
    """
    section = job.section(Grade)

    def decide(domain: DomainJob) -> Filtered:
        candidates = domain.read("candidates", CANDIDATES)
        documents = domain.read("documents", DOCUMENTS)
        known = known_grades(section, candidates, documents, domain.read("grades", GRADES))
        decisions = decide_grades(section, known, candidates)
        rule = Rule(section.rule_label, decisions, candidate_facts(candidates, documents))
        return Filtered([rule], {"rows": (kept_items(candidates, decisions), CANDIDATES)})

    run_filter(job, decide, params=section.model_dump(mode="json", exclude_unset=True))
