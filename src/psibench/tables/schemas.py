"""Declared tables of benchmarks, encodings, runs and results; others are beside, or where made.

A column is ``(name, Arrow type, text)``; the text gives the meaning and the unit. Character
offsets are 0-based indices into the Python ``str``, ends exclusive. Tables may carry further
columns only where ``TableSpec.open`` is true (what a recipe knows about its queries).
"""

import pyarrow as pa

from psibench.tables.spec import (
    BOOL,
    BY_DOCUMENT,
    CHAR_SPAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Column,
    TableSpec,
    with_interval,
)

DOCUMENTS = TableSpec(
    "documents",
    (
        Column("_id", STRING, "document id, unique"),
        Column("text", STRING, "document text, stripped"),
        Column(
            "origin",
            STRING,
            "where it was read: file and record, a source's own address, or its cluster: documents "
            "of one origin are parts of one whole",
        ),
    ),
    open=True,
)

CORPUS = TableSpec(
    "corpus",
    (
        Column("_id", STRING, "document id, unique"),
        Column("text", STRING, "document text, stripped, no title"),
        Column("char_length", INT32, "characters in text"),
        Column("word_count", INT32, "pieces of text split on one space"),
        Column("token_length", INT32, "tokens of the benchmark's length tokenizer"),
    ),
    open=True,
)

QUERIES = TableSpec(
    "queries",
    (
        Column("_id", STRING, "query id, unique"),
        Column("text", STRING, "query text"),
        Column("pos_corpus_id", STRING, "the positive that holds the evidence span"),
        Column(
            "pos_char_span",
            CHAR_SPAN,
            "evidence span [start, end) in the positive, chars; null: known by class alone "
            "(target_position), or not found, or several spans, in a further column pos_char_spans",
            True,
        ),
        Column("pos_char_length", INT32, "characters in the positive"),
        Column("pos_token_length", INT32, "tokens in the positive (length tokenizer)", True),
        Column(
            "target_position",
            STRING,
            "beginning, middle, end, mixed (in several) or unknown (evidence that was not found); "
            "null: not targeted, the spans say it",
            True,
        ),
    ),
    open=True,
)

QRELS = TableSpec(
    "qrels",
    (
        Column("query-id", STRING, "query id"),
        Column("corpus-id", STRING, "document id"),
        Column("score", INT32, "relevance grade, above 0 for a positive"),
    ),
    key=("query-id", "corpus-id"),
)

RUN = TableSpec(
    "run",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id"),
        Column(
            "rank", INT32, "rank from 1: score descending, then doc_id descending, as in trec_eval"
        ),
        Column("score", FLOAT32, "retrieval score, larger is better"),
    ),
    key=("query_id", "doc_id"),
)

SHARD_ENCODINGS = TableSpec(
    "shard_encodings",
    (
        Column("key", pa.binary(), "address of the vector in the embedding store"),
        Column("n_tokens", INT32, "tokens the model saw, special tokens included"),
        Column("visible_char_end", INT32, "characters of text the model saw"),
    ),
    key=("key",),
)

ENCODINGS = TableSpec(
    "encodings",
    (
        Column("role", STRING, "query or document"),
        Column("domain", STRING, "domain of the text"),
        Column("_id", STRING, "query or document id"),
        *SHARD_ENCODINGS.columns,
    ),
    key=("role", "domain", "_id"),
)

EMBEDDING_USAGE = TableSpec(
    "embedding_usage",
    (
        Column("model", STRING, "model id"),
        Column("requests", INT64, "HTTP requests that brought vectors"),
        Column("texts", INT64, "texts of these requests"),
        Column(
            "tokens",
            INT64,
            "tokens as the service counted them, else by our count; of requests that may have "
            "been billed for nothing, at the most",
        ),
        Column("retries", INT64, "HTTP requests that brought nothing"),
        Column("usd", FLOAT64, "cost in US dollars at the price then; null without a price", True),
        Column("seconds", FLOAT64, "time that requests took, those at once added up"),
    ),
    key=("model",),
)

