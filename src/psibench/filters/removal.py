"""What leaves a benchmark for its false negatives, and what was said of them.

With ``fineweb_posq`` the questions that another document answers too are dropped; with ``posir``
the documents leave, with every query whose positive they were (`psibench.filters.negatives` says
which they are). The stage ``remove_negatives`` writes the benchmark without them, the judgements,
and the ledger.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.filters.decide import (
    FALSE_NEGATIVE,
    POSITIVE_REMOVED,
    SCORING_SAVINGS,
    Outputs,
    Place,
    as_table,
    candidate_facts,
    count_savings,
    kept_items,
    ledger_rows,
    make_decisions,
    write_ledger,
)
from psibench.filters.negatives import (
    JUDGEMENTS,
    PAIR,
    PAIR_DECISIONS,
    PAIR_SCORES,
    RULE_ABOVE,
    RULE_JUDGES,
    RULE_RERANKERS,
    FinewebNegatives,
    NegativesProtocol,
    PosirNegatives,
    Recalled,
    beside_positives,
    decide_final,
    positives_of,
    read_grades,
    scored_pairs,
)
from psibench.tables import read_table, write_table
from psibench.tables.derived import derived, read_all
from psibench.tables.domains import TablePath
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.tables.stage import stage

LEDGER_STAGE = "false_negatives"


@dataclass(frozen=True)
class Cleaned:
    """A benchmark's tables without what a protocol removes, and the DECISIONS behind it.

    Those on documents are None where a protocol leaves the corpus alone.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    query_decisions: pl.DataFrame
    document_decisions: pl.DataFrame | None = None


def remove_false_negatives(
    section: FinewebNegatives | PosirNegatives,
    found: pl.DataFrame,
    *,
    corpus: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
) -> Cleaned:
    """Remove what the protocol removes for the false negatives ``found`` (of `decide_final`).

    ``decided_by`` of a query is the document with the highest score among its false negatives (the
    first id of equal ones), of a document that pair's query; ``score`` is that score. With
    ``posir`` all false negatives leave at once: whether a query is dropped itself has no influence
    on what it removes, so the order of the queries does not matter. (The paper leaves the order
    open; query by query, with dropped queries removing nothing, fewer documents might go.) A query
    with several positives is dropped if one of them leaves.
    """
    if isinstance(section, FinewebNegatives):
        hits = best_positive_pair(found, "query_id", "doc_id")
        decisions = decisions_from_hits("false_negatives", queries, hits, FALSE_NEGATIVE)
        left = kept_items(queries, decisions), kept_items(qrels, decisions, key="query-id")
        return Cleaned(corpus, *left, decisions)
    present = corpus.select(doc_id="_id")
    removed = best_positive_pair(found.join(present, on="doc_id"), "doc_id", "query_id")
    of_documents = decisions_from_hits(RULE_ABOVE, corpus, removed, FALSE_NEGATIVE)
    hit = (
        positives_of(qrels)
        .join(removed, left_on="doc_id", right_on="item_id")
        .with_columns(is_positive=pl.lit(True))
    )
    hits = best_positive_pair(hit, "query_id", "doc_id")
    of_queries = decisions_from_hits(RULE_ABOVE, queries, hits, POSITIVE_REMOVED)
    labelled = qrels.join(
        hits, left_on="query-id", right_on="item_id", how="anti", maintain_order="left"
    ).join(removed, left_on="corpus-id", right_on="item_id", how="anti", maintain_order="left")
    return Cleaned(
        kept_items(corpus, of_documents),
        kept_items(queries, of_queries),
        labelled,
        of_queries,
        of_documents,
    )


def best_positive_pair(decided: pl.DataFrame, item: str, other: str) -> pl.DataFrame:
    """Find the positive pair with the highest score for every item that has one.

    Returns ``item_id``, ``score`` and ``decided_by`` (the other one; of equal scores the first id),
    in order of ``item_id``.
    """
    return (
        decided.filter("is_positive")
        .sort(item, "score", other, descending=[False, True, False], nulls_last=True)
        .unique(item, keep="first", maintain_order=True)
        .select("score", item_id=item, decided_by=other)
    )


def decisions_from_hits(
    rule: str, items: pl.DataFrame, hits: pl.DataFrame, reason: str
) -> pl.DataFrame:
    """Make DECISIONS rows of the items, of which those in ``hits`` are dropped."""
    known = items.select(item_id="_id").join(
        hits.with_columns(is_hit=pl.lit(True)), on="item_id", how="left", maintain_order="left"
    )
    return make_decisions(rule, known, pl.when("is_hit").then(pl.lit(reason)))


