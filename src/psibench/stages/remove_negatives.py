"""Stage ``remove_negatives``: the verdicts on false negatives, and a benchmark without them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.build.false_negatives import (
    Recalled,
    Section,
    decide_final,
    reranker_rule,
    scored_items,
    with_positives,
)
from psibench.build.judgements import make_judgements
from psibench.build.removal import Cleaned, remove_false_negatives
from psibench.build.rules.drops import dropped_rows
from psibench.build.rules.layouts import grade_layout, pair_layout
from psibench.build.rules.negatives import RULE_JUDGES
from psibench.build.rules.savings import count_savings
from psibench.config.judging import FinewebNegatives
from psibench.errors import InputError
from psibench.stages.decided import candidate_facts
from psibench.stages.negatives import read_grades
from psibench.stages.tables import derived, read_all
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.dropped import Flow, as_attrition, flow_frame
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES
from psibench.tables.verify_report_schemas import SCORING_SAVINGS
from psibench.tables.verify_schemas import JUDGEMENTS, PAIR_DECISIONS, PAIR_SCORES

STAGE, LEDGER_STAGE = "remove_negatives", "false_negatives"
DOCUMENTS_UNIT = "documents"


@dataclass(frozen=True)
class NegativesOutputs:
    """Paths of what the stage writes: the benchmark, what was judged, and the ledger."""

    corpus: str | Path
    queries: str | Path
    qrels: str | Path
    judgements: str | Path
    dropped: str | Path
    flow: str | Path
    savings: str | Path


def run_remove_negatives(
    section: Section,
    *,
    step: int,
    unit: str,
    language: str,
    domain: str,
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    negatives: str | Path,
    scores: Sequence[str | Path],
    judged: Sequence[str | Path],
    outputs: NegativesOutputs,
) -> None:
    """Remove what the protocol removes; write the benchmark, the judgements, the ledger.

    Parameters
    ----------
    step
        Place in FLOW.
    unit
        What a query is called in FLOW.
    negatives
        PAIR_DECISIONS by the rerankers.
    scores
        Score tables of the rerankers, in their order.
    judged
        GRADES of the judges, in their order; none for ``posir``.

    Raises
    ------
    InputError
        If a grade that a verdict needs is missing, or no query is left.
    """
    documents, asked = read_table(corpus, CORPUS), read_table(queries, QUERIES)
    labelled, decided = read_table(qrels, QRELS), read_table(negatives, PAIR_DECISIONS)
    scored = read_all(scores, PAIR_SCORES)
    grades = read_grades(section.judges if isinstance(section, FinewebNegatives) else (), judged)
    recalled = with_positives(decided, labelled)
    found = decide_final(section, decided, grades)
    left = remove_false_negatives(section, found, corpus=documents, queries=asked, qrels=labelled)
    _refuse_nothing_left(section, left, asked, where=str(queries))
    dropped, flow = _ledger(left, documents, asked, unit=unit, step=step)
    judgements = make_judgements(
        section, found, scores=scored, positives=recalled.positives, grades=grades
    )
    savings = pl.concat(_savings(section, recalled, found, scored, grades))
    source = derived(
        STAGE,
        [corpus, queries, qrels, negatives, *scores, *judged],
        params=section.model_dump(mode="json", exclude={"prompt", "recall"}),
    )
    for frame, path, spec in (
        (left.corpus, outputs.corpus, CORPUS),
        (left.queries, outputs.queries, QUERIES),
        (left.qrels, outputs.qrels, QRELS),
        (judgements, outputs.judgements, JUDGEMENTS),
        (as_attrition(dropped, language=language, domain=domain), outputs.dropped, ATTRITION),
        (flow, outputs.flow, FLOW),
        (savings, outputs.savings, SCORING_SAVINGS),
    ):
        write_table(frame, path, spec, provenance=source)


def _ledger(
    left: Cleaned, corpus: pl.DataFrame, queries: pl.DataFrame, *, unit: str, step: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return dropped rows and FLOW rows: of documents, if they were decided on, and of queries."""
    decided = [(unit, left.query_decisions, candidate_facts(queries, corpus))]
    if left.document_decisions is not None:
        facts = corpus.select("_id", "char_length", doc_id="_id")
        decided.insert(0, (DOCUMENTS_UNIT, left.document_decisions, facts))
    dropped = pl.concat(
        dropped_rows(decisions, facts, stage=LEDGER_STAGE, unit=name)
        for name, decisions, facts in decided
    )
    counts = [
        Flow(name, decisions.height, int(decisions.get_column("kept").sum()))
        for name, decisions, _ in decided
    ]
    return dropped, flow_frame(LEDGER_STAGE, step, counts)


def _savings(
    section: Section,
    recalled: Recalled,
    found: pl.DataFrame,
    scores: pl.DataFrame,
    grades: pl.DataFrame,
) -> Iterator[pl.DataFrame]:
    """Count the scorings that were saved, then the gradings where judges were asked."""
    yield count_savings(
        reranker_rule(section),
        scores,
        scored_items(section, recalled),
        pair_layout("score"),
        scorers=section.rerankers,
    )
    if isinstance(section, FinewebNegatives):
        yield count_savings(
            RULE_JUDGES,
            grades,
            found.select("query_id", "doc_id"),
            grade_layout("query_id", "doc_id"),
            scorers=section.judges,
        )


def _refuse_nothing_left(
    section: Section, left: Cleaned, queries: pl.DataFrame, *, where: str
) -> None:
    if left.queries.height or queries.is_empty():
        return
    if isinstance(section, FinewebNegatives):
        remedy = "raise false_negatives.threshold, min_grade or needed, choose"
    else:
        remedy = "set false_negatives.under to all, choose" if section.under == "any" else "choose"
    raise InputError(
        f"{where}: false negatives (protocol {section.protocol}) leave none of {queries.height} "
        f"queries; {remedy} other rerankers, recall fewer documents (recall.top_k), or build on "
        "more documents. What was scored and judged is kept."
    )