SEEN = TableSpec(
    "seen",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "the query's positive, whether or not the run has it"),
        Column(
            "visible_char_end",
            INT32,
            "characters of the positive read: by a reranker beside the query, by any fused model",
        ),
    ),
    key=("query_id",),
)

QUERY_SCORES = TableSpec(
    "query_scores",
    (
        Column("model", STRING, "model id"),
        Column("query_id", STRING, "query id"),
        Column("domain", STRING, "domain of the query"),
        Column("document_id", STRING, "the positive that holds the evidence; unique in its domain"),
        Column(
            "cluster",
            STRING,
            "what it is part of: an article, a site, the file it was cut from; null if unknown",
            True,
        ),
        Column(
            "span_start_char",
            INT32,
            "start of the evidence span, characters; null: no one span",
            True,
        ),
        Column("span_mid_char", FLOAT64, "its middle, characters; null likewise", True),
        Column("pos_char_length", INT32, "characters in the positive; null if unknown", True),
        Column(
            "relative_position",
            FLOAT64,
            "min(span middle, length) / length, in [0, 1]; null without one span",
            True,
        ),
        Column(
            "target_position",
            STRING,
            "beginning, middle, end, mixed: in several thirds, or unknown: not found",
        ),
        Column("target_positions", STRING, "every position it is tagged with, joined by commas"),
        Column(
            "length_bucket",
            STRING,
            "Q1..Q4 by tokens of the positive, or L1.. of your own edges; null if unknown",
            True,
        ),
        Column(
            "visible",
            FLOAT64,
            "share of the evidence inside the model's input, in [0, 1]; null where it is known by "
            "class alone and the positive was not read whole",
            True,
        ),
        Column(
            "pos_visible",
            FLOAT64,
            "share of the positive inside the model's input, in [0, 1]; null if unknown",
            True,
        ),
    ),
    key=("model", "query_id"),
    open=True,  # metric columns: ndcg@10, recall@5, ..., mrr@10 (float64)
)

# What a row of the result tables is about.
_BENCHMARK = Column("benchmark", STRING, "benchmark id")
_LENGTH = Column(
    "length_bucket", STRING, "Q1..Q4 by tokens of the positive, L1.. of your own edges, or all"
)
_MODEL = Column("model", STRING, "model id")
_KIND = Column("kind", STRING, "model kind: sparse, dense, late-interaction, control, ...")
_METRIC = Column("metric", STRING, "metric name, e.g. ndcg@10")
_BUCKETS = Column(
    "buckets", STRING, "bucket scheme: squad, thirds, thirds-every-tag or relative-20"
)
_PAIR = (
    _BENCHMARK,
    Column("query_lang", STRING, "language of the queries"),
    Column("corpus_lang", STRING, "language of the documents"),
)
_ROW = (*_PAIR, Column("domain", STRING, "domain, or all"), _LENGTH, _MODEL)
_VIEW = (
    _BUCKETS,
    Column(
        "evidence",
        STRING,
        "all queries; visible: evidence wholly inside the model's input; whole: positive wholly "
        "inside; mixed: evidence in several thirds",
    ),
)
_PLACE = (
    _BENCHMARK,
    Column("language", STRING, "language"),
    Column("domain", STRING, "domain"),
)
_SETTING = Column(
    "setting", STRING, "monolingual: queries in the documents' language; else cross-lingual"
)
_QUERIES_BY = Column(
    "queries_by",
    STRING,
    "who wrote the queries: people, simulation, llm:NAME (stand-in/... is a program), or not "
    "recorded",
)


def _names(*columns: Column) -> tuple[str, ...]:
    return tuple(column.name for column in columns)


BUCKET_SCORES = TableSpec(
    "bucket_scores",
    (
        *_ROW,
        _METRIC,
        *_VIEW,
        Column("bucket", STRING, "bucket label"),
        Column("bucket_low", FLOAT64, "lower bound: characters (squad) or share of the length"),
        Column("bucket_high", FLOAT64, "upper bound: characters (squad) or share of the length"),
        Column("n_queries", INT64, "queries in the bucket"),
        Column("mean", FLOAT64, "mean of the metric; null in an empty bucket", True),
        Column("low", FLOAT64, BY_DOCUMENT, True),
        Column("high", FLOAT64, "upper end of its interval", True),
        Column("same_mean", FLOAT64, "mean at equal documents; null where not to be told", True),
        Column("same_low", FLOAT64, "lower end of its interval", True),
        Column("same_high", FLOAT64, "upper end of its interval", True),
        _QUERIES_BY,
    ),
    key=(*_names(*_ROW, _METRIC, *_VIEW), "bucket"),
)

