"""Scores of the embedded rerankers: of parts of a query's document, and of whole documents."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
from asked import PAIRS_SCHEMA

from psibench.config.rerankers import load_rerankers
from psibench.filters.decide import as_table, part_text
from psibench.filters.negatives import PAIR_SCORES
from psibench.filters.verify import SEGMENT_SCORES
from psibench.rerankers.scoring import load_reranker, score_pairs
from psibench.store.pairs import PairStore

PANEL = ("embedded-bm25", "embedded-minilm-cosine", "embedded-minilm-maxsim")
SHORT = {name: name.removeprefix("embedded-") for name in PANEL}
TOKENS_PER_BATCH = 16_384


@contextmanager
def opened(store: Path | None) -> Iterator[Path]:
    """Give the folder of pair stores: the one named, or a temporary one."""
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def pairs_of_parts(
    candidates: pl.DataFrame, documents: pl.DataFrame, parts: Sequence[str]
) -> pl.DataFrame:
    """Make PAIRS rows of the parts of every query's own document, those without text left out."""
    texts = dict(documents.select("_id", "text").iter_rows())
    rows = []
    columns = ("_id", "text", "pos_corpus_id", "pos_char_span")
    for query_id, query, doc_id, span in candidates.select(columns).iter_rows():
        for part in parts:
            text = part_text(texts[doc_id], span, part)
            if text.strip():
                rows.append((f"{query_id}--{part}", query_id, doc_id, part, query, text))
    return pl.DataFrame(rows, schema=PAIRS_SCHEMA, orient="row")


def segment_scores(pairs: pl.DataFrame, *, store: Path) -> pl.DataFrame:
    """Score PAIRS rows of parts with the whole panel: SEGMENT_SCORES rows."""
    frames = []
    for name in PANEL:
        raw, score = _score(name, pairs, store)
        named = pairs.select("query_id", reranker=pl.lit(name), part="part")
        frames.append(named.with_columns(score=pl.Series(score), raw=pl.Series(raw)))
    return as_table(SEGMENT_SCORES, pl.concat(frames))


def pair_scores(pairs: pl.DataFrame, *, store: Path) -> pl.DataFrame:
    """Score PAIRS rows of whole documents with the whole panel: PAIR_SCORES rows."""
    frames = []
    for name in PANEL:
        raw, score = _score(name, pairs, store)
        named = pairs.select("query_id", "doc_id", reranker=pl.lit(name))
        frames.append(named.with_columns(score=pl.Series(score), raw=pl.Series(raw)))
    return as_table(PAIR_SCORES, pl.concat(frames))


def _score(name: str, pairs: pl.DataFrame, store: Path) -> tuple[np.ndarray, np.ndarray]:
    reranker = load_reranker(name, load_rerankers()[name], device="cpu")
    scores = score_pairs(
        reranker,
        list(pairs.select("query", "text").iter_rows()),
        store=PairStore(store / name, reranker.fingerprint),
        tokens_per_batch=TOKENS_PER_BATCH,
    )
    return scores.raw, scores.score
