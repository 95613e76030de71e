"""The table that puts a run's figures beside those of the papers."""

from psibench.tables.spec import BOOL, FLOAT64, INT64, STRING, Column, TableSpec

PUBLISHED_COMPARISON = TableSpec(
    "published_comparison",
    (
        Column("paper", STRING, "short name of the paper: PosIR, PosQ, Myopic or Controlled"),
        Column("table", STRING, "its table, e.g. table 10"),
        Column("model_name", STRING, "model as the paper names it"),
        Column("model", STRING, "model id"),
        Column("query_lang", STRING, "language of the queries; all: mean over the languages"),
        Column("corpus_lang", STRING, "language of the documents; all: as query_lang"),
        Column("length_bucket", STRING, "Q1..Q4 by tokens of the positive, or all"),
        Column("buckets", STRING, "bucket scheme"),
        Column("bucket", STRING, "bucket label; empty where the figure is about all buckets"),
        Column("quantity", STRING, "mean, mean_of_buckets, bucket_mean (all of nDCG@10) or psi"),
        Column("metric", STRING, "of the own figure: ndcg-tie-averaged@10 or ndcg@10"),
        Column("published", FLOAT64, "the paper's figure, in [0, 1]"),
        Column("own", FLOAT64, "this run's figure, in [0, 1]"),
        Column("difference", FLOAT64, "own - published"),
        Column("low", FLOAT64, "lower end of the own figure's interval", True),
        Column("high", FLOAT64, "upper end of the own figure's interval", True),
        Column("inside", BOOL, "the published figure, as rounded, lies in the interval", True),
        Column("benchmark", STRING, "benchmark id of the own figure"),
        Column("n_queries", INT64, "queries of the benchmark in that language pair"),
        Column("n_published", INT64, "queries of the paper's data; null if it does not say", True),
        Column("differs", STRING, "what differs from the paper's data; null: nothing known", True),
    ),
    key=(
        "paper",
        "table",
        "model",
        "query_lang",
        "corpus_lang",
        "length_bucket",
        "buckets",
        "bucket",
        "quantity",
        "benchmark",
    ),
)
