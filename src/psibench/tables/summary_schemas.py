"""Declared schemas of the summaries over buckets, languages, leaderboards and mitigations."""

from psibench.tables.spec import (
    BY_DOCUMENT,
    FLOAT64,
    INT64,
    STRING,
    Column,
    TableSpec,
    with_interval,
)

_BENCHMARK = Column("benchmark", STRING, "benchmark id")
_LENGTH = Column("length_bucket", STRING, "Q1..Q4 by tokens of the positive, or all")
_MODEL = Column("model", STRING, "model id")
_METRIC = Column("metric", STRING, "metric name, e.g. ndcg@10")
_VIEW = (
    Column("buckets", STRING, "bucket scheme: squad, thirds, thirds-every-tag or relative-20"),
    Column("evidence", STRING, "all, visible or whole, as in the PSI table"),
)
_SETTING = Column(
    "setting", STRING, "monolingual: queries in the documents' language; else cross-lingual"
)
_QUERIES_BY = Column("queries_by", STRING, "who wrote the queries, as in the PSI table")

POSITION_TREND = TableSpec(
    "position_trend",
    (
        _BENCHMARK,
        Column("query_lang", STRING, "language of the queries"),
        Column("corpus_lang", STRING, "language of the documents"),
        Column("domain", STRING, "domain, or all"),
        _LENGTH,
        _MODEL,
        _METRIC,
        *_VIEW,
        Column("n_buckets", INT64, "buckets that hold a query"),
        Column(
            "slope",
            FLOAT64,
            "least-squares slope of bucket mean on bucket centre, per document length (squad: per "
            "character)",
            True,
        ),
        Column("pearson", FLOAT64, "Pearson's correlation of the same", True),
        Column("spearman", FLOAT64, "Spearman's rank correlation of the same", True),
        Column("kendall", FLOAT64, "Kendall's tau-b of the same", True),
        Column("kendall_p", FLOAT64, "two-sided p-value of tau", True),
        _QUERIES_BY,
    ),
    key=(
        "benchmark",
        "query_lang",
        "corpus_lang",
        "domain",
        "length_bucket",
        "model",
        "metric",
        "buckets",
        "evidence",
    ),
)

LANGUAGE_AVERAGES = TableSpec(
    "language_averages",
    (
        _BENCHMARK,
        _SETTING,
        _LENGTH,
        _MODEL,
        Column("kind", STRING, "model kind: sparse, dense, late-interaction, control, ..."),
        _METRIC,
        *_VIEW,
        Column("n_languages", INT64, "languages (cross-lingual: pairs) with a score"),
        Column(
            "n_all_languages",
            INT64,
            "languages in which any model has one; with fewer, a model has no averages",
        ),
        Column("mean", FLOAT64, "mean over them of the mean over queries", True),
        Column("n_mean_of_buckets", INT64, "of them, with a query in a bucket"),
        Column("mean_of_buckets", FLOAT64, "mean over these of the mean over bucket means", True),
        Column("n_psi", INT64, "of them, with a PSI"),
        Column("psi", FLOAT64, "mean over these of the plain PSI", True),
        Column("psi_noise_mean", FLOAT64, "mean of the PSI by noise of independent queries", True),
        Column("psi_corrected", FLOAT64, "mean of the PSI corrected for sampling noise", True),
        Column("n_psi_same", INT64, "of them, with a PSI at equal documents"),
        Column("psi_same", FLOAT64, "mean over these of the PSI at equal documents", True),
        Column("languages", STRING, "languages with a score; pairs as query language-documents'"),
        _QUERIES_BY,
    ),
    key=("benchmark", "setting", "length_bucket", "model", "metric", "buckets", "evidence"),
)

LEADERBOARDS = TableSpec(
    "leaderboards",
    (
        Column("leaderboard", STRING, "leaderboard, as the config names it"),
        _BENCHMARK,
        _SETTING,
        _LENGTH,
        _METRIC,
        *_VIEW,
        Column("average", STRING, "what is compared: mean or mean_of_buckets"),
        Column("n_models", INT64, "models with both scores, the average over all languages"),
        Column("spearman", FLOAT64, "rank correlation; null with fewer than three models", True),
        Column("p", FLOAT64, "its two-sided p-value", True),
        Column("models", STRING, "these models"),
        Column("unmatched", STRING, "models of the row that the leaderboard has no score of"),
        Column("incomplete", STRING, "models that lack a language: not in the correlation"),
        _QUERIES_BY,
    ),
    key=(
        "leaderboard",
        "benchmark",
        "setting",
        "length_bucket",
        "metric",
        "buckets",
        "evidence",
        "average",
    ),
)


MITIGATIONS = TableSpec(
    "mitigations",
    (
        Column("benchmark", STRING, "benchmark id"),
        Column("query_lang", STRING, "language of the queries"),
        Column("corpus_lang", STRING, "language of the documents"),
        Column("model", STRING, "model with the mitigation: after"),
        Column("base", STRING, "model that it mitigates: before"),
        Column("metric", STRING, "metric name, e.g. ndcg@10"),
        Column("buckets", STRING, "bucket scheme, as in the PSI table"),
        Column("n_queries", INT64, "queries of both"),
        Column("n_documents", INT64, "their documents"),
        *with_interval("psi_before", "published PSI of the base", low=BY_DOCUMENT),
        *with_interval("psi_after", "published PSI of the model", low=BY_DOCUMENT),
        *with_interval(
            "psi_difference",
            "after less before, both corrected for sampling noise",
            low=BY_DOCUMENT,
        ),
        *with_interval(
            "psi_same_before", "PSI at equal documents of the base, corrected", low=BY_DOCUMENT
        ),
        *with_interval(
            "psi_same_after", "PSI at equal documents of the model, corrected", low=BY_DOCUMENT
        ),
        *with_interval("psi_same_difference", "after less before", low=BY_DOCUMENT),
        Column("p_profile", FLOAT64, "p of profiles of one shape, on both scales", True),
        Column("mean_before", FLOAT64, "mean over the queries, of the base", True),
        Column("mean_after", FLOAT64, "the same of the model", True),
        *with_interval("mean_difference", "after less before, query by query", low=BY_DOCUMENT),
        Column("given_before", FLOAT64, "share of the queries whose evidence the base read", True),
        Column("given_after", FLOAT64, "the same of the model", True),
        Column("n_cut", INT64, "queries whose evidence only the model reads", True),
        *with_interval(
            "cut_gain", "change of the mean on them: what truncation had cost", low=BY_DOCUMENT
        ),
        *with_interval(
            "uncut_gain", "the same where the base reads the whole document", low=BY_DOCUMENT
        ),
        Column("vectors_before", FLOAT64, "vectors per document of the base", True),
        Column("vectors_after", FLOAT64, "the same of the model", True),
        Column("tokens_before", FLOAT64, "tokens that the base encodes per document", True),
        Column("tokens_after", FLOAT64, "the same of the model", True),
        Column("pairs_before", FLOAT64, "pairs that the base's reranker scores per query"),
        Column("pairs_after", FLOAT64, "the same of the model"),
        Column("verdict", STRING, "what the row shows, and what it does not"),
        Column("flags", STRING, "warnings of either model's row of the PSI table"),
        Column("queries_by", STRING, "who wrote the queries, as in the PSI table"),
    ),
    key=("benchmark", "query_lang", "corpus_lang", "model", "metric", "buckets"),
)
