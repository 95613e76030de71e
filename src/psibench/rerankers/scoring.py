"""Rerankers from registry entries, and the scores that a store lacks.

Pairs of like length go together, in batches by tokens.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from psibench.config.rerankers import (
    BiEncoderReranker,
    Bm25Reranker,
    CrossEncoderReranker,
    JinaM0Reranker,
    Qwen3Reranker,
    RerankerModel,
    checkpoint_of,
)
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity, loading
from psibench.models.dtypes import pick_device
from psibench.models.protocols import StopCheck
from psibench.progress import Progress
from psibench.rerankers.protocols import Pair, PairInput, Reranker, Scores, has_text
from psibench.stopping import watched_stop
from psibench.store.pairs import PairStore, nothing_found, pair_keys

logger = logging.getLogger("psibench")
FloatArray = npt.NDArray[np.float64]

PAIRS_PER_BLOCK = 2_000_000
"""Pairs held at a time: some 500 MB. For each block the whole pair store is read once."""

Load = Callable[..., Reranker]
"""(id, entry, device=...) -> reranker."""


def load_reranker(name: str, entry: RerankerModel, *, device: str = "auto") -> Reranker:
    """Load a reranker, and the library that scores it.

    Parameters
    ----------
    name
        Its registry id, for messages.
    device
        auto, cpu or cuda; auto is cuda where there is one.

    Raises
    ------
    InputError
        If its checkpoint cannot be loaded or does not fit the entry.
    """
    if isinstance(entry, Bm25Reranker):
        from psibench.rerankers.embedded import load_lexical

        return load_lexical(name, entry)
    device = pick_device(device)
    if isinstance(entry, BiEncoderReranker):
        from psibench.rerankers.embedded import load_similarity

        return load_similarity(name, entry, device=device)
    with loading(entry):
        match entry:
            case CrossEncoderReranker():
                from psibench.rerankers.cross_encoder import load_cross_encoder

                return load_cross_encoder(name, entry, device=device)
            case Qwen3Reranker():
                from psibench.rerankers.cross_encoder import load_qwen3

                return load_qwen3(name, entry, device=device)
            case JinaM0Reranker():
                from psibench.rerankers.cross_encoder import load_jina_m0

                return load_jina_m0(name, entry, device=device)
        from psibench.rerankers.flag import load_flag

        return load_flag(name, entry, device=device)


@dataclass(frozen=True)
class ScoredPairs:
    """Scores of the pairs given; how many distinct ones were scored now, or found in the store.

    A pair with an empty query or text (nothing but white space, as a third of a document shorter
    than 3 characters) is not shown to the reranker nor stored; its scores are NaN.
    """

    scores: Scores
    n_scored: int
    n_stored: int


def score_pairs(
    reranker: Reranker,
    pairs: Sequence[Pair],
    *,
    store: PairStore | None,
    tokens_per_batch: int,
    pairs_per_shard: int = 16_384,
    stop: StopCheck | None = None,
) -> ScoredPairs:
    """Score the distinct pairs that are not in the store yet; take the others from it.

    Work goes from the longest pair to the shortest, so that a batch holds pairs of like length
    and the memory needed shows at once. Every batch is stored when it is done: a killed job loses
    at most one.

    Parameters
    ----------
    store
        Of this reranker's fingerprint; None stores nothing.
    tokens_per_batch
        Padded tokens in one forward pass. Halved when the device's memory is not enough, for the
        rest of the job.
    pairs_per_shard
        Pairs tokenized at once.
    stop
        Asked before every batch; if it raises, what is scored is stored.

    Raises
    ------
    InputError
        If the reranker gives another number of scores than pairs, NaN, an infinite value or a
        score outside [0, 1]; if one pair alone does not fit into the memory.
    """
    asked = [i for i, pair in enumerate(pairs) if has_text(pair)]
    keys, first, places = np.unique(
        pair_keys([pairs[i] for i in asked]), return_index=True, return_inverse=True
    )
    work = _Work(reranker, [pairs[asked[i]] for i in first], keys, store, stop)
    work.run(tokens_per_batch=tokens_per_batch, pairs_per_shard=pairs_per_shard)
    raw, score = np.full((2, len(pairs)), np.nan)
    raw[asked], score[asked] = work.scores.raw[places], work.scores.score[places]
    return ScoredPairs(Scores(raw, score), len(work.todo), len(keys) - len(work.todo))


class _Work:
    """Distinct pairs, what is known of them, and what is left to score, longest first."""

    def __init__(
        self,
        reranker: Reranker,
        pairs: Sequence[Pair],
        keys: np.ndarray,
        store: PairStore | None,
        stop: StopCheck | None,
    ) -> None:
        self.reranker, self.pairs, self.keys, self.store = reranker, pairs, keys, store
        self._stop, self._slowest_s = stop, 0.0
        found = (store.find if store is not None else nothing_found)(keys)
        self.scores = Scores(found.raw, found.score)
        lengths = np.array([-len(query) - len(text) for query, text in pairs], dtype=np.int64)
        left = np.flatnonzero(~found.known)
        self.todo = left[np.argsort(lengths[left], kind="stable")]

    def run(self, *, tokens_per_batch: int, pairs_per_shard: int) -> None:
        """Score what is left, shard by shard."""
        name, total = self.reranker.name, len(self.todo)
        with (
            self.store or nullcontext(),
            Progress(f"scoring {name}", total=total, unit="pairs") as progress,
        ):
            for start in range(0, total, pairs_per_shard):
                shard = self.todo[start : start + pairs_per_shard]
                tokens_per_batch = self._score_shard(shard, tokens_per_batch, progress)

    def _score_shard(self, shard: np.ndarray, tokens_per_batch: int, progress: Progress) -> int:
        """Score a shard batch by batch; returns the tokens per batch that the memory allows."""
        name, limit = self.reranker.name, self.reranker.max_tokens
        items = self.reranker.tokenize([self.pairs[i] for i in shard])
        lengths = np.array([max(1, item.n_tokens) for item in items])
        if limit is not None and (n_cut := int((lengths >= limit).sum())):
            logger.warning(
                "scoring %s: %d of %d pairs reach its %d tokens; what comes after is not seen",
                name, n_cut, len(lengths), limit
            )  # fmt: skip
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            if self._stop is not None:
                self._stop.check(2 * self._slowest_s)
            began = time.perf_counter()
            longest = int(lengths[order[start]])
            batch = order[start : start + max(1, tokens_per_batch // longest)]
            found = self._forward([items[i] for i in batch])
            if found is None:
                tokens_per_batch = len(batch) // 2 * longest
                logger.warning(
                    "scoring %s: not enough memory for %d pairs of %d tokens; on with %d tokens "
                    "per batch", name, len(batch), longest, tokens_per_batch
                )  # fmt: skip
                continue
            self._keep(shard[batch], found)
            self._slowest_s = max(self._slowest_s, time.perf_counter() - began)
            progress.advance(len(batch))
            start += len(batch)
        return tokens_per_batch

    def _forward(self, items: Sequence[PairInput]) -> Scores | None:
        """Score a batch; None if the device's memory is not enough and it can be halved."""
        import torch

        try:
            return self.reranker.score(items)
        except torch.OutOfMemoryError as error:
            if len(items) == 1:
                raise InputError(
                    f"reranker {self.reranker.name}: one pair of {items[0].n_tokens} tokens does "
                    "not fit into the device's memory; lower its max_tokens, or use a reduced dtype"
                ) from error
        # Not in the handler: the error's traceback holds the tensors of the batch.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None

    def _keep(self, places: np.ndarray, found: Scores) -> None:
        """Check and store a batch."""
        name = self.reranker.name
        if not found.raw.shape == found.score.shape == (len(places),):
            raise InputError(
                f"reranker {name}: gave {found.raw.shape} raw and {found.score.shape} scores for "
                f"{len(places)} pairs, the first of them {_quote(self.pairs[places[0]])}"
            )
        fine = np.isfinite(found.raw) & (found.score >= 0) & (found.score <= 1)
        if not fine.all():
            wrong = int(np.flatnonzero(~fine)[0])
            raise InputError(
                f"reranker {name}: found raw {found.raw[wrong]} and score {found.score[wrong]} for "
                f"{_quote(self.pairs[places[wrong]])}; allowed: finite, and a score in [0, 1]. A "
                "reduced dtype may overflow: try float32."
            )
        self.scores.raw[places], self.scores.score[places] = found.raw, found.score
        if self.store is not None:
            self.store.add(self.keys[places], found.raw, found.score)


