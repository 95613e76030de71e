"""What PosIR's release looks like from outside: how many queries, how long, evidence where.

Counts per language and per domain are the published ones (PosIR, tables 4 and 5), read from
config/published. The counts of single datasets are not in the paper's text: a language's queries
are spread over the domains by the domains' shares.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from psibench.papers.figures import PUBLISHED

ENGLISH, CHINESE = "eng-Latn", "cmn-Hans"
TOKENS_PER_BIN = 256
BIN_SHARES = np.array([3, 3, 3, 3, 2, 2, 2, 2])  # eight bins of 256 tokens (PosIR, section 2)
CHARS_PER_TOKEN = {ENGLISH: 4.6, CHINESE: 1.6}
SPAN_CHARS = {ENGLISH: 150, CHINESE: 45}
"""Median length of the evidence. Spans and characters per token are guesses of the right size."""


@dataclass(frozen=True)
class Original:
    """One domain as it was written, in English or Chinese.

    Attributes
    ----------
    domain
    tokens, chars
        (n_documents,) int64, lengths of the documents.
    positive
        (n_queries,) int64, place of each query's positive among the documents.
    spans
        (n_queries, 2) int64, [start, end) of the evidence, characters.
    """

    domain: str
    tokens: np.ndarray
    chars: np.ndarray
    positive: np.ndarray
    spans: np.ndarray

    @property
    def relative(self) -> np.ndarray:
        """Middle of the evidence over the document's length, (n_queries,)."""
        middle: np.ndarray = self.spans.sum(axis=1) / 2
        return middle / self.chars[self.positive]


def published_queries() -> dict[str, int]:
    """Queries of each language (table 4), English first."""
    counts = _published("posir_table4.csv", "language")
    return {ENGLISH: counts.pop(ENGLISH)} | counts


def domain_shares() -> dict[str, float]:
    """Share of the queries that each domain has (table 5), by the name of its folder."""
    counts = _published("posir_table5.csv", "domain")
    total = sum(counts.values())
    return {name.lower().replace(" ", "-"): count / total for name, count in counts.items()}


def apportion(total: int, shares: np.ndarray) -> np.ndarray:
    """Split ``total`` into whole numbers by shares: largest remainders first."""
    exact = total * shares
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


def draw_original(
    domain: str, language: str, *, n_documents: int, n_queries: int, rng: np.random.Generator
) -> Original:
    """Draw lengths, positives and spans of one domain."""
    bins = rng.choice(len(BIN_SHARES), n_documents, p=BIN_SHARES / BIN_SHARES.sum())
    tokens = bins * TOKENS_PER_BIN + rng.integers(16, TOKENS_PER_BIN + 1, n_documents)
    chars = np.rint(tokens * CHARS_PER_TOKEN[language]).astype(np.int64)
    positive = rng.integers(0, n_documents, n_queries)
    size = np.rint(rng.lognormal(np.log(SPAN_CHARS[language]), 0.6, n_queries)).astype(np.int64)
    length = chars[positive]
    size = np.clip(size, 8, np.maximum(length // 2, 1))
    # A little more evidence in front, as figure 2 shows.
    start = np.floor(rng.beta(1.0, 1.15, n_queries) * (length - size)).astype(np.int64)
    return Original(domain, tokens, chars, positive, np.stack([start, start + size], axis=1))


def kept_queries(
    originals: list[Original], total: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Choose which queries of each domain a translation still has: all but a few, at random."""
    sizes = [len(original.positive) for original in originals]
    gone = np.zeros(sum(sizes), dtype=bool)
    gone[rng.choice(gone.size, gone.size - total, replace=False)] = True
    return [np.flatnonzero(~part) for part in np.split(gone, np.cumsum(sizes)[:-1])]


def _published(file: str, key: str) -> dict[str, int]:
    table = pl.read_csv(PUBLISHED / file).filter(pl.col(key) != "all")
    return dict(table.select(key, "n_queries").iter_rows())
