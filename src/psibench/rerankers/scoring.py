"""Rerankers from registry entries, and the scores that a store lacks.

Pairs of like length go together, in batches by tokens.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
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
from psibench.models.budget import TokenBudget
from psibench.models.checkpoints import checkpoint_identity, loading
from psibench.models.dtypes import pick_device
from psibench.models.load import SAMPLE
from psibench.models.protocols import StopCheck
from psibench.progress import Progress
from psibench.rerankers.protocols import Pair, Reranker, Scores, has_text
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
        if isinstance(entry, CrossEncoderReranker | FlagReranker):
            from psibench.rerankers.classifiers import load_classifier

            load: Load = load_classifier
        else:
            from psibench.rerankers.decoders import load_decoder as load
        reranker = load(name, entry, device=device)
        reranker.score(reranker.tokenize([(SAMPLE, SAMPLE)]))  # as `load_encoder` does
        return reranker


load_when_needed = lru_cache(maxsize=1)(load_reranker)
"""As `load_reranker`; the one asked for last is kept: the domains of a job share it."""


TOKENS_PER_CHAR = 0.25
"""Of pairs until some are seen that are not cut: their tokens say how many the others have."""


def score_pairs(
    reranker: Reranker,
    pairs: Sequence[Pair],
    *,
    store: PairStore | None,
    tokens_per_batch: int,
    device: str = "auto",
    pairs_per_shard: int = 16_384,
    stop: StopCheck | None = None,
) -> Scores:
    """Score the distinct pairs that are not in the store yet; take the others from it.

    A pair with an empty query or text (nothing but white space, as a third of a document shorter
    than 3 characters) is not shown to the reranker nor stored; its scores are NaN.

    Work goes from the longest pair to the shortest, so that a batch holds pairs of like length
    and the memory needed shows at once. Every batch is stored when it is done: a killed job loses
    at most one.

    Parameters
    ----------
    store
        Of this reranker's fingerprint; None stores nothing.
    tokens_per_batch
        Padded tokens in one forward pass; 0: as many as ``device``, the reranker's, is fast with.
        Halved when its memory is not enough, for the rest of the job.
    pairs_per_shard
        Pairs tokenized at once.
    stop
        Asked before every batch; if it raises, what is scored is stored.

    Raises
    ------
    InputError
        If the reranker gives NaN, an infinite value or a score outside [0, 1]; if one pair alone
        does not fit into the memory.
    """
    asked = [i for i, pair in enumerate(pairs) if has_text(pair)]
    keys, first, places = np.unique(
        pair_keys([pairs[i] for i in asked]), return_index=True, return_inverse=True
    )
    distinct = [pairs[asked[i]] for i in first]
    found = (store.find if store is not None else nothing_found)(keys)
    lengths = np.array([-len(query) - len(text) for query, text in distinct], dtype=np.int64)
    todo = np.flatnonzero(~found.known)
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
            found.raw[rows], found.score[rows] = scores.raw, scores.score
            if store is not None:
                store.add(keys[rows], scores.raw, scores.score)
            progress.advance(n_tokens)
    raw, score = np.full((2, len(pairs)), np.nan)
    raw[asked], score[asked] = found.raw[places], found.score[places]
    logger.info(
        "scoring %s: %d pairs scored now, %d from the store, %d without text",
        reranker.name, len(todo), len(keys) - len(todo), len(pairs) - len(asked),
    )  # fmt: skip
    return Scores(raw, score)


def _score_batches(
    reranker: Reranker,
    pairs: Sequence[Pair],
    *,
    tokens_per_batch: int,
    device: str,
    pairs_per_shard: int,
    stop: StopCheck | None,
    progress: Progress,
) -> Iterator[tuple[np.ndarray, Scores, int]]:
    """Yield the places of a batch's pairs, their scores and their tokens, longest first.

    Shard by shard; ``progress`` is told how many tokens there are to come.
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
    for start in range(0, len(pairs), pairs_per_shard):
        items = reranker.tokenize(pairs[start : start + pairs_per_shard])
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
                "scoring %s: %d of %d pairs reach its %d tokens; what comes after is not seen",
                name, n_cut, len(lengths), limit
            )  # fmt: skip
        left = np.argsort(-lengths, kind="stable")
        while len(left):
            if stop is not None:
                stop.check(2 * budget.slowest_s)
            longest = int(lengths[left[0]])
            batch = left[: max(1, budget.tokens // longest)]
            forward = partial(reranker.score, [items[i] for i in batch])
            scores = budget.run(forward, rows=len(batch), longest=longest)
            if scores is None:
                continue
            yield start + batch, scores, int(lengths[batch].sum())
            left = left[len(batch) :]


def _check(name: str, pairs: Sequence[Pair], found: Scores) -> None:
    fine = np.isfinite(found.raw) & (found.score >= 0) & (found.score <= 1)
    if not fine.all():
        wrong = int(np.flatnonzero(~fine)[0])
        raise InputError(
            f"reranker {name}: found raw {found.raw[wrong]} and score {found.score[wrong]} for "
            f"{_quote(pairs[wrong])}; allowed: finite, and a score in [0, 1]. A reduced dtype may "
            "overflow: try float32."
        )


def _quote(pair: Pair) -> str:
    query, text = (part if len(part) <= 80 else part[:77] + "..." for part in pair)
    return f"query {query!r}, text {text!r}"


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
) -> tuple[Scores, str | None]:
    """Score (query, text) pairs block by block.

    Scores are looked up in the pair store first, and kept there. A pair without text is not shown
    to the reranker: its scores are NaN. Also returns the reranker's fingerprint, None if there was
    nothing to score.

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
    found = [Scores(np.empty(0), np.empty(0))]
    for pairs in blocks:
        if not any(map(has_text, pairs)):
            found.append(Scores(*np.full((2, len(pairs)), np.nan)))
            continue
        reranker = reranker or load(name, entry, device=device)
        stored = PairStore(Path(store) / "pairs" / name, reranker.fingerprint)
        with watched_stop() as stop:
            found.append(
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
        np.concatenate([getattr(each, key) for each in found]) for key in ("raw", "score")
    )
    return Scores(raw, score), None if reranker is None else reranker.fingerprint


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