PSI_TABLE = TableSpec(
    "psi_table",
    (
        *_ROW,
        _KIND,
        _METRIC,
        *_VIEW,
        Column("n_queries", INT64, "queries of the row, in a bucket or not"),
        Column("n_buckets", INT64, "buckets that hold a query: all count"),
        Column("smallest_bucket", INT64, "queries in the smallest of them"),
        Column("mean", FLOAT64, "mean over all queries of the row", True),
        Column("mean_of_buckets", FLOAT64, "mean over bucket means", True),
        # The PSI of the papers, of plain bucket means.
        *with_interval("psi", "published PSI: 1 - min / max of bucket means", low=BY_DOCUMENT),
        Column("psi_corrected", FLOAT64, "PSI corrected for sampling noise", True),
        Column("best_bucket", STRING, "label of the best bucket", True),
        Column("worst_bucket", STRING, "label of the worst bucket", True),
        # At equal documents.
        *with_interval("psi_same", "PSI at equal documents; null where not to be told"),
        Column("psi_same_corrected", FLOAT64, "psi_same corrected for sampling noise", True),
        Column("best_same", STRING, "label of the best bucket at equal documents", True),
        Column("worst_same", STRING, "label of the worst bucket at equal documents", True),
        *with_interval(
            "drop",
            "1 - last / first bucket mean, at equal documents (between documents: plain); "
            "below 0 where late evidence is found better; null where one of the two is empty",
        ),
        # Does the score depend on position?
        Column(
            "test",
            STRING,
            "within: p of a document's own queries; between: of documents of like length",
            True,
        ),
        Column(
            "p_position",
            FLOAT64,
            "p against a slope, a bend or one bucket unlike the rest: the headline",
            True,
        ),
        Column("p_shape", FLOAT64, "p against a slope or a bend", True),
        Column("p_bucket", FLOAT64, "p against one bucket unlike the rest", True),
        Column("p_trend", FLOAT64, "p against a slope", True),
        Column(
            "p_adjusted",
            FLOAT64,
            "p_position adjusted: Holm over the models, Benjamini-Hochberg in domains and lengths",
            True,
        ),
        # Is it the model, or the questions?
        Column("control", STRING, "the position-blind control compared with", True),
        Column("p_control", FLOAT64, "p of a profile unlike the control's, on both scales", True),
        Column("p_control_hit", FLOAT64, "the same on the hit scale", True),
        Column("p_control_miss", FLOAT64, "the same on the miss scale", True),
        Column("p_control_adjusted", FLOAT64, "p_control adjusted as p_adjusted", True),
        # How much of it is truncation?
        Column("seen", FLOAT64, "share of the queries whose evidence the model was given", True),
        *with_interval("truncation", "change of score where it was not, all else equal"),
        Column("p_truncation", FLOAT64, "p of no such change; not adjusted", True),
        # What the row rests on.
        Column("n_documents", INT64, "documents asked about"),
        Column("n_effective_documents", FLOAT64, "as many documents of equal numbers of queries"),
        Column("n_informative_documents", INT64, "documents that inform the test"),
        Column(
            "n_clusters",
            INT64,
            "clusters of documents (articles, sites): the units of tests and intervals, unless the "
            "flag few_clusters is there; null: none is known, documents are the units",
            True,
        ),
        Column(
            "intra_document_correlation",
            FLOAT64,
            "correlation of two scores of one document",
            True,
        ),
        Column(
            "length_imbalance", FLOAT64, "share of document length's variance between buckets", True
        ),
        Column("info_min", FLOAT64, "least share of a contrast that lies within documents"),
        Column("info_shape", FLOAT64, "the same of slope and bend"),
        Column(
            "p_confounded",
            FLOAT64,
            "p of equal profiles, plain and at equal documents; not adjusted",
            True,
        ),
        Column("psi_noise_mean", FLOAT64, "mean PSI by noise of independent queries", True),
        Column("psi_noise_p95", FLOAT64, "its 95th percentile", True),
        Column(
            "flags",
            STRING,
            "warnings and the two controls, separated by commas; docs/psi-reference.md says what "
            "each is",
        ),
        _QUERIES_BY,
    ),
    key=_names(*_ROW, _METRIC, *_VIEW),
)

