"""Judgements of false negatives as data: who said what of which pair, and the verdict."""

from collections.abc import Sequence

import polars as pl

from psibench.build.rules.frames import as_table
from psibench.config.judging import FinewebNegatives, PosirNegatives
from psibench.tables.verify_schemas import JUDGEMENTS

RERANKER, JUDGE = "reranker", "judge"
KINDS = (RERANKER, JUDGE)
PAIR = ["query_id", "doc_id"]


def make_judgements(
    section: FinewebNegatives | PosirNegatives,
    found: pl.DataFrame,
    *,
    scores: pl.DataFrame,
    positives: pl.DataFrame,
    grades: pl.DataFrame,
) -> pl.DataFrame:
    """List what every reranker and judge said of the pairs that a verdict is about.

    Parameters
    ----------
    found
        PAIR_DECISIONS rows of the verdicts; no other pair is listed.
    scores
        PAIR_SCORES rows, those of the pairs and, for ``posir``, of the positives among them.
    positives
        ``query_id`` and ``doc_id`` of the queries' positives.
    grades
        JUDGE_GRADES rows.

    Returns
    -------
    JUDGEMENTS rows in order of the pairs, the rerankers and the judges of the panels. A vote that
    was cast stands there whether or not the verdict still needed it.
    """
    numbered = found.select(*PAIR, "reason", is_false_negative="is_positive").with_row_index("pair")
    said = [_reranker_rows(section, numbered, scores, positives)]
    if isinstance(section, FinewebNegatives):
        said.append(_judge_rows(section, numbered, grades))
    rows = pl.concat(said, how="diagonal").sort("pair", "panel", "place")
    absent = [name for name in JUDGEMENTS.column_names if name not in rows.columns]
    rows = rows.with_columns(pl.lit(None).alias(name) for name in absent)
    return as_table(JUDGEMENTS, rows.to_dict())


def _reranker_rows(
    section: FinewebNegatives | PosirNegatives,
    numbered: pl.DataFrame,
    scores: pl.DataFrame,
    positives: pl.DataFrame,
) -> pl.DataFrame:
    known = scores.filter(pl.col("reranker").is_in(section.rerankers)).fill_nan(None)
    said = numbered.join(known, on=PAIR, how="inner")
    if isinstance(section, PosirNegatives):
        own = known.join(positives, on=PAIR, how="semi").select(
            "query_id", "reranker", positive_score="score"
        )
        said = said.join(own, on=["query_id", "reranker"], how="left")
        vote = pl.col("score") > pl.col("positive_score")
    else:
        vote = pl.col("score") > section.threshold
    return _named(said.with_columns(vote.alias("vote")), RERANKER, section.rerankers)


def _judge_rows(
    section: FinewebNegatives, numbered: pl.DataFrame, grades: pl.DataFrame
) -> pl.DataFrame:
    known = grades.filter(pl.col("judge").is_in(section.judges)).drop("part")
    said = numbered.join(known, on=PAIR, how="inner")
    vote = pl.col("grade") >= section.min_grade
    return _named(said.with_columns(vote.alias("vote")), JUDGE, section.judges)


def _named(said: pl.DataFrame, kind: str, panel: Sequence[str]) -> pl.DataFrame:
    """Say who spoke, and at which place of all: the rerankers first, each panel in its order."""
    place = pl.col(kind).replace_strict(panel, range(len(panel)), return_dtype=pl.Int32)
    part = pl.lit(KINDS.index(kind))
    return said.with_columns(
        part.alias("panel"), place.alias("place"), kind=pl.lit(kind), scorer=pl.col(kind)
    )
