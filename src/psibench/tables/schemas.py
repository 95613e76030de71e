"""Schemas of the tables of benchmarks, encodings, runs and results.

The tables on the way to a benchmark are in `build_schemas`, other tables beside their stage.

A column is ``(name, Arrow type, text)``; the text gives the meaning and the unit. Character
offsets are 0-based indices into the Python ``str``, ends exclusive. Tables may carry further
columns only where ``TableSpec.open`` is true: a recipe may add facts about its queries.
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
            "source of the text: file and record, an address, or a cluster; documents with the "
            "same origin come from the same text",
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
            "evidence span [start, end) in the positive, characters; null if only its class is "
            "known (target_position), if it was not found, or if there are several spans (in a "
            "further column, pos_char_spans)",
            True,
        ),
        Column("pos_char_length", INT32, "characters in the positive"),
        Column("pos_token_length", INT32, "tokens in the positive (length tokenizer)", True),
        Column(
            "target_position",
            STRING,
            "beginning, middle, end, mixed (several thirds) or unknown (evidence not found); null "
            "if the query has no target and its position follows from the span",
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

ENCODINGS = TableSpec(
    "encodings",
    (
        Column("role", STRING, "query or document"),
        Column("domain", STRING, "domain of the text"),
        Column("_id", STRING, "query or document id"),
        Column("key", pa.binary(), "address of the vector in the embedding store"),
        Column("n_tokens", INT32, "tokens that the model read, special tokens included"),
        Column("visible_char_end", INT32, "characters of the text that the model read"),
    ),
    key=("role", "domain", "_id"),
)

CHUNK_ENCODINGS = TableSpec(
    "chunk_encodings",
    (
        Column("role", STRING, "query or document"),
        Column("domain", STRING, "domain of the text"),
        Column("_id", STRING, "query or document id; a document has a row for each chunk"),
        Column("start", INT32, "first character of the chunk; null for queries", True),
        Column("end", INT32, "end of the chunk, characters; null for queries", True),
        Column(
            "tokens",
            INT32,
            "tokens of the document that start in the chunk (length tokenizer); null for queries",
            True,
        ),
        Column("key", pa.binary(), "address of the vector in the embedding store"),
        Column(
            "n_tokens",
            INT32,
            "tokens that the model read, with special tokens, prompt and title; with late chunking "
            "the chunk's share of the document's windows",
        ),
        Column(
            "visible_char_end",
            INT32,
            "end of the part that the model read and of the white space after it, characters of "
            "the document; for a query of its text",
        ),
    ),
    key=("role", "domain", "_id", "start", "end"),
)

CHUNK_RUN = TableSpec(
    "chunk_run",
    (
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document id; one row for each ranked chunk of the document"),
        Column("start", INT32, "first character of the chunk"),
        Column("end", INT32, "end of the chunk, characters"),
        Column("tokens", INT32, "tokens of the document that start in the chunk"),
        Column("rank", INT32, "rank from 1: score descending, then chunk id descending"),
        Column("score", FLOAT32, "retrieval score of the chunk, larger is better"),
    ),
    key=("query_id", "doc_id", "start", "end"),
)

EMBEDDING_USAGE = TableSpec(
    "embedding_usage",
    (
        Column("model", STRING, "model id"),
        Column("texts", INT64, "distinct texts of the encodings, whichever job sent them"),
        Column("tokens", INT64, "their tokens, counted by the entry's tokenizer"),
        Column("usd", FLOAT64, "their cost in US dollars; null without a price", True),
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
            "characters of the positive that were read: by a reranker, which also reads the "
            "query, or by any of the fused models",
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
            "article, site or file that the document is part of; null if unknown",
            True,
        ),
        Column(
            "span_start_char",
            INT32,
            "start of the evidence span, characters; null without exactly one span",
            True,
        ),
        Column(
            "span_mid_char",
            FLOAT64,
            "middle of the evidence span, characters; null without exactly one span",
            True,
        ),
        Column("pos_char_length", INT32, "characters in the positive; null if unknown", True),
        Column(
            "relative_position",
            FLOAT64,
            "min(span middle, length) / length, in [0, 1]; null without exactly one span",
            True,
        ),
        Column(
            "target_position",
            STRING,
            "beginning, middle, end, mixed (several thirds) or unknown (not found)",
        ),
        Column("target_positions", STRING, "all positions of the query, joined by commas"),
        Column(
            "length_bucket",
            STRING,
            "Q1..Q4 by tokens of the positive, or L1.. of your own edges; null if unknown",
            True,
        ),
        Column(
            "visible",
            FLOAT64,
            "share of the evidence inside the model's input, in [0, 1]; a translation has the "
            "original's relative span; null if only the class of the evidence is known and the "
            "model did not read the whole positive",
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
        "all: all queries; visible: all evidence is inside the model's input; whole: the whole "
        "positive is inside; mixed: evidence in several thirds",
    ),
)
_PLACE = (
    _BENCHMARK,
    Column("language", STRING, "language"),
    Column("domain", STRING, "domain"),
)
_SETTING = Column(
    "setting", STRING, "monolingual (queries in the documents' language) or cross-lingual"
)
_QUERIES_BY = Column(
    "queries_by",
    STRING,
    "author of the queries: people, simulation, llm:NAME (stand-in/... is a program), and "
    "translation:NAME for translated queries; or not recorded",
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
        Column(
            "same_mean", FLOAT64, "mean at equal documents; null if it cannot be estimated", True
        ),
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
        Column("n_queries", INT64, "all queries of the row, those outside of the buckets included"),
        Column("n_buckets", INT64, "buckets that hold a query"),
        Column("smallest_bucket", INT64, "queries in the smallest of these buckets"),
        Column("mean", FLOAT64, "mean over all queries of the row", True),
        Column("mean_of_buckets", FLOAT64, "mean over bucket means", True),
        # The PSI of the papers: from plain bucket means.
        *with_interval("psi", "published PSI: 1 - min / max of bucket means", low=BY_DOCUMENT),
        Column("psi_corrected", FLOAT64, "PSI corrected for sampling noise", True),
        Column("best_bucket", STRING, "label of the best bucket", True),
        Column("worst_bucket", STRING, "label of the worst bucket", True),
        # At equal documents.
        *with_interval("psi_same", "PSI at equal documents; null if it cannot be estimated"),
        Column("psi_same_corrected", FLOAT64, "psi_same corrected for sampling noise", True),
        Column("best_same", STRING, "label of the best bucket at equal documents", True),
        Column("worst_same", STRING, "label of the worst bucket at equal documents", True),
        *with_interval(
            "drop",
            "1 - last / first bucket mean, at equal documents (between documents: plain); "
            "below 0 if late evidence is found better; null if one of the two is empty",
        ),
        # Does the score depend on position?
        Column(
            "test",
            STRING,
            "within: compares queries of the same document; between: documents of similar length",
            True,
        ),
        Column(
            "p_position",
            FLOAT64,
            "headline p: no slope, no bend and no bucket that differs from the rest",
            True,
        ),
        Column("p_shape", FLOAT64, "p of no slope and no bend", True),
        Column("p_bucket", FLOAT64, "p of no bucket that differs from the rest", True),
        Column("p_trend", FLOAT64, "p of no slope", True),
        Column(
            "p_adjusted",
            FLOAT64,
            "p_position adjusted: Holm over models, Benjamini-Hochberg over domains and lengths",
            True,
        ),
        # Is the cause the model or the questions?
        Column(
            "control", STRING, "the position-blind control that the model is compared with", True
        ),
        Column("p_control", FLOAT64, "p of the same profile as the control, on both scales", True),
        Column("p_control_hit", FLOAT64, "the same on the hit scale", True),
        Column("p_control_miss", FLOAT64, "the same on the miss scale", True),
        Column("p_control_adjusted", FLOAT64, "p_control, adjusted like p_adjusted", True),
        # How much of the effect is truncation?
        Column(
            "seen", FLOAT64, "share of the queries whose evidence is in the model's input", True
        ),
        *with_interval("truncation", "change of the score if the evidence is cut, all else equal"),
        Column("p_truncation", FLOAT64, "p of no such change; not adjusted", True),
        # The data of the row.
        Column("n_documents", INT64, "documents that hold the evidence of a query"),
        Column(
            "n_effective_documents",
            FLOAT64,
            "number of documents with equal numbers of queries that would give the same precision",
        ),
        Column("n_informative_documents", INT64, "documents that the test can use"),
        Column(
            "n_clusters",
            INT64,
            "clusters of documents (articles, sites); they are the units of tests and intervals, "
            "except with the flag few_clusters; null if unknown: then documents are the units",
            True,
        ),
        Column(
            "intra_document_correlation",
            FLOAT64,
            "correlation of two scores of one document",
            True,
        ),
        Column(
            "length_imbalance",
            FLOAT64,
            "share of the variance of document length that is between buckets",
            True,
        ),
        Column(
            "info_min",
            FLOAT64,
            "smallest share of a contrast's information that is within documents",
        ),
        Column("info_shape", FLOAT64, "the same for slope and bend"),
        Column(
            "p_confounded",
            FLOAT64,
            "p of equal profiles, plain and at equal documents; not adjusted",
            True,
        ),
        Column(
            "psi_noise_mean", FLOAT64, "mean PSI that noise of independent queries causes", True
        ),
        Column("psi_noise_p95", FLOAT64, "95th percentile of that PSI", True),
        Column(
            "flags",
            STRING,
            "warnings and the two controls, separated by commas: see docs/psi-reference.md",
        ),
        _QUERIES_BY,
    ),
    key=_names(*_ROW, _METRIC, *_VIEW),
)

COMPARISONS = TableSpec(
    "comparisons",
    (
        *(column for column in _ROW if column != _LENGTH),
        Column("other", STRING, "the other model, on the same queries"),
        Column(
            "relation",
            STRING,
            "role of the other model: control, shorter_input (the same model with a shorter "
            "input), or given (the config or the command names the pair)",
        ),
        _METRIC,
        *_VIEW,
        Column("n_queries", INT64, "queries that both have"),
        Column("n_documents", INT64, "documents of these queries"),
        Column("mean", FLOAT64, "mean over the queries", True),
        Column("other_mean", FLOAT64, "the same for the other model", True),
        *with_interval("difference", "difference of the means", low=BY_DOCUMENT),
        Column(
            "p_difference",
            FLOAT64,
            "p of equal means; not adjusted; with fewer than 30 documents by sign flips",
            True,
        ),
        Column("psi_same", FLOAT64, "PSI at equal documents, corrected for noise", True),
        Column("other_psi_same", FLOAT64, "the same for the other model", True),
        *with_interval("psi_difference", "difference of the two PSIs"),
        Column(
            "p_profile",
            FLOAT64,
            "p of profiles of the same shape, on both scales; not adjusted",
            True,
        ),
        Column("p_hit", FLOAT64, "the same on the hit scale", True),
        Column("p_miss", FLOAT64, "the same on the miss scale", True),
        Column("n_cut", INT64, "queries whose evidence only the model read, not the other", True),
        *with_interval("cut_gain", "mean gain of the model on these queries"),
        Column("p_cut_gain", FLOAT64, "p of no gain; not adjusted", True),
        *with_interval(
            "uncut_gain",
            "the same on queries whose document the other read whole: near 0 for the same model",
        ),
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
            "for two systems p_difference; for more, family-wise over all pairs of a metric "
            "(step-down max-T over documents or clusters); null for visible evidence, where pairs "
            "have different queries",
            True,
        ),
        Column(
            "p_profile_adjusted",
            FLOAT64,
            "p_profile adjusted over all pairs of a metric, scheme and view (Holm)",
            True,
        ),
    ),
    key=COMPARISONS.key,
)
"""A row for each pair of two or more systems."""

LABEL_AGREEMENT = TableSpec(
    "label_agreement",
    (
        Column("buckets", STRING, "bucket scheme, or all for the row of all graded pairs"),
        Column(
            "bucket",
            STRING,
            "bucket label of graded documents that hold their query's evidence, or all",
        ),
        Column("n_pairs", INT64, "graded pairs of a query and a document"),
        Column("n_relevant", INT64, "pairs that are relevant in the qrels (grade above 0)"),
        Column("n_human_relevant", INT64, "pairs that people graded as relevant"),
        *with_interval("agreement", "share of the pairs on which both agree", low=BY_DOCUMENT),
        Column(
            "kappa",
            FLOAT64,
            "Cohen's kappa; null if all or no pairs are relevant in the qrels",
            True,
        ),
        Column(
            "p_position", FLOAT64, "p of an agreement without a slope (not the headline test)", True
        ),
    ),
    key=("buckets", "bucket"),
)

CORRECTED_SCORES = TableSpec(
    "corrected_scores",
    (
        _MODEL,
        _METRIC,
        Column("buckets", STRING, "bucket scheme, or all for the mean over all queries"),
        Column("bucket", STRING, "bucket label, or all"),
        Column("n_queries", INT64, "queries in the bucket"),
        Column(
            "n_graded", INT64, "queries with a human grade of the document that holds the evidence"
        ),
        Column(
            "n_out",
            INT64,
            "graded queries that human grades exclude: no relevant document; in a bucket: the "
            "document that holds the evidence is not relevant",
        ),
        Column("mean", FLOAT64, "mean under the benchmark's labels; null in an empty bucket", True),
        *with_interval(
            "corrected",
            "estimated mean if people had graded all queries; null with fewer than 50 graded, or "
            "10 in the bucket",
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
        Column("pearson", FLOAT64, "Pearson's correlation of bucket mean and bucket centre", True),
        Column("spearman", FLOAT64, "Spearman's rank correlation of the two", True),
        Column("kendall", FLOAT64, "Kendall's tau-b of the two", True),
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
            "languages in which any model has a score; a model with fewer has no averages",
        ),
        Column("mean", FLOAT64, "mean over the languages of the mean over queries", True),
        Column("n_mean_of_buckets", INT64, "languages with a query in a bucket"),
        Column(
            "mean_of_buckets",
            FLOAT64,
            "mean over these languages of the mean over bucket means",
            True,
        ),
        Column("n_psi", INT64, "languages with a PSI"),
        Column("psi", FLOAT64, "mean over these languages of the plain PSI", True),
        Column(
            "psi_noise_mean",
            FLOAT64,
            "mean of the PSI that noise of independent queries causes",
            True,
        ),
        Column("psi_corrected", FLOAT64, "mean of the PSI corrected for sampling noise", True),
        Column("n_psi_same", INT64, "languages with a PSI at equal documents"),
        Column(
            "psi_same", FLOAT64, "mean over these languages of the PSI at equal documents", True
        ),
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
        Column("average", STRING, "quantity that is compared: mean or mean_of_buckets"),
        Column("n_models", INT64, "models with both scores, the average over all languages"),
        Column("spearman", FLOAT64, "rank correlation; null with fewer than three models", True),
        Column("p", FLOAT64, "its two-sided p-value", True),
        Column("models", STRING, "these models"),
        Column("unmatched", STRING, "models of the row without a score on the leaderboard"),
        Column(
            "incomplete", STRING, "models that lack a language; they are not in the correlation"
        ),
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
        Column("bucket", STRING, "bucket label; empty if the number is about all buckets"),
        Column("quantity", STRING, "mean, mean_of_buckets, bucket_mean (all of nDCG@10) or psi"),
        Column("metric", STRING, "metric of this run's number: ndcg-tie-averaged@10 or ndcg@10"),
        Column("published", FLOAT64, "the paper's number, in [0, 1]"),
        Column("own", FLOAT64, "this run's number, in [0, 1]"),
        Column("difference", FLOAT64, "own - published"),
        Column("low", FLOAT64, "lower end of the interval of this run's number", True),
        Column("high", FLOAT64, "upper end of the interval of this run's number", True),
        Column("inside", BOOL, "whether the published (rounded) number is in the interval", True),
        Column("benchmark", STRING, "benchmark id of this run's number"),
        Column("n_queries", INT64, "queries of the benchmark in that language pair"),
        Column(
            "n_published",
            INT64,
            "queries of the paper's data; null if the paper does not give it",
            True,
        ),
        Column("differs", STRING, "known differences from the paper's data; null if none", True),
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
        Column("unit", STRING, "kind of item: documents, chunks, questions, queries, pairs, ..."),
        Column("item_id", STRING, "id of the dropped item"),
        Column("doc_id", STRING, "document of the item; for a document its id", True),
        Column("reason", STRING, "reason code"),
        Column("detail", STRING, "details of the reason", True),
        Column("score", FLOAT64, "score that decided", True),
        Column("target_position", STRING, "beginning, middle or end", True),
        Column(
            "char_length",
            INT32,
            "characters in the item's document; for a dropped piece of text its length",
            True,
        ),
        Column("length_bin", STRING, "length bin of the item's document, where it has one", True),
        Column("language", STRING, "language"),
        Column("domain", STRING, "domain"),
    ),
    key=("stage", "unit", "item_id", "language", "domain"),
)