COMPARISONS = TableSpec(
    "comparisons",
    (
        *(column for column in _ROW if column != _LENGTH),
        Column("other", STRING, "the model it is compared with, on the same queries"),
        Column(
            "relation",
            STRING,
            "what the other is: control, shorter_input (the same model with less), or given (the "
            "config, or the command, names the pair)",
        ),
        _METRIC,
        *_VIEW,
        Column("n_queries", INT64, "queries of both"),
        Column("n_documents", INT64, "their documents"),
        Column("mean", FLOAT64, "mean over the queries", True),
        Column("other_mean", FLOAT64, "the other's", True),
        *with_interval("difference", "difference of the means", low=BY_DOCUMENT),
        Column("p_difference", FLOAT64, "p of equal means; not adjusted", True),
        Column("psi_same", FLOAT64, "PSI at equal documents, corrected for noise", True),
        Column("other_psi_same", FLOAT64, "the other's", True),
        *with_interval("psi_difference", "difference of the two"),
        Column(
            "p_profile", FLOAT64, "p of profiles of one shape, on both scales; not adjusted", True
        ),
        Column("p_hit", FLOAT64, "the same on the hit scale", True),
        Column("p_miss", FLOAT64, "the same on the miss scale", True),
        Column("n_cut", INT64, "queries whose evidence the model saw and the other did not", True),
        *with_interval("cut_gain", "mean score gained on them by the model"),
        Column("p_cut_gain", FLOAT64, "p of no gain; not adjusted", True),
        *with_interval("uncut_gain", "the same where the other read all: near 0 of one model"),
    ),
    key=(*_names(*_PAIR), "domain", "model", "other", "relation", *_names(_METRIC, *_VIEW)),
)

COMPARED = TableSpec(
    "compared",
    (
        *COMPARISONS.columns,
        Column(
            "p_difference_adjusted",
            FLOAT64,
            "of two systems p_difference itself; of more, family-wise over all pairs of a metric "
            "(step-down max-T over documents or clusters); null of visible evidence, whose queries "
            "differ from pair to pair",
            True,
        ),
        Column(
            "p_profile_adjusted",
            FLOAT64,
            "p_profile, over all pairs of a metric, scheme and view (Holm); of two systems itself",
            True,
        ),
    ),
    key=COMPARISONS.key,
)
"""Of two or more systems, a row per pair."""

LABEL_AGREEMENT = TableSpec(
    "label_agreement",
    (
        Column("buckets", STRING, "bucket scheme; all: the row of all graded pairs"),
        Column(
            "bucket",
            STRING,
            "bucket label, of graded documents that hold their query's evidence; or all",
        ),
        Column("n_pairs", INT64, "graded pairs of a query and a document"),
        Column("n_relevant", INT64, "of them, relevant to the benchmark: in the qrels above 0"),
        Column("n_human_relevant", INT64, "of them, relevant to people"),
        *with_interval("agreement", "share of them on which both agree", low=BY_DOCUMENT),
        Column(
            "kappa", FLOAT64, "Cohen's kappa; null if the qrels call all, or none, relevant", True
        ),
        Column(
            "p_position", FLOAT64, "p of one agreement, against a slope (no headline test)", True
        ),
    ),
    key=("buckets", "bucket"),
)