def _quote(pair: Pair) -> str:
    query, text = (part if len(part) <= 80 else part[:77] + "..." for part in pair)
    return f"query {query!r}, text {text!r}"


@dataclass(frozen=True)
class TextScores(Scores):
    """Scores of texts in their order, NaN where there is no text, and who gave them.

    ``fingerprint`` is the reranker's, None if there was nothing to score.
    """

    fingerprint: str | None


@lru_cache(maxsize=1)
def load_when_needed(name: str, entry: RerankerModel, *, device: str) -> Reranker:
    """Load a reranker of the registry's backends, and its libraries with it.

    The one asked for last is kept: the domains of a job share it.
    """
    return load_reranker(name, entry, device=device)


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
    n_scored = n_stored = 0
    for pairs in blocks:
        raw = score = np.full(len(pairs), np.nan)
        if any(map(has_text, pairs)):
            reranker = reranker or load(name, entry, device=device)
            with watched_stop() as stop:
                done = score_pairs(
                    reranker,
                    pairs,
                    store=PairStore(Path(store) / "pairs" / name, reranker.fingerprint),
                    tokens_per_batch=tokens_per_batch,
                    stop=stop,
                )
            raw, score = done.scores.raw, done.scores.score
            n_scored, n_stored = n_scored + done.n_scored, n_stored + done.n_stored
        raws.append(raw)
        scores.append(score)
    every = np.concatenate(raws)
    logger.info(
        "scoring %s: %d pairs scored now, %d from the store, %d without text",
        name, n_scored, n_stored, np.isnan(every).sum(),
    )  # fmt: skip
    fingerprint = None if reranker is None else reranker.fingerprint
    return TextScores(every, np.concatenate(scores), fingerprint)


