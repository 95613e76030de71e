"""Rerankers from registry entries, and scoring of the pairs that a store lacks.

Batches have pairs of similar length, up to a number of tokens.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.rerankers import (
    BiEncoderReranker,
    Bm25Reranker,
    CrossEncoderReranker,
    FlagReranker,
    RerankerModel,
    checkpoint_of,
)
from psibench.errors import InputError
from psibench.models.budget import TokenBudget, packed_rows
from psibench.models.checkpoints import checkpoint_identity, loading
from psibench.models.dtypes import pick_device
from psibench.models.load import SAMPLE_TEXT
from psibench.models.protocols import StopCheck
from psibench.prefetch import prefetched
from psibench.progress import Progress
from psibench.rerankers.protocols import (
    PairInput,
    Reranker,
    Scores,
    StartingReranker,
    TextPair,
    has_text,
)
from psibench.stopping import watched_stop
from psibench.store.pairs import PairStore, pair_keys, unknown_scores

logger = logging.getLogger("psibench")

PAIRS_PER_BLOCK = 2_000_000
"""Pairs in memory, about 500 MB. The whole pair store is read once per block."""

Load = Callable[..., Reranker]
"""(id, entry, device=...) -> reranker."""


def load_reranker(name: str, entry: RerankerModel, *, device: str = "auto") -> Reranker:
    """Load a reranker, and the library that runs it.

    Parameters
    ----------
    name
        Its registry id, for messages.
    device
        auto, cpu or cuda; auto is cuda if available.

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
        if isinstance(entry, CrossEncoderReranker | FlagReranker):
            from psibench.rerankers.classifiers import load_sequence_classifier

            load: Load = load_sequence_classifier
        else:
            from psibench.rerankers.decoders import load_decoder as load
        reranker = load(name, entry, device=device)
        reranker.score(reranker.tokenize([(SAMPLE_TEXT, SAMPLE_TEXT)]))  # as in `load_encoder`
        return reranker


load_when_needed = lru_cache(maxsize=1)(load_reranker)
"""`load_reranker`, with the last reranker cached, because the domains of a job share it."""


TOKENS_PER_CHAR = 0.25
"""Estimate for pairs, until pairs that were not cut show the actual ratio."""


def score_pairs(
    reranker: Reranker,
    pairs: Sequence[TextPair],
    *,
    store: PairStore | None,
    tokens_per_batch: int,
    device: str = "auto",
    pairs_per_shard: int = 16_384,
    stop: StopCheck | None = None,
) -> Scores:
    """Score the distinct pairs that are not in the store; read the others' scores from it.

    A pair with a blank query or text (such as a third of a document shorter than 3 characters) is
    neither scored nor stored; its scores are NaN.

    Pairs are scored from the longest to the shortest, so that a batch has pairs of similar length,
    and a lack of memory shows at once. Every batch is stored when it is done: a killed job loses at
    most one batch, or two if pairs are packed, because the next one is then already running.

    Parameters
    ----------
    store
        Store of this reranker's fingerprint; None stores nothing.
    tokens_per_batch
        Padded tokens in one forward pass; 0 is a fast value for the reranker's ``device``. The
        number is halved for the rest of the job if the memory does not suffice.
    pairs_per_shard
        Number of pairs tokenized at once.
    stop
        Checked before every batch; if it raises, the scores so far are stored.

    Raises
    ------
    InputError
        If the reranker returns NaN, an infinite value or a score outside [0, 1], or a single pair
        does not fit into the memory.
    """
    with_text = [i for i, pair in enumerate(pairs) if has_text(pair)]
    keys, first, inverse = np.unique(
        pair_keys([pairs[i] for i in with_text]), return_index=True, return_inverse=True
    )
    distinct = [pairs[with_text[i]] for i in first]
    known = (store.find if store is not None else unknown_scores)(keys)
    lengths = np.array([-len(query) - len(text) for query, text in distinct], dtype=np.int64)
    todo = np.flatnonzero(~known.known)
    todo = todo[np.argsort(lengths[todo], kind="stable")]
    with (
        store or nullcontext(),
        Progress(f"scoring {reranker.name}", total=0, unit="tokens") as progress,
    ):
        for batch, scores, n_tokens in _score_batches(
            reranker,
            [distinct[i] for i in todo],
            tokens_per_batch=tokens_per_batch,
            device=device,
            pairs_per_shard=pairs_per_shard,
            stop=stop,
            progress=progress,
        ):
            rows = todo[batch]
            _check(reranker.name, [distinct[i] for i in rows], scores)
            known.raw[rows], known.score[rows] = scores.raw, scores.score
            if store is not None:
                store.add(keys[rows], scores.raw, scores.score)
            progress.advance(n_tokens)
    raw, score = np.full((2, len(pairs)), np.nan)
    raw[with_text], score[with_text] = known.raw[inverse], known.score[inverse]
    logger.info(
        "scoring %s: %d pairs scored now, %d from the store, %d without text",
        reranker.name, len(todo), len(keys) - len(todo), len(pairs) - len(with_text),
    )  # fmt: skip
    return Scores(raw, score)


