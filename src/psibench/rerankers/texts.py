"""What the stages that have a reranker score texts share: the reranker, its store, its texts."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from psibench.config.reranker_registry import checkpoint_of, parse_reranker
from psibench.config.rerankers import RerankerModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.rerankers.protocols import Pair, Reranker
from psibench.rerankers.scoring import score_pairs
from psibench.stopping import watched_stop
from psibench.store.pairs import PairStore

FloatArray = npt.NDArray[np.float64]
logger = logging.getLogger("psibench")

PAIRS_PER_BLOCK = 2_000_000
"""Pairs held at a time: some 500 MB. For each block the whole pair store is read once."""

Load = Callable[..., Reranker]
"""(id, entry, device=...) -> reranker."""


@dataclass(frozen=True)
class TextScores:
    """Scores of texts in their order, NaN where there is no text, and who gave them.

    Attributes
    ----------
    raw, score
        (n_pairs,) float64.
    fingerprint
        Of the reranker; None if there was nothing to score.
    """

    raw: FloatArray
    score: FloatArray
    fingerprint: str | None


def load_when_needed(name: str, entry: RerankerModel, *, device: str) -> Reranker:
    """Load a reranker of the registry's backends, and its libraries with it.

    The one asked for last is kept: the domains of a job share it.
    """
    return _load(name, entry.model_dump_json(), device)


@lru_cache(maxsize=1)
def _load(name: str, entry: str, device: str) -> Reranker:
    from psibench.rerankers.scoring import load_reranker

    return load_reranker(name, parse_reranker(json.loads(entry)), device=device)


def load_once(load: Load) -> Load:
    """Return a ``load`` for one reranker that loads it when it is first asked for, and once."""
    loaded: list[Reranker] = []

    def load_or_reuse(name: str, entry: RerankerModel, *, device: str) -> Reranker:
        if not loaded:
            loaded.append(load(name, entry, device=device))
        return loaded[0]

    return load_or_reuse


def reranker_revision(name: str, entry: RerankerModel, fingerprint: str | None) -> dict[str, str]:
    """Return what a score table's provenance says of who scored: checkpoint, and fingerprint.

    The fingerprint stands for everything that decides a score; without one nothing was scored.
    """
    identity = checkpoint_identity(*checkpoint_of(entry))
    return {f"reranker:{name}": identity if fingerprint is None else f"{identity} {fingerprint}"}


def score_texts(
    name: str,
    entry: RerankerModel,
    blocks: Iterable[Sequence[Pair]],
    *,
    load: Load,
    store: str | Path,
    device: str,
    tokens_per_batch: int,
) -> TextScores:
    """Score (query, text) pairs block by block.

    Scores are looked up in the pair store first, and kept there. A pair without text is not shown
    to the reranker.

    Parameters
    ----------
    blocks
        The pairs. Only one block is held at a time; looking a block up reads the whole store, so
        that many small ones are slow.
    load
        Called once, when there is a pair with text, whether or not the store has it: where its
        scores lie is known from the loaded reranker's fingerprint.

    Raises
    ------
    InputError
        If a score is no number in [0, 1], or the reranker cannot be loaded.
    Stopped
        If the job has to end early; what is scored is stored.
    """
    reranker: Reranker | None = None
    raws, scores = [np.empty(0)], [np.empty(0)]
    n_scored = n_stored = n_empty = 0
    for pairs in blocks:
        raw, score = np.full((2, len(pairs)), np.nan)
        raws.append(raw)
        scores.append(score)
        with_text = [i for i, (query, text) in enumerate(pairs) if query.strip() and text.strip()]
        n_empty += len(pairs) - len(with_text)
        if not with_text:
            continue
        reranker = reranker or load(name, entry, device=device)
        with watched_stop() as stop:
            done = score_pairs(
                reranker,
                [pairs[i] for i in with_text],
                store=PairStore(Path(store) / "pairs" / name, reranker.fingerprint),
                tokens_per_batch=tokens_per_batch,
                stop=stop,
            )
        raw[with_text], score[with_text] = done.scores.raw, done.scores.score
        n_scored, n_stored = n_scored + done.n_scored, n_stored + done.n_stored
    logger.info(
        "scoring %s: %d pairs scored now, %d from the store, %d without text",
        name, n_scored, n_stored, n_empty,
    )  # fmt: skip
    fingerprint = None if reranker is None else reranker.fingerprint
    return TextScores(np.concatenate(raws), np.concatenate(scores), fingerprint)


def pair_blocks(
    wanted: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame, *, where: str
) -> Iterator[list[Pair]]:
    """Yield the (query, text) pairs that a reranker scores, a block at a time.

    A pair is two references to texts that are held once.

    Parameters
    ----------
    wanted
        (n_pairs, >=2) with query_id and doc_id, in the order of the pairs.
    queries, corpus
        QUERIES and CORPUS tables.
    where
        What an error message calls the corpus.

    Raises
    ------
    InputError
        If a document is not in the corpus.
    """
    questions, texts = (frame.get_column("text").to_list() for frame in (queries, corpus))
    placed = wanted.join(
        _places(queries, "query"), on="query_id", how="left", maintain_order="left"
    )
    placed = placed.join(_places(corpus, "doc"), on="doc_id", how="left", maintain_order="left")
    unknown = placed.filter(pl.col("doc").is_null())
    if unknown.height:
        query_id, doc_id = unknown.select("query_id", "doc_id").row(0)
        raise InputError(
            f"{where}: has no document {doc_id!r}, to be read with query {query_id!r} "
            f"({unknown.height} such pairs); run and queries must be of this corpus"
        )
    for block in placed.select("query", "doc").iter_slices(PAIRS_PER_BLOCK):
        yield [(questions[query], texts[doc]) for query, doc in block.iter_rows()]


def _places(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Number the rows of a table of texts by id."""
    return frame.select(pl.col("_id").alias(f"{name}_id")).with_row_index(name)
