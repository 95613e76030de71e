"""Declared schemas of filter studies and training mixtures."""

from psibench.tables.spec import BOOL, FLOAT64, INT64, STRING, Column, TableSpec

_POSITIONS = ("beginning", "middle", "end")

_CONDITION = (
    Column("condition", STRING, "all, kept; by margin: all, no_margin, failed or m>=threshold"),
    Column("threshold", FLOAT64, "threshold of the condition; null where it has none", True),
    Column("is_configured", BOOL, "whether this is the filter as the config has it"),
)

_SCORED = (
    Column("model", STRING, "model id"),
    Column("metric", STRING, "metric name, e.g. ndcg@10"),
    Column("n_queries", INT64, "queries kept"),
    Column("n_buckets", INT64, "thirds that hold a query"),
    Column("mean", FLOAT64, "mean of the metric; null without a query", True),
    Column("psi", FLOAT64, "plain PSI over thirds; null if undefined", True),
    Column("psi_low", FLOAT64, "lower end of the interval of the true PSI", True),
    Column("psi_high", FLOAT64, "upper end of the interval of the true PSI", True),
    Column("psi_same", FLOAT64, "PSI at equal documents", True),
    Column("p_shape", FLOAT64, "p against a slope or a bend, as in the PSI table", True),
)

FILTER_COUNTS = TableSpec(
    "filter_counts",
    (
        *_CONDITION,
        Column("n", INT64, "queries that meet the condition"),
        Column("share", FLOAT64, "their share of all queries; null if there is none", True),
        *(Column(f"n_{name}", INT64, f"of them, with target {name}") for name in _POSITIONS),
        *(Column(f"share_{name}", FLOAT64, f"n_{name} / n", True) for name in _POSITIONS),
    ),
    key=("condition",),
)

FILTER_PSI = TableSpec("filter_psi", (*_CONDITION, *_SCORED), key=("condition", "model", "metric"))

LEAVE_ONE_OUT_PSI = TableSpec(
    "leave_one_out_psi",
    (
        Column("left_out", STRING, "reranker left out; none for the whole panel"),
        *_SCORED,
        Column("mean_change", FLOAT64, "mean less the one under the whole panel", True),
        Column("psi_change", FLOAT64, "psi less the one under the whole panel", True),
    ),
    key=("left_out", "model", "metric"),
)

POSITION_SHIFT = TableSpec(
    "position_shift",
    (
        Column("stage", STRING, "stage that filters"),
        Column("step", INT64, "place of the stage among the others; rows are in this order"),
        Column("unit", STRING, "what is counted: questions or queries"),
        Column("target_position", STRING, "all (with or without a target), beginning, middle, end"),
        Column("n_entered", INT64, "items that entered"),
        Column("n_kept", INT64, "items kept"),
        Column("share_kept", FLOAT64, "n_kept / n_entered", True),
        Column(
            "share_of_entered", FLOAT64, "share of all targets that entered; null for all", True
        ),
        Column("share_of_kept", FLOAT64, "share of all targets kept; null for all", True),
        Column("shift", FLOAT64, "of the stage: half the sum of absolute share differences", True),
        Column("p_value", FLOAT64, "of the stage: chi-square test that all are kept alike", True),
        Column("min_expected", FLOAT64, "its smallest expected count; below 5 it is rough", True),
    ),
    key=("stage", "unit", "target_position"),
)

MIXTURE_CELLS = TableSpec(
    "mixture_cells",
    (
        Column("configuration", STRING, "training configuration"),
        Column("length_bin", STRING, "length bin of the document"),
        Column("target_position", STRING, "beginning, middle or end"),
        Column("n_retained", INT64, "queries of the cell in the retained pool"),
        Column("n_drawn", INT64, "of them, drawn for the configuration"),
        Column("budget", INT64, "the smallest cell of the pool"),
    ),
    key=("configuration", "length_bin", "target_position"),
)

STUDY_SPECS = (FILTER_COUNTS, FILTER_PSI, LEAVE_ONE_OUT_PSI, POSITION_SHIFT, MIXTURE_CELLS)
