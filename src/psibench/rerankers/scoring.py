"""Rerankers from registry entries, and the scores that a store lacks.

Pairs of like length go together, in batches by tokens.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from psibench.config.rerankers import (
    BiEncoderReranker,
    Bm25Reranker,
    CrossEncoderReranker,
    FlagReranker,
    JinaM0Reranker,
    PromptedReranker,
    Qwen3Reranker,
    RerankerModel,
)
from psibench.errors import InputError
from psibench.models.checkpoints import loading
from psibench.models.dtypes import pick_device
from psibench.models.protocols import StopCheck
from psibench.progress import Progress
from psibench.rerankers.protocols import Pair, PairInput, Reranker, Scores
from psibench.store.pairs import PairStore, nothing_found, pair_keys

logger = logging.getLogger("psibench")


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
    if isinstance(entry, Bm25Reranker | BiEncoderReranker):
        from psibench.rerankers.embedded import load_lexical, load_similarity

        if isinstance(entry, Bm25Reranker):
            return load_lexical(name, entry)
        return load_similarity(name, entry, device=pick_device(device))
    with loading(entry):
        return _load_checkpoint(name, entry, pick_device(device))


def _load_checkpoint(
    name: str,
    entry: CrossEncoderReranker | Qwen3Reranker | JinaM0Reranker | FlagReranker | PromptedReranker,
    device: str,
) -> Reranker:
    if isinstance(entry, CrossEncoderReranker | Qwen3Reranker):
        from psibench.rerankers.cross_encoder import load_cross_encoder, load_qwen3

        if isinstance(entry, Qwen3Reranker):
            return load_qwen3(name, entry, device=device)
        return load_cross_encoder(name, entry, device=device)
    if isinstance(entry, JinaM0Reranker):
        from psibench.rerankers.jina_m0 import load_jina_m0

        return load_jina_m0(name, entry, device=device)
    from psibench.rerankers.flag import load_flag

    return load_flag(name, entry, device=device)


@dataclass(frozen=True)
class ScoredPairs:
    """Scores of the pairs given, in their order, and where they came from.

    A pair with an empty query or text (nothing but white space, as a third of a document shorter
    than 3 characters) is not shown to the reranker nor stored: nothing answers nothing, so its
    score is 0.0 and its raw score NaN.

    Attributes
    ----------
    scores
        One entry per pair given.
    n_scored, n_stored, n_empty
        Distinct pairs scored now, distinct pairs found in the store, empty pairs given.
    """

    scores: Scores
    n_scored: int
    n_stored: int
    n_empty: int


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
    asked = [i for i, (query, text) in enumerate(pairs) if query.strip() and text.strip()]
    keys, first, places = np.unique(
        pair_keys([pairs[i] for i in asked]), return_index=True, return_inverse=True
    )
    work = _Work(reranker, [pairs[asked[i]] for i in first], keys, store, stop)
    work.run(tokens_per_batch=tokens_per_batch, pairs_per_shard=pairs_per_shard)
    raw, score = np.full(len(pairs), np.nan), np.zeros(len(pairs))
    raw[asked], score[asked] = work.scores.raw[places], work.scores.score[places]
    n_stored = len(keys) - len(work.todo)
    return ScoredPairs(Scores(raw, score), len(work.todo), n_stored, len(pairs) - len(asked))


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
        items = self.reranker.tokenize([self.pairs[i] for i in shard])
        lengths = np.array([max(1, item.n_tokens) for item in items])
        self._tell_of_cuts(lengths)
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
                    "per batch", self.reranker.name, len(batch), longest, tokens_per_batch
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
        self._check(places, found)
        self.scores.raw[places], self.scores.score[places] = found.raw, found.score
        if self.store is not None:
            self.store.add(self.keys[places], found.raw, found.score)

    def _check(self, places: np.ndarray, found: Scores) -> None:
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

    def _tell_of_cuts(self, lengths: np.ndarray) -> None:
        limit = self.reranker.max_tokens
        n_cut = 0 if limit is None else int((lengths >= limit).sum())
        if n_cut:
            logger.warning(
                "scoring %s: %d of %d pairs reach its %d tokens; what comes after is not seen",
                self.reranker.name, n_cut, len(lengths), limit
            )  # fmt: skip


def _quote(pair: Pair) -> str:
    query, text = (part if len(part) <= 80 else part[:77] + "..." for part in pair)
    return f"query {query!r}, text {text!r}"