def make_judgements(
    section: FinewebNegatives | PosirNegatives,
    found: pl.DataFrame,
    *,
    scores: pl.DataFrame,
    positives: pl.DataFrame,
    grades: pl.DataFrame,
) -> pl.DataFrame:
    """List what every reranker and judge said of the pairs that a verdict is about.

    ``found`` has the PAIR_DECISIONS rows of the verdicts. Returns JUDGEMENTS rows in order of the
    pairs, the rerankers and the judges of the panels; a vote that was cast is listed whether or not
    the verdict still needed it.
    """
    pairs = found.select(*PAIR, "reason", is_false_negative="is_positive").with_row_index("pair")
    own = scores.join(positives, on=PAIR, how="semi").select(
        "query_id", "reranker", positive_score="score"
    )
    scored = pairs.join(scores.fill_nan(None), on=PAIR)
    if isinstance(section, PosirNegatives):
        scored = scored.join(own, on=["query_id", "reranker"], how="left")
        vote = pl.col("score") > pl.col("positive_score")
        judges: Sequence[str] = ()
    else:
        vote = pl.col("score") > section.threshold
        judges = section.judges
    said = scored.with_columns(vote=vote, kind=pl.lit("reranker"), scorer="reranker")
    if isinstance(section, FinewebNegatives):
        graded = pairs.join(grades, on=PAIR).with_columns(
            vote=pl.col("grade") >= section.min_grade, kind=pl.lit("judge"), scorer="judge"
        )
        said = pl.concat([said, graded], how="diagonal")
    order = [f"reranker {name}" for name in section.rerankers] + [f"judge {j}" for j in judges]
    named = pl.concat_str("kind", "scorer", separator=" ")
    place = named.replace_strict(order, range(len(order)), return_dtype=pl.Int32)
    return as_table(JUDGEMENTS, said.with_columns(place=place).sort("pair", "place"))


@stage("remove_negatives", version=1)
def run_remove_negatives(
    section: NegativesProtocol,
    *,
    place: Place,
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    negatives: TablePath,
    scores: Sequence[TablePath],
    judged: Sequence[TablePath],
    outputs: Outputs,
) -> None:
    """Remove what the protocol removes; write the benchmark, the judgements, the ledger.

    ``negatives`` has the PAIR_DECISIONS by the rerankers, ``scores`` their tables and ``judged``
    the GRADES of the judges, in their order (none for ``posir``); ``outputs`` are corpus, queries,
    qrels, judgements, dropped, flow, savings.

    Raises
    ------
    InputError
        If a grade is missing that decides, or no query is left.
    """
    documents, asked = read_table(corpus, CORPUS), read_table(queries, QUERIES)
    labelled, decided = read_table(qrels, QRELS), read_table(negatives, PAIR_DECISIONS)
    scored = read_all(scores, PAIR_SCORES)
    grades = read_grades(section.judges if isinstance(section, FinewebNegatives) else (), judged)
    recalled = beside_positives(decided, labelled)
    found = decide_final(section, decided, grades)
    left = remove_false_negatives(section, found, corpus=documents, queries=asked, qrels=labelled)
    _refuse_nothing_left(section, left, asked, where=str(queries))
    judgements = make_judgements(
        section, found, scores=scored, positives=recalled.positives, grades=grades
    )
    source = derived(
        "remove_negatives",
        [corpus, queries, qrels, negatives, *scores, *judged],
        params=section.model_dump(mode="json", exclude={"prompt", "recall"}),
    )
    write_ledger(_ledger(left, documents, asked, place), place, outputs, source)
    savings = pl.concat(_savings(section, recalled, found, scored, grades))
    for frame, name, spec in (
        (left.corpus, "corpus", CORPUS),
        (left.queries, "queries", QUERIES),
        (left.qrels, "qrels", QRELS),
        (judgements, "judgements", JUDGEMENTS),
        (savings, "savings", SCORING_SAVINGS),
    ):
        write_table(frame, outputs[name], spec, provenance=source)


def _ledger(
    left: Cleaned, corpus: pl.DataFrame, queries: pl.DataFrame, place: Place
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield what is dropped and counted: of documents, if they were decided on, and of queries."""
    where: dict[str, Any] = {"stage": LEDGER_STAGE, "step": place.step}
    if left.document_decisions is not None:
        facts = corpus.select("_id", "char_length", doc_id="_id")
        yield ledger_rows(left.document_decisions, facts, unit="documents", **where)
    facts = candidate_facts(queries, corpus)
    yield ledger_rows(left.query_decisions, facts, unit=place.unit, **where)


def _savings(
    section: FinewebNegatives | PosirNegatives,
    recalled: Recalled,
    found: pl.DataFrame,
    scores: pl.DataFrame,
    grades: pl.DataFrame,
) -> Iterator[pl.DataFrame]:
    """Count the scorings that were saved, then the gradings where judges were asked."""
    pairs, panel = scored_pairs(section, recalled), section.rerankers
    if isinstance(section, PosirNegatives):
        yield count_savings(RULE_ABOVE, scores, pairs, scorers=panel)
        return
    yield count_savings(RULE_RERANKERS, scores, pairs, scorers=panel)
    yield count_savings(RULE_JUDGES, grades, found.select(PAIR), scorers=section.judges)


def _refuse_nothing_left(
    section: FinewebNegatives | PosirNegatives, left: Cleaned, queries: pl.DataFrame, *, where: str
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
