"""Declared schemas of the tables that verification is reported in."""

from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec
from psibench.tables.study_schemas import STUDY_SPECS

CONDITION_TEXT = "all, no_margin, failed (below the lowest threshold), or m>=threshold"


def _by_position(what: str) -> tuple[Column, ...]:
    return tuple(
        Column(f"n_{position}", INT64, f"{what} with target {position}")
        for position in ("beginning", "middle", "end")
    )


def _interval(name: str, text: str) -> tuple[Column, ...]:
    return (
        Column(name, FLOAT64, f"{text}; null without a usable query", True),
        Column(f"{name}_low", FLOAT64, "lower end of its Wilson interval", True),
        Column(f"{name}_high", FLOAT64, "upper end of its Wilson interval", True),
    )


MARGIN_TABLE = TableSpec(
    "margin_table",
    (
        Column("condition", STRING, CONDITION_TEXT),
        Column("threshold", FLOAT64, "threshold of the condition", True),
        Column("n", INT64, "queries that meet the condition"),
        Column("share", FLOAT64, "their share of all queries; null if there is none", True),
        *_by_position("of them,"),
        Column("share_beginning", FLOAT64, "n_beginning / n", True),
        Column("share_middle", FLOAT64, "n_middle / n", True),
        Column("share_end", FLOAT64, "n_end / n", True),
    ),
    key=("condition",),
)

CELL_TABLE = TableSpec(
    "cell_table",
    (
        Column("condition", STRING, CONDITION_TEXT),
        Column("threshold", FLOAT64, "threshold of the condition", True),
        Column("length_bin", STRING, "length bin, or all"),
        *_by_position("queries that meet the condition,"),
        Column("budget", INT64, "smallest cell of the condition; in the row all, times bins", True),
    ),
    key=("condition", "length_bin"),
)

AUDIT_TABLE = TableSpec(
    "audit_table",
    (
        Column("stratum", STRING, "no_margin, m<low, low<=m<high or m>=high"),
        Column("low", FLOAT64, "lowest margin of the stratum", True),
        Column("high", FLOAT64, "margin the stratum stays below", True),
        Column("n", INT64, "audited queries with a usable verdict on every segment"),
        Column("n_unusable", INT64, "audited queries without: a verdict or the target is missing"),
        *_interval("target_yes", "share of queries whose target is judged to answer"),
        *_interval("distractor_no", "mean share of other segments judged not to answer"),
        *_interval("exclusive", "share of queries only whose target is judged to answer"),
    ),
    key=("stratum",),
)

RERANKER_AGREEMENT = TableSpec(
    "reranker_agreement",
    (
        Column("reranker", STRING, "reranker id"),
        Column("other", STRING, "reranker id"),
        Column("n", INT64, "queries on which both votes are known"),
        Column("n_both_pass", INT64, "queries that pass under both"),
        Column("n_both_fail", INT64, "queries that fail under both"),
        Column("agreement", FLOAT64, "share of equal votes; null if n is 0", True),
        Column("kappa", FLOAT64, "Cohen's kappa; null if chance alone gives full agreement", True),
    ),
    key=("reranker", "other"),
)

LEAVE_ONE_OUT = TableSpec(
    "leave_one_out",
    (
        Column("left_out", STRING, "reranker left out; none for the whole panel"),
        Column("target_position", STRING, "all, beginning, middle or end"),
        Column("n_entered", INT64, "queries"),
        Column("n_kept", INT64, "queries kept by the rest of the panel"),
        Column("n_gained", INT64, "of them, not kept by the whole panel"),
        Column("n_lost", INT64, "queries kept by the whole panel and not by the rest"),
        Column("share_kept", FLOAT64, "n_kept / n_entered", True),
        Column("share_of_kept", FLOAT64, "n_kept / n_kept of all positions", True),
    ),
    key=("left_out", "target_position"),
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

MIXTURES = TableSpec(
    "mixtures",
    (
        Column("configuration", STRING, "training configuration: begin, middle, end, uniform"),
        Column("query_id", STRING, "query id"),
        Column("length_bin", STRING, "length bin of its document"),
        Column("target_position", STRING, "beginning, middle or end"),
    ),
    key=("configuration", "query_id"),
)

VERIFY_REPORT_SPECS = (
    MARGIN_TABLE,
    CELL_TABLE,
    AUDIT_TABLE,
    RERANKER_AGREEMENT,
    LEAVE_ONE_OUT,
    SCORING_SAVINGS,
    MIXTURES,
    *STUDY_SPECS,
)
