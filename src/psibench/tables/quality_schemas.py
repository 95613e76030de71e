"""Declared schemas of what is known about translations and domains: quality, agreement, shifts."""

from psibench.tables.spec import FLOAT64, INT32, INT64, STRING, Column, TableSpec

DIMENSION_TEXT = "fluency, accuracy, completeness, style, or overall (mean of the four)"

TRANSLATION_QUALITY = TableSpec(
    "translation_quality",
    (
        Column("language", STRING, "language translated to, or all"),
        Column("domain", STRING, "domain, or all"),
        Column("length_bin", STRING, "Q1..Q4 by tokens of the source, or all"),
        Column("dimension", STRING, DIMENSION_TEXT),
        Column("n", INT64, "documents graded"),
        Column("n_unjudged", INT64, "documents of the sample without a usable grade"),
        Column("mean", FLOAT64, "mean grade, 1 to 5; null without grades", True),
        Column("sd", FLOAT64, "sample standard deviation; null below two grades", True),
    ),
    key=("language", "domain", "length_bin", "dimension"),
)

TRANSLATOR_QUALITY = TableSpec(
    "translator_quality",
    (
        Column("translator", STRING, "name of the translator in the config"),
        *TRANSLATION_QUALITY.columns,
    ),
    key=("translator", *TRANSLATION_QUALITY.key),
)

TRANSLATION_AGREEMENT = TableSpec(
    "translation_agreement",
    (
        Column(
            "annotator",
            STRING,
            "all: every grade by a person on its own; mean: the mean of a document's annotators; "
            "else one annotator",
        ),
        Column("language", STRING, "language translated to, or all"),
        Column("dimension", STRING, f"{DIMENSION_TEXT}; all: the grades of the four together"),
        Column("n", INT64, "pairs of a person's and the language model's grade"),
        Column("n_unmatched", INT64, "grades by people without one by the language model"),
        Column("within_one", FLOAT64, "share of pairs at most 1 apart", True),
        Column("mae", FLOAT64, "mean absolute difference", True),
        Column("mean_human", FLOAT64, "mean of the people's grades of the pairs", True),
        Column("mean_llm", FLOAT64, "mean of the language model's grades of the pairs", True),
    ),
    key=("annotator", "language", "dimension"),
)

TRANSLATION_CONFUSION = TableSpec(
    "translation_confusion",
    (
        Column("language", STRING, "language translated to, or all"),
        Column("dimension", STRING, "fluency, accuracy, completeness, style, or all of them"),
        Column("human", INT32, "grade by a person, 1 to 5"),
        Column("llm", INT32, "grade by the language model, 1 to 5"),
        Column("n", INT64, "pairs with these grades"),
        Column("share", FLOAT64, "share of the pairs with this grade by a person", True),
    ),
    key=("language", "dimension", "human", "llm"),
)

RELOCATION = TableSpec(
    "relocation",
    (
        Column("language", STRING, "language translated to"),
        Column("domain", STRING, "domain, or all"),
        Column("method", STRING, "how the evidence was found again, or all"),
        Column("n_queries", INT64, "queries"),
        Column("n_located", INT64, "queries whose evidence was found in the translation"),
        Column("share_located", FLOAT64, "share of queries", True),
        Column(
            "median_shift",
            FLOAT64,
            "median of |relative position in the original - in the translation|, located ones; "
            "by sentences: of the whole sentences in both",
            True,
        ),
        Column("share_within_0.05", FLOAT64, "share of located ones that moved at most 0.05", True),
    ),
    key=("language", "domain", "method"),
)

DOMAIN_SIMILARITY = TableSpec(
    "domain_similarity",
    (
        Column("benchmark", STRING, "benchmark id"),
        Column("language", STRING, "language of the documents"),
        Column("model", STRING, "model whose vectors are compared"),
        Column("domain_a", STRING, "domain"),
        Column("domain_b", STRING, "domain"),
        Column("cosine", FLOAT64, "cosine of the means of the domains' document vectors", True),
    ),
    key=("benchmark", "language", "model", "domain_a", "domain_b"),
)
