"""Declared schemas of verification: scores, judgements and the decisions made on them.

Where a score is nullable, null means that there was no text to score (an empty segment), NaN that
the scorer was asked and returned no number.
"""

import pyarrow as pa

from psibench.tables.spec import BOOL, FLOAT64, INT32, STRING, Column, TableSpec
from psibench.tables.verify_report_schemas import VERIFY_REPORT_SPECS

PART_TEXT = "what of the document: beginning, middle, end, removed (without the span) or document"
SCORE_TEXT = "score in [0, 1]; null for an empty text, NaN if the reranker gave no number"
RAW_TEXT = "the reranker's own score, unbounded; null and NaN as for score"

SEGMENT_SCORES = TableSpec(
    "segment_scores",
    (
        Column("query_id", STRING, "query id"),
        Column("reranker", STRING, "reranker id"),
        Column("part", STRING, PART_TEXT),
        Column("score", FLOAT64, SCORE_TEXT, True),
        Column("raw", FLOAT64, RAW_TEXT, True),
    ),
    key=("query_id", "reranker", "part"),
)

PAIR_SCORES = TableSpec(
    "pair_scores",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id"),
        Column("reranker", STRING, "reranker id"),
        Column("score", FLOAT64, SCORE_TEXT, True),
        Column("raw", FLOAT64, RAW_TEXT, True),
    ),
    key=("query_id", "doc_id", "reranker"),
)

JUDGE_GRADES = TableSpec(
    "judge_grades",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document the text is (a part of)"),
        Column("judge", STRING, "id of the language model"),
        Column("part", STRING, PART_TEXT),
        Column("grade", INT32, "relevance, 0 to 4; null if the judge gave no usable grade", True),
    ),
    key=("query_id", "doc_id", "judge", "part"),
)

TARGETS = TableSpec(
    "targets",
    (
        Column("query_id", STRING, "query id"),
        Column("targets", pa.list_(STRING), "beginning, middle, end: those targeted; or none"),
    ),
    key=("query_id",),
    open=True,
)

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

PAIR_DECISIONS = TableSpec(
    "pair_decisions",
    (
        Column("rule", STRING, "rule that decided"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id"),
        Column("is_positive", BOOL, "whether the document counts as relevant: a false negative"),
        Column("reason", STRING, "reason code; empty if votes against it settled it"),
        Column("score", FLOAT64, "score of the vote that settled it", True),
        Column("decided_by", STRING, "reranker or judge of that vote"),
        Column("n_yes", INT32, "votes for it until it was settled"),
        Column("n_votes", INT32, "votes until it was settled"),
    ),
    key=("rule", "query_id", "doc_id"),
)

JUDGEMENTS = TableSpec(
    "judgements",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id; a document that was removed is in the raw corpus"),
        Column("kind", STRING, "reranker or judge"),
        Column("scorer", STRING, "id of the reranker or language model"),
        Column("score", FLOAT64, "reranker: score in [0, 1]; null if it gave none", True),
        Column("raw", FLOAT64, "reranker: its own score, unbounded; null if it gave none", True),
        Column("positive_score", FLOAT64, "protocol posir: score of the query's positive", True),
        Column("grade", INT32, "judge: relevance, 0 to 4; null without a usable reply", True),
        Column("vote", BOOL, "whether that speaks for relevance; null if it cannot be used", True),
        Column("is_false_negative", BOOL, "verdict on the pair, the same in all its rows"),
        Column("reason", STRING, "reason code of the verdict; empty if votes against settled it"),
    ),
    key=("query_id", "doc_id", "kind", "scorer"),
)

MARGINS = TableSpec(
    "margins",
    (
        Column("query_id", STRING, "query id"),
        Column("margin", FLOAT64, "consensus margin in [-1, 1]; null if there is none", True),
        Column("reranker", STRING, "least favourable reranker, the first of equal ones", True),
        Column("is_exact", BOOL, "false where margin is null or, scoring having stopped, a bound"),
        Column("reason", STRING, "why there is no margin; empty if there is one"),
    ),
    key=("query_id",),
)

VOTES = TableSpec(
    "votes",
    (
        Column("query_id", STRING, "query id"),
        Column("reranker", STRING, "reranker id"),
        Column("passes", BOOL, "whether the query passes under it alone; null if unknown", True),
        Column("gap", FLOAT64, "score of the target (or full text) less the best other", True),
    ),
    key=("query_id", "reranker"),
)

VERIFY_SPECS = (
    SEGMENT_SCORES,
    PAIR_SCORES,
    JUDGE_GRADES,
    TARGETS,
    DECISIONS,
    PAIR_DECISIONS,
    JUDGEMENTS,
    MARGINS,
    VOTES,
    *VERIFY_REPORT_SPECS,
)
