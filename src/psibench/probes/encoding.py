"""Vectors of a probe's texts, kept in the shared store so that each text is encoded once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from psibench.config.models import EncoderModel
from psibench.config.sections import Encoding
from psibench.encode.batches import TextEncoding
from psibench.encode.job import BLOCK_CHARS, open_encoder
from psibench.encode.store import key_array, open_store, text_key
from psibench.errors import InputError
from psibench.models.budget import TokenBudget
from psibench.models.protocols import Encoder, Role, TokenizedText
from psibench.models.transformer import TransformerEncoder
from psibench.probes.settings import NO_GRADIENTS
from psibench.progress import Progress
from psibench.stopping import watched_stop
from psibench.text.lengths import in_blocks

GRADIENT_FACTOR = 4
"""Memory of a token with gradients, in tokens encoded without: all layers' states are kept."""


@dataclass(frozen=True)
class EncodedTexts:
    """Store keys of texts and the amount of text that the model read, (n_texts,) each.

    ``keys`` are 16-byte addresses in the store; ``n_tokens`` int32 includes special tokens;
    ``visible_chars`` int32 is the number of leading characters that the model read.
    """

    keys: np.ndarray
    n_tokens: np.ndarray
    visible_chars: np.ndarray


@dataclass(frozen=True)
class TokenNorms:
    """Effect of each token of a document on its cosine with a direction.

    ``norms`` are the (n_tokens,) L2 norms of the gradients from `embedding_gradients`, without
    special tokens and prompt; ``visible_chars`` is the number of characters that the model read.
    """

    norms: np.ndarray
    visible_chars: int


class ProbeEncoder:
    """A model that makes one vector per text, and its store; ``dtype`` is its number format.

    Raises
    ------
    InputError
        If the model cannot be loaded.
    """

    def __init__(
        self,
        entry: EncoderModel,
        *,
        model: str,
        store: str | Path,
        settings: Encoding,
    ) -> None:
        self.model, self._settings = model, settings
        self.encoder: Encoder
        self.encoder, self.dtype = open_encoder(entry, settings, needs_torch=True)
        self.store = open_store(
            model, store=store, fingerprint=self.encoder.fingerprint, storage=settings.storage
        )

    def encode(self, texts: Sequence[str], role: Role) -> EncodedTexts:
        """Encode the texts that the store lacks; equal texts are encoded once."""
        salt = self.encoder.salt(role)
        distinct = list(dict.fromkeys(texts))
        keys = [text_key(text, salt=salt) for text in distinct]
        items = self._encoded(distinct, keys, role)
        seen = [(item.n_tokens, item.visible_char_end) for item in items]
        number = {text: k for k, text in enumerate(distinct)}
        rows = np.array([number[text] for text in texts], dtype=np.int64)
        read = np.array(seen, dtype=np.int32).reshape(-1, 2)
        return EncodedTexts(key_array(keys)[rows], read[rows, 0], read[rows, 1])

    def _encoded(
        self, texts: Sequence[str], keys: Sequence[bytes], role: Role
    ) -> Iterator[TokenizedText]:
        encoder = self.encoder
        described = f"encoding {self.model}"
        with (
            watched_stop() as stop,
            Progress(described, total=0, unit="tokens") as progress,
        ):
            n_chars, read_chars = max(1, sum(map(len, texts))), 0
            encoding = TextEncoding(
                encoder,
                self.store,
                self._settings,
                stop=stop,
                expect=lambda n_tokens: progress.expect(n_tokens, share=read_chars / n_chars),
                advance=progress.advance,
            )
            left = iter(keys)
            for block in in_blocks(texts, len, BLOCK_CHARS):
                read_chars += sum(map(len, block))
                items = encoder.tokenize(block, role)
                encoding.add([next(left) for _ in block], items)
                yield from items
            encoding.finish()
            encoding.stats.log()

    def token_norms(self, texts: Sequence[str], directions: np.ndarray) -> list[TokenNorms]:
        """Return the gradient norm per token of each document's cosine with its direction.

        ``directions`` are (n_texts, dim) unit vectors.

        Raises
        ------
        InputError
            If the model is not a transformer that runs in the job, or a single document does not
            fit in the device's memory.
        """
        encoder = self.encoder
        if not isinstance(encoder, TransformerEncoder):
            raise InputError(f"model {self.model!r} cannot be probed: {NO_GRADIENTS}")
        items = encoder.tokenize(texts, "document")
        sizes = [len(item.windows[0]) for item in items]
        order = sorted(range(len(texts)), key=lambda place: -sizes[place])
        budget = TokenBudget(
            self._settings.tokens_per_batch,
            device=self._settings.device,
            title=f"gradients of {self.model}",
            unit="document",
            advice="lower the model's max_tokens, or use a device with more memory",
            factor=GRADIENT_FACTOR,
        )
        found: dict[int, TokenNorms] = {}
        described = f"gradients of {self.model}"
        with (
            watched_stop() as stop,
            Progress(described, total=sum(sizes), unit="tokens") as progress,
        ):
            while order:
                stop.check()
                longest = max(1, sizes[order[0]])
                batch = order[: max(1, budget.tokens // (GRADIENT_FACTOR * longest))]
                content = [items[place].content[0] for place in batch]
                windows = [items[place].windows[0] for place in batch]
                gradients = partial(
                    encoder.embedding_gradients, windows, content, directions[batch]
                )
                moved = budget.run(gradients, rows=len(batch), longest=longest)
                if moved is None:
                    continue
                order = order[len(batch) :]
                for place, by_token, keep in zip(batch, moved, content, strict=True):
                    norms = np.linalg.norm(by_token[keep].astype(np.float64), axis=1)
                    found[place] = TokenNorms(norms, items[place].visible_char_end)
                progress.advance(sum(sizes[place] for place in batch))
        return [found[place] for place in range(len(texts))]

    def vectors(self, encoded: EncodedTexts) -> np.ndarray:
        """Load the vectors of encoded texts, (n_texts, dim) float32."""
        return self.store.load(encoded.keys).values


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosines of the rows of two arrays, (n,) float64, computed in float64.

    A zero vector gives NaN.
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = np.clip(np.einsum("ij,ij->i", a, b) / norms, -1.0, 1.0)
    return found