def _score_batches(
    reranker: Reranker,
    pairs: Sequence[TextPair],
    *,
    tokens_per_batch: int,
    device: str,
    pairs_per_shard: int,
    stop: StopCheck | None,
    progress: Progress,
) -> Iterator[tuple[np.ndarray, Scores, int]]:
    """Yield the indices, scores and token count of each batch of pairs, longest first.

    Works shard by shard; ``progress`` gets the number of remaining tokens.
    """
    name = reranker.name
    budget = TokenBudget(
        tokens_per_batch,
        device=device,
        title=f"scoring {name}",
        unit="pair",
        advice="lower its max_tokens, or use a reduced dtype",
    )
    n_chars = np.array([len(query) + len(text) for query, text in pairs], dtype=np.int64)
    known, tokens_per_char = 0, TOKENS_PER_CHAR
    packs = isinstance(reranker, StartingReranker) and reranker.packs
    starts = range(0, len(pairs), pairs_per_shard)
    shards = ((n, reranker.tokenize(pairs[n : n + pairs_per_shard])) for n in starts)
    for start, items in prefetched(shards):
        lengths = np.array([max(1, item.n_tokens) for item in items])
        limit = reranker.max_tokens
        done, known = known, known + int(lengths.sum())
        chars = n_chars[start : start + pairs_per_shard]
        uncut = lengths < (limit or math.inf)
        if uncut.any():
            tokens_per_char = lengths[uncut].sum() / max(1, chars[uncut].sum())
        later = n_chars[start + pairs_per_shard :] * tokens_per_char
        rest = later.clip(1, limit).sum() if len(later) else 0.0
        progress.expect(known - done, share=known / (known + rest))
        if limit is not None and (n_cut := int((lengths >= limit).sum())):
            logger.warning(
                "scoring %s: %d of %d pairs reach its limit of %d tokens; texts are cut there",
                name, n_cut, len(lengths), limit
            )  # fmt: skip
        left = np.argsort(-lengths, kind="stable")
        started = deque[tuple[np.ndarray, float, Callable[[], Scores]]]()
        while len(left) or started:
            if len(left):
                if stop is not None:
                    stop.check(2 * budget.slowest_s)
                longest = int(lengths[left[0]])
                count = max(1, budget.tokens // longest)
                if packs:
                    count = packed_rows(lengths[left], budget.tokens)
                    longest = -(-int(lengths[left[:count]].sum()) // count)  # nothing is padded
                batch, began = left[:count], time.perf_counter()
                forward = partial(_started, reranker, [items[i] for i in batch])
                wait = budget.run(forward, rows=len(batch), longest=longest)
                if wait is None:
                    continue
                left = left[len(batch) :]
                started.append((batch, began, wait))
                if len(left) and packs and len(started) < 2:  # on a GPU, a batch ahead
                    continue
            batch, began, wait = started.popleft()
            scores = wait()
            budget.slowest_s = max(budget.slowest_s, time.perf_counter() - began)
            yield start + batch, scores, int(lengths[batch].sum())


def _started(reranker: Reranker, items: Sequence[PairInput]) -> Callable[[], Scores]:
    """Start a batch; if the reranker cannot, score it."""
    if isinstance(reranker, StartingReranker):
        return reranker.start(items)
    scores = reranker.score(items)
    return lambda: scores


def _check(name: str, pairs: Sequence[TextPair], scores: Scores) -> None:
    valid = np.isfinite(scores.raw) & (scores.score >= 0) & (scores.score <= 1)
    if not valid.all():
        wrong = int(np.flatnonzero(~valid)[0])
        raise InputError(
            f"reranker {name}: found raw {scores.raw[wrong]} and score {scores.score[wrong]} for "
            f"{_quote(pairs[wrong])}; allowed: a finite raw score and a score in [0, 1]. A reduced "
            "dtype may overflow: try float32."
        )


def _quote(pair: TextPair) -> str:
    query, text = (each if len(each) <= 80 else each[:77] + "..." for each in pair)
    return f"query {query!r}, text {text!r}"


def reranker_revision(name: str, entry: RerankerModel, fingerprint: str | None) -> dict[str, str]:
    """Return a score table's provenance: the reranker's checkpoint, and its fingerprint.

    The fingerprint identifies everything that decides a score; it is None if nothing was scored.
    """
    identity = checkpoint_identity(*checkpoint_of(entry))
    return {f"reranker:{name}": identity if fingerprint is None else f"{identity} {fingerprint}"}


def score_texts(
    name: str,
    entry: RerankerModel,
    blocks: Iterable[Sequence[TextPair]],
    *,
    load: Load,
    store: str | Path,
    device: str,
    tokens_per_batch: int,
) -> tuple[Scores, str | None]:
    """Score (query, text) pairs block by block.

    Scores are looked up in the pair store first and are added to it. A pair without text is not
    scored: its scores are NaN. Also returns the reranker's fingerprint, None if there was nothing
    to score.

    Parameters
    ----------
    blocks
        The pairs. Only one block is in memory; each lookup of a block reads the whole store, so
        many small blocks are slow.
    load
        Called once, if a pair has text, even if the store has its scores, because the reranker's
        fingerprint addresses them.

    Raises
    ------
    InputError
        If a score is not in [0, 1], or the reranker cannot be loaded.
    Stopped
        If the job has to end early; the scores so far are stored.
    """
    reranker: Reranker | None = None
    scores = [Scores(np.empty(0), np.empty(0))]
    for pairs in blocks:
        if not any(map(has_text, pairs)):
            scores.append(Scores(*np.full((2, len(pairs)), np.nan)))
            continue
        reranker = reranker or load(name, entry, device=device)
        stored = PairStore(Path(store) / "pairs" / name, reranker.fingerprint)
        with watched_stop() as stop:
            scores.append(
                score_pairs(
                    reranker,
                    pairs,
                    store=stored,
                    tokens_per_batch=tokens_per_batch,
                    device=device,
                    stop=stop,
                )
            )
    raw, score = (
        np.concatenate([getattr(each, key) for each in scores]) for key in ("raw", "score")
    )
    return Scores(raw, score), None if reranker is None else reranker.fingerprint


def pair_blocks(
    wanted: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame, *, where: str
) -> Iterator[list[TextPair]]:
    """Yield the (query, text) pairs that a reranker scores, a block at a time.

    A pair refers to texts that are in memory once.

    Parameters
    ----------
    wanted
        (n_pairs, >=2) with query_id and doc_id, in the order of the pairs.
    where
        Name of the corpus, for error messages.

    Raises
    ------
    InputError
        If a document is not in the corpus.
    """
    questions, texts = (frame.get_column("text").to_list() for frame in (queries, corpus))
    indexed = wanted
    for frame, name in ((queries, "query"), (corpus, "doc")):
        rows = frame.select(pl.col("_id").alias(f"{name}_id")).with_row_index(name)
        indexed = indexed.join(rows, on=f"{name}_id", how="left", maintain_order="left")
    unknown = indexed.filter(pl.col("doc").is_null())
    if unknown.height:
        query_id, doc_id = unknown.select("query_id", "doc_id").row(0)
        raise InputError(
            f"{where}: has no document {doc_id!r}, which the run lists for query {query_id!r} "
            f"({unknown.height} such pairs); give a run and queries of this corpus"
        )
    for block in indexed.select("query", "doc").iter_slices(PAIRS_PER_BLOCK):
        yield [(questions[query], texts[doc]) for query, doc in block.iter_rows()]