def pair_blocks(
    wanted: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame, *, where: str
) -> Iterator[list[Pair]]:
    """Yield the (query, text) pairs that a reranker scores, a block at a time.

    A pair is two references to texts that are held once.

    Parameters
    ----------
    wanted
        (n_pairs, >=2) with query_id and doc_id, in the order of the pairs.
    where
        What an error message calls the corpus.

    Raises
    ------
    InputError
        If a document is not in the corpus.
    """
    questions, texts = (frame.get_column("text").to_list() for frame in (queries, corpus))
    placed = wanted
    for frame, name in ((queries, "query"), (corpus, "doc")):
        rows = frame.select(pl.col("_id").alias(f"{name}_id")).with_row_index(name)
        placed = placed.join(rows, on=f"{name}_id", how="left", maintain_order="left")
    unknown = placed.filter(pl.col("doc").is_null())
    if unknown.height:
        query_id, doc_id = unknown.select("query_id", "doc_id").row(0)
        raise InputError(
            f"{where}: has no document {doc_id!r}, to be read with query {query_id!r} "
            f"({unknown.height} such pairs); run and queries must be of this corpus"
        )
    for block in placed.select("query", "doc").iter_slices(PAIRS_PER_BLOCK):
        yield [(questions[query], texts[doc]) for query, doc in block.iter_rows()]
