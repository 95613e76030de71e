"""Encode what the store lacks: longest texts together, in batches by tokens, shard by shard."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psibench.models.protocols import Encoder, TokenizedText
from psibench.progress import Progress
from psibench.store.embeddings import EmbeddingStore, text_key


@dataclass(frozen=True)
class Encoded:
    """Where texts' vectors lie and what the model saw of them, one entry per text given.

    ``n_tokens`` and ``visible_char_end`` are (n_texts,) int32; ``n_new`` counts the texts that had
    to be encoded.
    """

    keys: list[bytes]
    n_tokens: np.ndarray
    visible_char_end: np.ndarray
    n_new: int


def encode_texts(
    encoder: Encoder,
    texts: Sequence[str],
    tokenized: Sequence[TokenizedText],
    *,
    salt: str,
    store: EmbeddingStore,
    tokens_per_batch: int,
    tokens_per_shard: int,
    description: str,
) -> Encoded:
    """Encode the texts that are not in the store yet, each distinct one once.

    Work goes from the longest text to the shortest, so that a batch holds texts of like length
    and the memory needed shows at once. A shard is written when it is done: a killed job loses at
    most one.
    """
    keys = [text_key(text, salt=salt) for text in texts]
    todo = store.missing(keys)
    todo.sort(key=lambda index: (-tokenized[index].n_tokens, keys[index]))
    total = sum(tokenized[index].n_tokens for index in todo)
    with Progress(description, total=total, unit="tokens") as progress:
        for shard in _shards(todo, tokenized, tokens_per_shard):
            vectors = _encode_shard(encoder, [tokenized[i] for i in shard], tokens_per_batch)
            store.add([keys[i] for i in shard], vectors)
            progress.advance(sum(tokenized[i].n_tokens for i in shard))
    return Encoded(
        keys,
        np.array([item.n_tokens for item in tokenized], dtype=np.int32),
        np.array([item.visible_char_end for item in tokenized], dtype=np.int32),
        len(todo),
    )


def plan_batches(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Group indices so that a batch, padded to its longest member, stays within the budget.

    Members are taken longest first. A member longer than the budget makes a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(1, tokens_per_batch // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def _shards(
    order: Sequence[int], tokenized: Sequence[TokenizedText], budget: int
) -> Iterator[list[int]]:
    shard: list[int] = []
    tokens = 0
    for index in order:
        shard.append(index)
        tokens += tokenized[index].n_tokens
        if tokens >= budget:
            yield shard
            shard, tokens = [], 0
    if shard:
        yield shard


def _encode_shard(
    encoder: Encoder, items: Sequence[TokenizedText], tokens_per_batch: int
) -> list[np.ndarray]:
    """Encode the windows of a shard's texts; returns (n_vectors, dim) per text."""
    windows = [window for item in items for window in item.windows]
    content = [keep for item in items for keep in item.content]
    outputs: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(windows)
    for batch in plan_batches([len(window) for window in windows], tokens_per_batch):
        vectors = encoder.forward([windows[i] for i in batch], [content[i] for i in batch])
        for index, vector in zip(batch, vectors, strict=True):
            outputs[index] = vector
    ends = np.cumsum([len(item.windows) for item in items])
    starts = ends - [len(item.windows) for item in items]
    return [np.concatenate(outputs[a:b]) for a, b in zip(starts, ends, strict=True)]
