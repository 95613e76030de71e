"""The papers' tables of ``config/published``: columns of each file, in the papers' units.

What the papers print as nDCG in percent stays in percent here; shares are percentages divided by
100. `psibench.report.published.read_published` reads and checks a file.
"""

from collections.abc import Sequence

from psibench.report.published import SHARE_TEXT
from psibench.tables.spec import FLOAT64, INT64, STRING, Column, TableSpec

SECTIONS = ("all", "q1", "q2", "q3", "q4")
SQUAD_COLUMNS = {
    "squad_0_100": "0-100",
    "squad_100_200": "100-200",
    "squad_200_300": "200-300",
    "squad_300_400": "300-400",
    "squad_400_500": "400-500",
    "squad_500_3120": "500-3120",
}
"""Columns of PosQ's and Myopic's tables 1, and the bucket of scheme squad each is about."""
THIRDS_COLUMNS = {f"fineweb_{name}": name for name in ("beginning", "middle", "end")}
"""The same for the scheme thirds."""

PERCENT = "nDCG@10 in percent, as printed"
NDCG = "nDCG@10 in [0, 1]"
_MODEL = Column("model", STRING, "model as the paper names it")
_TRAINING = Column("training", STRING, "where the evidence of the training data lay")


def _numbers(names: Sequence[str], text: str, *, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, FLOAT64, text, nullable) for name in names)


def _counts(names: Sequence[str], text: str) -> tuple[Column, ...]:
    return tuple(Column(name, INT64, text) for name in names)


MODELS = TableSpec(
    "models",
    (
        Column("name", STRING, "model as a paper names it"),
        Column("model", STRING, "id of the model registry"),
    ),
    key=("name",),
)
POSIR_2 = TableSpec(
    "posir_table2",
    (_MODEL, *_numbers(["mmteb", "posir", *SECTIONS[1:]], PERCENT)),
    key=("model",),
)
POSIR_2_CORRELATIONS = TableSpec(
    "posir_table2_correlations",
    (
        Column("section", STRING, "all lengths, or a length bucket"),
        Column("spearman", FLOAT64, "rank correlation of the column with MMTEB over the models"),
        Column("p", FLOAT64, SHARE_TEXT),
    ),
    key=("section",),
)
POSIR_3 = TableSpec(
    "posir_table3",
    (
        Column("setting", STRING, "monolingual or cross-lingual"),
        _MODEL,
        *_numbers(["posir", *SECTIONS[1:]], SHARE_TEXT),
    ),
    key=("setting", "model"),
)
_BY_LANGUAGE = (
    Column("section", STRING, "all lengths, or a length bucket"),
    Column("setting", STRING, "monolingual; cross-lingual: queries search the English corpus"),
    _MODEL,
    Column("language", STRING, "language of the queries"),
    Column("ndcg_at_10", FLOAT64, PERCENT),
    Column("psi", FLOAT64, SHARE_TEXT),
)
_BY_LANGUAGE_KEY = ("section", "setting", "model", "language")
POSIR_10 = TableSpec("posir_table10", _BY_LANGUAGE, key=_BY_LANGUAGE_KEY)
POSIR_11 = TableSpec("posir_table11", _BY_LANGUAGE, key=_BY_LANGUAGE_KEY)
_STATISTICS = (
    *_counts(["n_documents", "n_queries"], "documents and queries"),
    Column("share", FLOAT64, SHARE_TEXT),
    *_counts([f"tokens_{name}" for name in ("min", "q1", "median", "q3", "max")], "tokens"),
    Column("tokens_mean", FLOAT64, "tokens of a document, mean"),
)
_LANGUAGE = Column("language", STRING, "language, or all")
POSIR_4 = TableSpec("posir_table4", (_LANGUAGE, *_STATISTICS), key=("language",))
POSIR_5 = TableSpec(
    "posir_table5", (Column("domain", STRING, "domain, or all"), *_STATISTICS), key=("domain",)
)
POSIR_6 = TableSpec(
    "posir_table6",
    (
        Column("query_type", STRING, "leading interrogative, or all"),
        *_numbers(["english", "chinese"], SHARE_TEXT),
    ),
    key=("query_type",),
)
DIMENSIONS = ("fluency", "accuracy", "completeness", "style")
POSIR_7 = TableSpec(
    "posir_table7",
    (
        _LANGUAGE,
        Column("system", STRING, "translator"),
        *_numbers([*DIMENSIONS, "overall"], "mean grade from 1 to 5"),
    ),
    key=("language", "system"),
)
_DIMENSION = Column("dimension", STRING, "what was graded")
POSIR_8 = TableSpec(
    "posir_table8",
    (_DIMENSION, *_numbers(["french", "russian", "arabic", "average"], "mean grade from 1 to 5")),
    key=("dimension",),
)
POSIR_9 = TableSpec(
    "posir_table9",
    (
        _DIMENSION,
        Column("agreement", FLOAT64, SHARE_TEXT),
        Column("mae", FLOAT64, "mean absolute difference of two grades"),
    ),
    key=("dimension",),
)
_KIND = Column("kind", STRING, "sparse, dense, late-interaction or reranker")
POSQ_1 = TableSpec(
    "posq_table1",
    (
        _MODEL,
        _KIND,
        *_numbers(list(SQUAD_COLUMNS), PERCENT),
        *_numbers(["squad_psi"], SHARE_TEXT),
        *_numbers(list(THIRDS_COLUMNS), PERCENT, nullable=True),
        *_numbers(["fineweb_psi"], SHARE_TEXT, nullable=True),
    ),
    key=("model",),
)
POSQ_4 = TableSpec(
    "posq_table4",
    (
        Column("dataset", STRING, "where the passages are from"),
        _MODEL,
        *_numbers(["beginning", "middle", "end"], "cosine with the full text, mean"),
    ),
    key=("dataset", "model"),
)
MYOPIC_1 = TableSpec(
    "myopic_table1",
    (_MODEL, _KIND, *_numbers([*SQUAD_COLUMNS, *THIRDS_COLUMNS], PERCENT)),
    key=("model",),
)
_TRAINED = (
    Column("benchmark", STRING, "recipe of the benchmark"),
    _MODEL,
    _TRAINING,
    Column("ndcg_at_10", FLOAT64, NDCG),
    Column("psi", FLOAT64, SHARE_TEXT),
)
_TRAINED_KEY = ("benchmark", "model", "training")
CONTROLLED_3 = TableSpec("controlled_table3", _TRAINED, key=_TRAINED_KEY)
CONTROLLED_11 = TableSpec("controlled_table11", _TRAINED, key=_TRAINED_KEY)
RETRIEVAL_SPECS = (POSIR_2, POSIR_3, POSIR_10, POSIR_11, POSQ_1, MYOPIC_1, CONTROLLED_3)
"""Tables whose figures a run of psibench has counterparts of."""
