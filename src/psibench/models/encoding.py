"""Encode what the store lacks of some texts, each distinct one once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psibench.models.encode_stats import EncodeStats
from psibench.models.protocols import Encoder, StopCheck, TokenizedText
from psibench.models.text_encoding import Batching, TextEncoding
from psibench.progress import Progress
from psibench.store.embeddings import EmbeddingStore, text_key

__all__ = ["Batching", "Encoded", "encode_texts"]


@dataclass(frozen=True)
class Encoded:
    """Where texts' vectors lie and what the model saw of them, one entry per text given.

    ``n_tokens`` and ``visible_char_end`` are (n_texts,) int32; ``n_new`` counts the texts that had
    to be encoded, ``stats`` says how fast they were.
    """

    keys: list[bytes]
    n_tokens: np.ndarray
    visible_char_end: np.ndarray
    n_new: int
    stats: EncodeStats


def encode_texts(
    encoder: Encoder,
    texts: Sequence[str],
    tokenized: Sequence[TokenizedText],
    *,
    salt: str,
    store: EmbeddingStore,
    batching: Batching,
    stop: StopCheck | None = None,
    description: str,
) -> Encoded:
    """Encode the texts that are not in the store yet, each distinct one once.

    The other texts, their order, and where a killed job was resumed change a vector by rounding
    only: see ``models.rounding``.

    Raises
    ------
    InputError
        If one text alone does not fit into the device's memory.
    """
    keys = [text_key(text, salt=salt) for text in texts]
    n_tokens = [item.n_tokens for item in tokenized]
    with Progress(description, total=sum(n_tokens), unit="tokens") as progress:
        encoding = TextEncoding(encoder, store, batching, stop=stop, advance=progress.advance)
        n_new = encoding.add(keys, tokenized, n_tokens)
        encoding.finish()
    return Encoded(
        keys,
        np.array(n_tokens, dtype=np.int32),
        np.array([item.visible_char_end for item in tokenized], dtype=np.int32),
        n_new,
        encoding.stats,
    )
