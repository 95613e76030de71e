"""Stage ``statistics``: what a benchmark holds, and where in its documents the evidence is."""

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
"""What `domain_statistics` computes, apart from the counts of query types."""


def benchmark_statistics(
    corpus: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame
) -> dict[str, float]:
    """Compute counts and lengths, by the name of the statistic.

    Lengths are words split on one space, standard deviations those of the population, as
    published (PosQ, Table 2). What is about queries is left out where there are none, what is
    about passages where there are none of these.
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
    """Compute what PosIR's Tables 1, 4 and 5 have beyond the counts, by the name of the statistic.

    Quartiles of token length are interpolated linearly; shares are of `n_documents` and
    `n_queries`, those of all domains.
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
    """Count the queries of each type, as statistics ``query_type:WHAT``; English and Chinese only.

    Other languages have none (PosIR's Table 6 has these two).
    """
    types = query_types(queries.get_column("text").to_list(), language=language)
    if types is None:
        return {}
    counts = Counter(types)
    return {f"{QUERY_TYPE_PREFIX}{name}": counts[name] for name in QUERY_TYPES}


def bucket_counts(
    query_positions: pl.DataFrame, schemes: Sequence[BucketScheme]
) -> dict[str, float]:
    """Count the queries in each bucket of each scheme, as statistics named ``bucket:LABEL``.

    A label of two schemes (thirds and thirds-every-tag) is the first one's. Where there are such,
    also ``n_queries_mixed``, whose evidence is in several thirds, ``n_queries_unknown``, whose
    evidence was not found, and ``n_queries_without_span``, whose evidence is not one span.
    """
    values: dict[str, float] = {}
    without_place = {
        "n_queries_mixed": (query_positions["target_position"] == MIXED).sum(),
        "n_queries_unknown": (query_positions["target_position"] == UNKNOWN).sum(),
        "n_queries_without_span": query_positions["span_mid_char"].null_count(),
    }
    for scheme in schemes:
        members = assign(query_positions, scheme)
        counts = np.bincount(members.bucket_index, minlength=len(scheme.buckets))
        for bucket, count in zip(scheme.buckets, counts, strict=True):
            values.setdefault(f"bucket:{bucket.label}", count)
    return values | {name: float(n) for name, n in without_place.items() if n}


def evidence_starts(query_positions: pl.DataFrame) -> dict[str, float]:
    """Say where evidence begins over the length of its document (Controlled, Figure 9).

    ``start:mean``, and the share of queries whose evidence begins in each third, as
    ``start:beginning``; of the queries whose evidence is one span, nothing where there are none.
    A bucket goes by the middle of the span.
    """
    placed = query_positions.drop_nulls("span_start_char")
    if placed.is_empty():
        return {}
    starts = (placed["span_start_char"] / placed["pos_char_length"]).to_numpy()
    size = np.maximum(placed["pos_char_length"].to_numpy() // 3, 1)  # as in `equal_segments`
    third = np.minimum(placed["span_start_char"].to_numpy() // size, 2)
    shares = {f"{START_PREFIX}{name}": (third == k).mean() for k, name in enumerate(THIRDS)}
    return {f"{START_PREFIX}mean": starts.mean(), **shares}


def position_histogram(query_positions: pl.DataFrame) -> pl.DataFrame:
    """Bin the spans' starts (50 characters per bin) and relative positions (20 bins).

    Bins of starts hold their lower edge; relative bins are right-closed and the first one
    includes 0, as those of the scheme relative-20. Queries without one evidence span are in no
    bin; where no query has one there are no bins.
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


TABLES = ("corpora", "queries", "qrels")
Tables = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
"""Corpus (lengths only), queries and qrels of a domain."""


@stage("statistics", version=7)
def run_statistics(job: Job) -> None:
    """Write statistics and position histogram of every domain of every language of a benchmark.

    Several domains are also pooled, as domain ``all``. No document's text is read. ``places`` are
    the languages in order: ``lang``, ``domains``, and their tables ``corpora``, ``queries`` and
    ``qrels``. ``length_tokenizer`` counts the tokens of queries, as it did those of documents.
    """
    params = {name: job.value(name) for name in ("schemes", "length_tokenizer")}
    count_tokens = token_counter(params["length_tokenizer"])
    found: dict[str, list[pl.DataFrame]] = {"statistics": [], "histogram": []}
    for place in job.value("places"):
        language = place["lang"]
        tables = {name: place[name] for name in TABLES}
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
    read = [path for name in TABLES for path in job.paths(name)]
    for name, spec in (("statistics", STATISTICS), ("histogram", POSITION_HISTOGRAM)):
        job.write(name, pl.concat(found[name]), spec, inputs=read, params=params)


def _read(domain: DomainJob) -> Tables:
    lengths = domain.columns("corpora", CORPUS, ["_id", "word_count", "token_length"])
    asked = domain.columns("queries", QUERIES, QUERIES.column_names, optional=EVIDENCE_LISTS)
    return lengths.drop("_id"), asked, domain.read("qrels", QRELS).select("query-id")


def _pooled(tables: Sequence[Tables]) -> Tables:
    corpora, queries, qrels = zip(*tables, strict=True)
    return pl.concat(corpora), pl.concat(queries, how="diagonal"), pl.concat(qrels)


def _statistics(
    tables: Tables,
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
