"""The papers' tables whose figures are not rows of the result tables: columns of each file."""

from psibench.report.published import PUBLISHED_SPECS as COUNT_SPECS
from psibench.report.published_tables import (
    CONTROLLED_11,
    MODELS,
    NDCG,
    POSIR_2_CORRELATIONS,
    POSIR_4,
    POSIR_5,
    POSIR_6,
    POSIR_7,
    POSIR_8,
    POSIR_9,
    POSQ_4,
    RETRIEVAL_SPECS,
)
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec

_MODEL = Column("model", STRING, "base model as the paper names it")
_TRAINING = Column("training", STRING, "where the evidence of the training data lay")
_DATASET = Column("dataset", STRING, "BEIR dataset, or all: the mean of the four")
CONTROLLED_4 = TableSpec(
    "controlled_table4",
    (_DATASET, _TRAINING, Column("ndcg_at_10", FLOAT64, NDCG)),
    key=("dataset", "training"),
)
CONTROLLED_5 = TableSpec(
    "controlled_table5",
    (
        _MODEL,
        _TRAINING,
        Column("peak", INT64, "place of the evidence, 1 to 10, with the highest cosine"),
        Column("lowest", INT64, "place with the lowest cosine"),
        Column("difference_x1000", FLOAT64, "their difference x 1000"),
    ),
    key=("model", "training"),
)
CONTROLLED_9 = TableSpec(
    "controlled_table9",
    (_MODEL, Column("checkpoint", STRING, "name on the hub")),
    key=("model",),
)
CONTROLLED_10 = TableSpec(
    "controlled_table10",
    (Column("parameter", STRING, "of the training"), Column("value", STRING, "its value")),
    key=("parameter",),
)
CONTROLLED_12 = TableSpec(
    "controlled_table12",
    (
        _MODEL,
        _TRAINING,
        *(
            Column(f"{origin}_{order}", FLOAT64, NDCG)
            for origin in ("front", "back")
            for order in ("original", "reversed")
        ),
        Column("gap", FLOAT64, "back_reversed - front_reversed"),
    ),
    key=("model", "training"),
)
CONTROLLED_13 = TableSpec(
    "controlled_table13",
    (
        _MODEL,
        _TRAINING,
        *(Column(f"p{i}", FLOAT64, "cosine, evidence at that place") for i in range(1, 11)),
        Column("range_x1000", FLOAT64, "(highest - lowest) x 1000"),
    ),
    key=("model", "training"),
)
CONTROLLED_14 = TableSpec(
    "controlled_table14",
    (_MODEL, _DATASET, _TRAINING, Column("ndcg_at_10", FLOAT64, NDCG)),
    key=("model", "dataset", "training"),
)
NEEDLES_1 = TableSpec(
    "needles_table1",
    (
        Column("datasets", STRING, "own: those of the fine-tuning; external: others"),
        Column("variant", STRING, "original, finetuned, or improvement: their difference"),
        *(Column(name, FLOAT64, "mean cosine") for name in ("beginning", "middle", "end")),
    ),
    key=("datasets", "variant"),
)
OTHER_SPECS = (
    POSIR_2_CORRELATIONS,
    POSIR_4,
    POSIR_5,
    POSIR_6,
    POSIR_7,
    POSIR_8,
    POSIR_9,
    POSQ_4,
    CONTROLLED_4,
    CONTROLLED_5,
    *COUNT_SPECS[:3],
    CONTROLLED_9,
    CONTROLLED_10,
    CONTROLLED_11,
    CONTROLLED_12,
    CONTROLLED_13,
    CONTROLLED_14,
    NEEDLES_1,
)
"""Tables shown as printed, in the page's order."""
PUBLISHED_FILES = (*RETRIEVAL_SPECS, *OTHER_SPECS, *COUNT_SPECS[3:], MODELS)
"""Every file of ``config/published``."""
