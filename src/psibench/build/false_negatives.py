"""False negatives by two protocols: which pairs are scored and graded, and the verdicts.

- ``fineweb_posq``: most rerankers vote for a recalled document, then enough judges grade it as
  relevant; the questions concerned are dropped and all documents stay (PosQ, appendix A.2).
- ``posir``: a recalled document scores above the query's positive; it leaves the corpus with every
  query whose positive it was (PosIR, section 2.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.build.rules import above_positive, negatives
from psibench.build.rules.gaps import refuse_missing
from psibench.config.judging import FinewebNegatives, PosirNegatives
from psibench.errors import InputError

Section = FinewebNegatives | PosirNegatives


@dataclass(frozen=True)
class Recalled:
    """What a recall run leaves to decide on.

    Attributes
    ----------
    pairs
        ``query_id``, ``doc_id``: what was recalled, less the positives; in the run's order.
    positives
        ``query_id``, ``doc_id``: the positives of the queries that have pairs.
    """

    pairs: pl.DataFrame
    positives: pl.DataFrame


def recalled_pairs(recall: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame) -> Recalled:
    """Take the pairs to decide on from a recall run.

    Parameters
    ----------
    recall
        RUN rows; those of other queries (of other domains) are left aside.
    queries
        ``_id`` of the benchmark's queries. A query of which nothing was recalled has no pair.

    Raises
    ------
    InputError
        If the run is about other queries only.
    """
    known = queries.select(query_id="_id")
    own = recall.join(known, on="query_id", how="semi", maintain_order="left")
    if own.is_empty() and recall.height and known.height:
        raise InputError(
            f"the recall run has {recall.height} rows, none of them for one of the {known.height} "
            f"queries; first query: {known.item(0, 0)!r}, first in the run: "
            f"{recall.get_column('query_id')[0]!r}. Recall with the queries of this benchmark."
        )
    return with_positives(negatives.candidate_pairs(own, qrels), qrels)


def with_positives(pairs: pl.DataFrame, qrels: pl.DataFrame) -> Recalled:
    """Put the positives of their queries beside pairs to decide on."""
    positives = qrels.filter(pl.col("score") > 0).select(
        pl.col("query-id").alias("query_id"), pl.col("corpus-id").alias("doc_id")
    )
    own = positives.join(pairs, on="query_id", how="semi", maintain_order="left")
    return Recalled(pairs.select("query_id", "doc_id"), own)


def scored_items(section: Section, recalled: Recalled) -> pl.DataFrame:
    """List every pair that a reranker scores if it scores all: ``query_id``, ``doc_id``."""
    if isinstance(section, PosirNegatives):
        return pl.concat([recalled.positives, recalled.pairs])
    return recalled.pairs


def wanted_pairs(
    section: Section, recalled: Recalled, scores: pl.DataFrame, *, reranker: str
) -> pl.DataFrame:
    """List the pairs that one reranker of the panel has to score: ``query_id``, ``doc_id``.

    Parameters
    ----------
    scores
        PAIR_SCORES rows of all rerankers before it.

    Returns
    -------
    frame in order of the positives and the pairs; every pair if the section is ``complete``.

    Raises
    ------
    InputError
        If the panel has no such reranker, or a score of an earlier one is missing.
    """
    before = _before(reranker, section.rerankers, "reranker")
    if section.complete:
        return scored_items(section, recalled)
    if isinstance(section, FinewebNegatives):
        missing = negatives.next_reranker_votes(scores, recalled.pairs, **_voting(section))
    else:
        missing = above_positive.next_above_positive_scorings(
            scores, recalled.pairs, recalled.positives, **_voting(section)
        )
    refuse_missing(missing.filter(pl.col("reranker").is_in(before)), "reranker")
    return missing.filter(reranker=reranker).select("query_id", "doc_id")


def decide_candidates(section: Section, recalled: Recalled, scores: pl.DataFrame) -> pl.DataFrame:
    """Decide on every pair by the rerankers' scores; PAIR_DECISIONS rows.

    Raises
    ------
    InputError
        If a score that a decision needs is missing.
    """
    if isinstance(section, FinewebNegatives):
        return negatives.decide_by_rerankers(scores, recalled.pairs, **_voting(section))
    return above_positive.decide_above_positive(
        scores, recalled.pairs, recalled.positives, **_voting(section)
    )


def candidates_of(decided: pl.DataFrame) -> pl.DataFrame:
    """Take ``query_id``, ``doc_id`` of the pairs that PAIR_DECISIONS call positive."""
    return decided.filter("is_positive").select("query_id", "doc_id")


def wanted_gradings(
    section: FinewebNegatives, candidates: pl.DataFrame, grades: pl.DataFrame, *, judge: str
) -> pl.DataFrame:
    """List the candidates that one judge of the panel has to grade: ``query_id``, ``doc_id``.

    Parameters
    ----------
    grades
        JUDGE_GRADES rows of all judges before it.

    Raises
    ------
    InputError
        If the panel has no such judge, or a grade of an earlier one is missing.
    """
    before = _before(judge, section.judges, "judge")
    missing = negatives.next_judge_votes(grades, candidates, **_judging(section))
    refuse_missing(missing.filter(pl.col("judge").is_in(before)), "judge")
    return missing.filter(judge=judge).select("query_id", "doc_id")


def decide_final(section: Section, decided: pl.DataFrame, grades: pl.DataFrame) -> pl.DataFrame:
    """Give the verdict on every pair the rerankers call positive; PAIR_DECISIONS rows.

    Parameters
    ----------
    decided
        PAIR_DECISIONS rows of `decide_candidates`.
    grades
        JUDGE_GRADES rows; not read where the rerankers have the last word (``posir``).

    Raises
    ------
    InputError
        If a grade that a verdict needs is missing.
    """
    if isinstance(section, FinewebNegatives):
        return negatives.decide_by_judges(grades, candidates_of(decided), **_judging(section))
    return decided.filter("is_positive")


def reranker_rule(section: Section) -> str:
    """Name the rule of `decide_candidates`."""
    is_fineweb = isinstance(section, FinewebNegatives)
    return negatives.RULE_RERANKERS if is_fineweb else above_positive.RULE


def panel_params(section: Section) -> dict[str, Any]:
    """Return what of a section decides the rerankers' part."""
    return {"protocol": section.protocol, **_voting(section)}


def _voting(section: Section) -> dict[str, Any]:
    name = "threshold" if isinstance(section, FinewebNegatives) else "under"
    return {"rerankers": section.rerankers, name: getattr(section, name)}


def _judging(section: FinewebNegatives) -> dict[str, Any]:
    return {"judges": section.judges, "min_grade": section.min_grade, "needed": section.needed}


def _before(name: str, panel: Sequence[str], what: str) -> list[str]:
    if name not in panel:
        raise InputError(f"{what} {name!r} is not of the panel: {', '.join(panel)}")
    return list(panel[: panel.index(name)])
