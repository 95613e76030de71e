"""Stage ``statistics``: sizes of a benchmark, and positions of its evidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from psibench.metrics.buckets import MIXED, THIRDS, UNKNOWN, BucketScheme, assign, bucket_scheme
from psibench.metrics.query_scores import EVIDENCE_LISTS, evidence_positions
from psibench.models.counting import token_counter
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, POSITION_HISTOGRAM, QRELS, QUERIES, STATISTICS
from psibench.tables.spec import ALL
from psibench.tables.stage import stage
from psibench.text.lengths import TokenCounter, count_words
from psibench.text.query_types import QUERY_TYPES, query_types

HISTOGRAM_BIN_CHARS = 50
RELATIVE_BINS = 20
QUERY_TYPE_PREFIX = "query_type:"
START_PREFIX = "start:"
DOMAIN_STATISTICS = (
    "passage_tokens_min",
    "passage_tokens_q1",
    "passage_tokens_median",
    "passage_tokens_q3",
    "share_of_documents",
    "share_of_queries",
    "query_chars_mean",
    "query_tokens_mean",
)
"""The statistics of `domain_statistics`."""


def benchmark_statistics(
    corpus: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame
) -> dict[str, float]:
    """Return counts and lengths by name of the statistic.

    Lengths are words split on one space, standard deviations are of the population, as published
    (PosQ, Table 2). Without queries or passages their statistics are left out.
    """
    values: dict[str, float] = {"n_queries": queries.height}
    if queries.height:
        words = count_words(queries.get_column("text").to_list())
        values |= {"query_words_mean": words.mean(), "query_words_std": words.std()}
    values["n_passages"] = corpus.height
    if corpus.height:
        passages, tokens = (corpus[name].to_numpy() for name in ("word_count", "token_length"))
        values |= {
            "passage_words_min": passages.min(),
            "passage_words_mean": passages.mean(),
            "passage_words_max": passages.max(),
            "passage_words_std": passages.std(),
            "passage_tokens_mean": tokens.mean(),
            "passage_tokens_max": tokens.max(),
        }
    if queries.height:
        values["positives_per_query_mean"] = qrels.height / queries.height
    return values


def domain_statistics(
    corpus: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    n_documents: int,
    n_queries: int,
    count_tokens: TokenCounter,
) -> dict[str, float]:
    """Return the statistics of PosIR's Tables 1, 4 and 5 besides counts, by name.

    Quartiles of token length are interpolated linearly. Shares refer to ``n_documents`` and
    ``n_queries`` of all domains.
    """
    values: dict[str, float] = {}
    if corpus.height:
        tokens = corpus.get_column("token_length").to_numpy()
        names = ("min", "q1", "median", "q3")
        quartiles = np.quantile(tokens, (0, 0.25, 0.5, 0.75))
        values = {f"passage_tokens_{n}": q for n, q in zip(names, quartiles, strict=True)}
        values["share_of_documents"] = corpus.height / n_documents
    if queries.height:
        values["share_of_queries"] = queries.height / n_queries
        texts = queries.get_column("text")
        values["query_chars_mean"] = float(texts.str.len_chars().to_numpy().mean())
        values["query_tokens_mean"] = float(count_tokens(texts.to_list()).mean())
    return values


def query_type_counts(queries: pl.DataFrame, *, language: str) -> dict[str, float]:
    """Return the number of queries of each type, as statistics ``query_type:WHAT``.

    Only for English and Chinese, as in PosIR's Table 6; empty for other languages.
    """
    types = query_types(queries.get_column("text").to_list(), language=language)
    if types is None:
        return {}
    counts = Counter(types)
    return {f"{QUERY_TYPE_PREFIX}{name}": counts[name] for name in QUERY_TYPES}


def bucket_counts(
    query_positions: pl.DataFrame, schemes: Sequence[BucketScheme]
) -> dict[str, float]:
    """Return the number of queries in each bucket of each scheme, as statistics ``bucket:LABEL``.

    If two schemes share a label (thirds and thirds-every-tag), the first scheme counts. Also
    returns, if not 0, ``n_queries_mixed`` (evidence in several thirds), ``n_queries_unknown``
    (evidence not found) and ``n_queries_without_span`` (not a single span).
    """
    values: dict[str, float] = {}
    without_bucket = {
        "n_queries_mixed": (query_positions["target_position"] == MIXED).sum(),
        "n_queries_unknown": (query_positions["target_position"] == UNKNOWN).sum(),
        "n_queries_without_span": query_positions["span_mid_char"].null_count(),
    }
    for scheme in schemes:
        members = assign(query_positions, scheme)
        counts = np.bincount(members.bucket_index, minlength=len(scheme.buckets))
        for bucket, count in zip(scheme.buckets, counts, strict=True):
            values.setdefault(f"bucket:{bucket.label}", count)
    return values | {name: float(n) for name, n in without_bucket.items() if n}


def evidence_starts(query_positions: pl.DataFrame) -> dict[str, float]:
    """Return statistics of start / document length of the evidence (Controlled, Figure 9).

    These are ``start:mean``, and the share of queries whose evidence starts in each third, e.g.
    ``start:beginning``, over queries with a single span; empty without such queries. (Buckets use
    the middle of the span instead.)
    """
    placed = query_positions.drop_nulls("span_start_char")
    if placed.is_empty():
        return {}
    starts = (placed["span_start_char"] / placed["pos_char_length"]).to_numpy()
    size = np.maximum(placed["pos_char_length"].to_numpy() // 3, 1)  # like `equal_segments`
    third = np.minimum(placed["span_start_char"].to_numpy() // size, 2)
    shares = {f"{START_PREFIX}{name}": (third == k).mean() for k, name in enumerate(THIRDS)}
    return {f"{START_PREFIX}mean": starts.mean(), **shares}


def position_histogram(query_positions: pl.DataFrame) -> pl.DataFrame:
    """Return histograms of spans' starts (50 characters per bin) and relative positions (20 bins).

    Bins of starts include their lower edge. Relative bins are right-closed and the first includes
    0, like the scheme relative-20. Queries without a single span are left out; without any span
    there are no bins.
    """
    placed = query_positions.drop_nulls("span_mid_char")
    if placed.is_empty() and not query_positions.is_empty():
        return _histogram("relative", np.array([], dtype=np.int64), np.zeros(1))
    starts = placed.get_column("span_start_char").to_numpy()
    n_bins = int(starts.max() // HISTOGRAM_BIN_CHARS) + 1 if len(starts) else 0
    char_edges = np.arange(n_bins + 1) * float(HISTOGRAM_BIN_CHARS)
    scheme = bucket_scheme(f"relative-{RELATIVE_BINS}")
    relative = assign(placed, scheme).bucket_index
    relative_edges = np.array([0.0, *(bucket.high for bucket in scheme.buckets)])
    return pl.concat(
        [
            _histogram("start_char", starts // HISTOGRAM_BIN_CHARS, char_edges),
            _histogram("relative", relative, relative_edges),
        ]
    )


def _histogram(unit: str, bins: np.ndarray, edges: np.ndarray) -> pl.DataFrame:
    counts = np.bincount(bins, minlength=len(edges) - 1)
    return pl.DataFrame(
        {
            "unit": pl.Series([unit] * len(counts), dtype=pl.String),
            "bin_low": edges[:-1],
            "bin_high": edges[1:],
            "n_queries": counts.astype(np.int64),
        }
    )


INPUT_TABLES = ("corpora", "queries", "qrels")
DomainTables = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
"""Corpus (only lengths), queries and qrels of a domain."""


@stage("statistics", version=7)
def run_statistics(job: Job) -> None:
    """Write statistics and position histograms of every language and domain of a benchmark.

    Several domains are also pooled as domain ``all``. Does not read document texts. The value
    ``places`` has an entry per language: ``lang``, ``domains``, and the tables ``corpora``,
    ``queries`` and ``qrels``. ``length_tokenizer`` counts tokens of queries and documents.
    """
    params = {name: job.value(name) for name in ("schemes", "length_tokenizer")}
    count_tokens = token_counter(params["length_tokenizer"])
    found: dict[str, list[pl.DataFrame]] = {"statistics": [], "histogram": []}
    for place in job.value("places"):
        language = place["lang"]
        tables = {name: place[name] for name in INPUT_TABLES}
        of_language = replace(job, inputs=tables, values={"domains": place["domains"]})
        groups = {domain.name: _read(domain) for domain in of_language.domains()}
        pooled = _pooled(list(groups.values()))
        if len(groups) > 1:
            groups[ALL] = pooled
        sizes = (pooled[0].height, pooled[1].height)
        for name, group in groups.items():
            labels = {"benchmark": job.value("benchmark"), "language": language, "domain": name}
            named = [pl.lit(value).alias(label) for label, value in labels.items()]
            positions = evidence_positions(group[1])
            values = _statistics(
                group, positions, language, params["schemes"], *sizes, count_tokens
            )
            found["statistics"].append(values.select(*named, pl.all()))
            found["histogram"].append(position_histogram(positions).select(*named, pl.all()))
    read = [path for name in INPUT_TABLES for path in job.paths(name)]
    for name, spec in (("statistics", STATISTICS), ("histogram", POSITION_HISTOGRAM)):
        job.write(name, pl.concat(found[name]), spec, inputs=read, params=params)


def _read(domain: DomainJob) -> DomainTables:
    lengths = domain.columns("corpora", CORPUS, ["_id", "word_count", "token_length"])
    queries = domain.columns("queries", QUERIES, QUERIES.column_names, optional=EVIDENCE_LISTS)
    return lengths.drop("_id"), queries, domain.read("qrels", QRELS).select("query-id")


def _pooled(tables: Sequence[DomainTables]) -> DomainTables:
    corpora, queries, qrels = zip(*tables, strict=True)
    return pl.concat(corpora), pl.concat(queries, how="diagonal"), pl.concat(qrels)


def _statistics(
    tables: DomainTables,
    positions: pl.DataFrame,
    language: str,
    schemes: Sequence[str],
    n_documents: int,
    n_queries: int,
    count_tokens: TokenCounter,
) -> pl.DataFrame:
    corpus, queries, qrels = tables
    values = {
        **benchmark_statistics(corpus, queries, qrels),
        **bucket_counts(positions, [bucket_scheme(name) for name in schemes]),
        **evidence_starts(positions),
        **domain_statistics(
            corpus,
            queries,
            n_documents=n_documents,
            n_queries=n_queries,
            count_tokens=count_tokens,
        ),
        **query_type_counts(queries, language=language),
    }
    numbers = pl.Series(list(map(float, values.values())), dtype=pl.Float64)
    return pl.DataFrame({"statistic": list(values), "value": numbers})
