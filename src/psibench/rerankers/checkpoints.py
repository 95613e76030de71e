"""What rerankers made of a checkpoint share: what is read of a pair, and how it is scored."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from psibench.config.rerankers import CheckpointReranker, FlagEmbeddingReranker
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import fast_dtype
from psibench.models.tokenizing import refuse_left_truncation
from psibench.rerankers.protocols import RERANKER_VERSIONS, Pair, Scores, sigmoid
from psibench.tables.provenance import hash_params

# Entries differ in these without their scores differing, or the fingerprint has them otherwise.
OTHER_FIELDS = frozenset({"description", "tokens_per_batch", "checkpoint", "revision", "dtype"})
CHUNK = 1024  # pairs per tokenizer call


class Tokens(NamedTuple):
    """A model's input: (n_tokens,) ids and, of a pair's template, which text each is of."""

    ids: np.ndarray
    types: np.ndarray

    @property
    def n_tokens(self) -> int:
        """Tokens of the whole input."""
        return len(self.ids)


@dataclass(frozen=True)
class Reading:
    """What a model reads of a pair.

    Attributes
    ----------
    ids
        Tokens of the whole input.
    encoding
        The input or its text alone, cut, the rest as overflow (``tokenizers.Encoding``).
    sequence
        Which of the tokenizer's inputs the text is in: 0, or 1 for the second of a pair.
    before
        Characters in front of the text in that input.
    """

    ids: list[int]
    encoding: Any
    sequence: int = 0
    before: int = 0

    @property
    def tokens(self) -> Tokens:
        """What the network is given."""
        ids = np.array(self.ids)
        return Tokens(
            ids, np.array(self.encoding.type_ids) if self.sequence else np.zeros_like(ids)
        )

    def visible_char_end(self, text: str) -> int:
        """Return how many characters of the text are read.

        Of a text that was cut, what ends with its last token; of any other all, also the characters
        at its end of which the tokenizer makes no token.
        """
        read = self._last_char(self.encoding)
        if all(self._last_char(rest) <= read for rest in self.encoding.overflowing):
            return len(text)
        return min(max(read - self.before, 0), len(text))

    def _last_char(self, encoding: Any) -> int:
        ends = zip(encoding.offsets, encoding.sequence_ids, strict=True)
        return max((end for (_, end), sequence in ends if sequence == self.sequence), default=0)


@dataclass(frozen=True)
class CheckpointScorer:
    """A `Reranker` made of a checkpoint.

    Attributes
    ----------
    read
        Pairs -> what is read of each.
    logits
        The inputs of one batch -> (n_pairs,) raw outputs, one forward pass.
    """

    name: str
    entry: CheckpointReranker
    dtype: str
    max_tokens: int
    read: Callable[[Sequence[Pair]], Iterator[Reading]]
    logits: Callable[[Sequence[Tokens]], Any]

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        return hash_params(
            self.entry.model_dump(mode="json", exclude=set(OTHER_FIELDS))
            | {
                "identity": checkpoint_identity(self.entry.checkpoint, self.entry.revision),
                "dtype": self.dtype,
                "version": RERANKER_VERSIONS[self.entry.backend],
            }
        )

    def tokenize(self, pairs: Sequence[Pair]) -> list[Tokens]:
        """Make the inputs of pairs."""
        return [found.tokens for _, found in self._readings(pairs)]

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say how many characters of each text are in the model's input."""
        return [found.visible_char_end(text) for (_, text), found in self._readings(pairs)]

    def score(self, items: Sequence[Tokens]) -> Scores:
        """Score a batch in one forward pass."""
        raw = np.asarray(self.logits(items).cpu(), dtype=np.float64)
        return Scores(raw, sigmoid(raw))

    def _readings(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Reading]]:
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            yield from zip(chunk, self.read(chunk), strict=True)


def number_format(entry: CheckpointReranker, device: str) -> str:
    """Choose what a reranker computes in: FlagEmbedding's float16, but for a CPU, as the papers."""
    if isinstance(entry, FlagEmbeddingReranker):
        return "float32" if device == "cpu" or entry.dtype == "float32" else "float16"
    return fast_dtype(device) if entry.dtype == "auto" else entry.dtype


def encode(tokenizer: Any, *texts: list[str], **options: Any) -> list[Any]:
    """Return a fast tokenizer's encodings, which know the characters of each token."""
    if options.get("truncation"):
        refuse_left_truncation(tokenizer)
    found: list[Any] | None = tokenizer(*texts, verbose=False, **options).encodings
    if found is None:
        raise InputError(
            "the reranker's tokenizer gives no character offsets, so that it cannot be told what "
            "is read of a text; use a checkpoint with a fast one (tokenizer.json)"
        )
    return found


def linear_in_float32(layer: Any, hidden: Any) -> Any:
    """Apply a linear layer in float32, whatever its weights and its input are stored in.

    bfloat16 leaves 8 numbers between 10 and 10.5: a hundred logits there would be a handful of
    ties, which ids decide.
    """
    import torch

    bias = None if layer.bias is None else layer.bias.float()
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.nn.functional.linear(hidden.float(), layer.weight.float(), bias)
