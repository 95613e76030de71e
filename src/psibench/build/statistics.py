"""Statistics of a benchmark: the rows of PosQ's Table 2 and the histogram of its Figure 2."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from psibench.metrics.buckets import BucketScheme, assign, bucket_scheme
from psibench.text.lengths import count_words

HISTOGRAM_BIN_CHARS = 50
RELATIVE_BINS = 20


def benchmark_statistics(
    corpus: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame
) -> pl.DataFrame:
    """Compute counts and lengths, long format: ``statistic``, ``value``.

    Lengths are words split on one space, standard deviations those of the population, as
    published (PosQ, Table 2).
    """
    passages = corpus.get_column("word_count").to_numpy()
    words = count_words(queries.get_column("text").to_list())
    tokens = corpus.get_column("token_length").to_numpy()
    values = {
        "n_queries": queries.height,
        "query_words_mean": words.mean(),
        "query_words_std": words.std(),
        "n_passages": corpus.height,
        "passage_words_min": passages.min(),
        "passage_words_mean": passages.mean(),
        "passage_words_max": passages.max(),
        "passage_words_std": passages.std(),
        "passage_tokens_mean": tokens.mean(),
        "passage_tokens_max": tokens.max(),
        "positives_per_query_mean": qrels.height / queries.height,
    }
    return _long({name: float(value) for name, value in values.items()})


def bucket_counts(query_positions: pl.DataFrame, schemes: Sequence[BucketScheme]) -> pl.DataFrame:
    """Count the queries in each bucket of each scheme, as statistics named ``bucket:LABEL``."""
    values: dict[str, float] = {}
    for scheme in schemes:
        members = assign(query_positions, scheme)
        counts = np.bincount(members.bucket_index, minlength=len(scheme.buckets))
        for bucket, count in zip(scheme.buckets, counts, strict=True):
            values[f"bucket:{bucket.label}"] = float(count)
    return _long(values)


def position_histogram(query_positions: pl.DataFrame) -> pl.DataFrame:
    """Bin the spans' starts (50 characters per bin) and relative positions (20 bins).

    Bins of starts hold their lower edge; relative bins are right-closed and the first one
    includes 0, as those of the scheme relative-20.

    Parameters
    ----------
    query_positions
        One row per query, at least one, with ``span_start_char``, ``span_mid_char`` and
        ``pos_char_length``.
    """
    starts = query_positions.get_column("span_start_char").to_numpy()
    n_bins = int(starts.max() // HISTOGRAM_BIN_CHARS) + 1
    char_edges = np.arange(n_bins + 1) * float(HISTOGRAM_BIN_CHARS)
    scheme = bucket_scheme(f"relative-{RELATIVE_BINS}")
    relative = assign(query_positions, scheme).bucket_index
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
            "unit": [unit] * len(counts),
            "bin_low": edges[:-1],
            "bin_high": edges[1:],
            "n_queries": counts.astype(np.int64),
        }
    )


def _long(values: dict[str, float]) -> pl.DataFrame:
    return pl.DataFrame({"statistic": list(values), "value": list(values.values())})