CORRECTED_SCORES = TableSpec(
    "corrected_scores",
    (
        _MODEL,
        _METRIC,
        Column("buckets", STRING, "bucket scheme; all: the row of the mean over all queries"),
        Column("bucket", STRING, "bucket label, or all"),
        Column("n_queries", INT64, "queries of it"),
        Column("n_graded", INT64, "of them, with a human grade of the document with the evidence"),
        Column(
            "n_out",
            INT64,
            "of these, out under human grades: without a relevant document; in a bucket, whose "
            "document with the evidence is not relevant",
        ),
        Column("mean", FLOAT64, "mean under the benchmark's labels; null in an empty bucket", True),
        *with_interval(
            "corrected",
            "mean had people graded all queries; null with fewer than 50 graded, or 10 in the "
            "bucket",
            low=BY_DOCUMENT,
        ),
    ),
    key=("model", "metric", "buckets", "bucket"),
)

STATISTICS = TableSpec(
    "statistics",
    (
        *_PLACE,
        Column("statistic", STRING, "name, e.g. n_queries, passage_words_mean, bucket:0-100"),
        Column("value", FLOAT64, "value"),
    ),
    key=(*_names(*_PLACE), "statistic"),
)

POSITION_HISTOGRAM = TableSpec(
    "position_histogram",
    (
        *_PLACE,
        Column("unit", STRING, "start_char: span start, characters; relative: span middle/length"),
        Column("bin_low", FLOAT64, "lower edge of the bin"),
        Column("bin_high", FLOAT64, "upper edge of the bin"),
        Column("n_queries", INT64, "queries in the bin"),
    ),
    key=(*_names(*_PLACE), "unit", "bin_low"),
)

POSITION_TREND = TableSpec(
    "position_trend",
    (
        *_ROW,
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
    key=_names(*_ROW, _METRIC, *_VIEW),
)

LANGUAGE_AVERAGES = TableSpec(
    "language_averages",
    (
        _BENCHMARK,
        _SETTING,
        _LENGTH,
        _MODEL,
        _KIND,
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
    key=_names(_BENCHMARK, _SETTING, _LENGTH, _MODEL, _METRIC, *_VIEW),
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
    key=("leaderboard", *_names(_BENCHMARK, _SETTING, _LENGTH, _METRIC, *_VIEW), "average"),
)

PUBLISHED_COMPARISON = TableSpec(
    "published_comparison",
    (
        Column("paper", STRING, "short name of the paper: PosIR, PosQ, Myopic or Controlled"),
        Column("table", STRING, "its table, e.g. table 10"),
        Column("model_name", STRING, "model as the paper names it"),
        _MODEL,
        Column("query_lang", STRING, "language of the queries; all: mean over the languages"),
        Column("corpus_lang", STRING, "language of the documents; all: as query_lang"),
        _LENGTH,
        _BUCKETS,
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

DOMAIN_SIMILARITY = TableSpec(
    "domain_similarity",
    (
        _BENCHMARK,
        Column("language", STRING, "language of the documents"),
        Column("model", STRING, "model whose vectors are compared"),
        Column("domain_a", STRING, "domain"),
        Column("domain_b", STRING, "domain"),
        Column("cosine", FLOAT64, "cosine of the means of the domains' document vectors", True),
    ),
    key=("benchmark", "language", "model", "domain_a", "domain_b"),
)

ATTRITION = TableSpec(
    "attrition",
    (
        Column("stage", STRING, "stage that dropped the item"),
        Column(
            "unit", STRING, "what the item is: documents, chunks, questions, queries, pairs, ..."
        ),
        Column("item_id", STRING, "id of the dropped item"),
        Column("doc_id", STRING, "document it belongs to; of a document, its own id", True),
        Column("reason", STRING, "reason code"),
        Column("detail", STRING, "what was found", True),
        Column("score", FLOAT64, "the score the decision was made on", True),
        Column("target_position", STRING, "beginning, middle or end", True),
        Column(
            "char_length", INT32, "characters in its document; of a piece left out, its own", True
        ),
        Column("length_bin", STRING, "length bin of the item's document, where it has one", True),
        Column("language", STRING, "language"),
        Column("domain", STRING, "domain"),
    ),
    key=("stage", "unit", "item_id", "language", "domain"),
)
