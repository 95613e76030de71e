"""Shared code of rerankers with a checkpoint: the model's input for a pair, and its score."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from psibench.config.rerankers import CheckpointReranker, FlagEmbeddingReranker
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import fast_dtype
from psibench.models.packing import fetched
from psibench.models.tokenizing import refuse_left_truncation
from psibench.rerankers.protocols import RERANKER_VERSIONS, Scores, TextPair, sigmoid
from psibench.tables.provenance import hash_params

# Fields of an entry that do not change its scores, or that the fingerprint covers otherwise.
OTHER_FIELDS = frozenset({"description", "tokens_per_batch", "checkpoint", "revision", "dtype"})
_PAIRS_PER_CALL = 1024  # of the tokenizer


class Tokens(NamedTuple):
    """A model's input: (n_tokens,) token ids and token types.

    In a template of pairs, the type of a token is the number of its text, 0 or 1; otherwise 0.
    """

    ids: np.ndarray
    types: np.ndarray

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the input."""
        return len(self.ids)


@dataclass(frozen=True)
class Reading:
    """A model's input for a pair.

    Attributes
    ----------
    ids
        Token ids of the whole input.
    visible
        Text -> how many of its leading characters the model reads. A text that was cut is visible
        up to the end of its last token; any other text to its end, even if the tokenizer drops its
        last characters.
    types
        Token types; None: 0.
    """

    ids: list[int]
    visible: Callable[[str], int]
    types: list[int] | None = None

    @property
    def tokens(self) -> Tokens:
        """Input of the network."""
        ids = np.array(self.ids)
        return Tokens(ids, np.zeros_like(ids) if self.types is None else np.array(self.types))


def visible_chars(encoding: Any, text: str, *, sequence: int = 0, before: int = 0) -> int:
    """Return how many leading characters of a text are in an encoding that was cut.

    Parameters
    ----------
    encoding
        The input, or its part with the text, with the rest as overflow (``tokenizers.Encoding``).
    sequence
        Index of the tokenizer's input that has the text: 0, or 1 for the second of a pair.
    before
        Number of characters before the text in that input.
    """

    def last_char(part: Any) -> int:
        ends = zip(part.offsets, part.sequence_ids, strict=True)
        return max((end for (_, end), number in ends if number == sequence), default=0)

    read = last_char(encoding)
    if all(last_char(rest) <= read for rest in encoding.overflowing):
        return len(text)
    return min(max(read - before, 0), len(text))


@dataclass(frozen=True)
class CheckpointScorer:
    """A `Reranker` that runs a checkpoint.

    Attributes
    ----------
    read
        Pairs -> the model's input for each.
    logits
        The inputs of one batch -> (n_pairs,) raw outputs, in one forward pass.
    packs
        Whether ``logits`` does not pad.
    """

    name: str
    entry: CheckpointReranker
    dtype: str
    max_tokens: int
    read: Callable[[Sequence[TextPair]], Iterator[Reading]]
    logits: Callable[[Sequence[Tokens]], Any]
    packs: bool = False

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

    def tokenize(self, pairs: Sequence[TextPair]) -> list[Tokens]:
        """Return the model's inputs for pairs."""
        return [reading.tokens for _, reading in self._readings(pairs)]

    def visible_char_ends(self, pairs: Sequence[TextPair]) -> list[int]:
        """Return how many leading characters of each text are in the model's input."""
        return [reading.visible(text) for (_, text), reading in self._readings(pairs)]

    def score(self, items: Sequence[Tokens]) -> Scores:
        """Score a batch in one forward pass."""
        return self.start(items)()

    def start(self, items: Sequence[Tokens]) -> Callable[[], Scores]:
        """Start a batch; on a GPU, only the returned function waits for its scores."""
        wait = fetched(self.logits(items).float())

        def scores() -> Scores:
            raw = wait().astype(np.float64)
            return Scores(raw, sigmoid(raw))

        return scores

    def _readings(self, pairs: Sequence[TextPair]) -> Iterator[tuple[TextPair, Reading]]:
        for start in range(0, len(pairs), _PAIRS_PER_CALL):
            chunk = pairs[start : start + _PAIRS_PER_CALL]
            yield from zip(chunk, self.read(chunk), strict=True)


def number_format(entry: CheckpointReranker, device: str) -> str:
    """Return a reranker's number format.

    FlagEmbedding's rerankers run in float16, as in the papers, but in float32 on a CPU.
    """
    if isinstance(entry, FlagEmbeddingReranker):
        return "float32" if device == "cpu" or entry.dtype == "float32" else "float16"
    return fast_dtype(device) if entry.dtype == "auto" else entry.dtype


def encode(tokenizer: Any, *texts: list[str], **options: Any) -> list[Any]:
    """Return a fast tokenizer's encodings, which have the characters of each token."""
    if options.get("truncation"):
        refuse_left_truncation(tokenizer)
    encodings: list[Any] | None = tokenizer(*texts, verbose=False, **options).encodings
    if encodings is None:
        raise InputError(
            "the reranker's tokenizer returns no character offsets, so the visible part of a text "
            "is unknown; use a checkpoint with a fast tokenizer (tokenizer.json)"
        )
    return encodings


def linear_in_float32(layer: Any, hidden: Any) -> Any:
    """Apply a linear layer in float32, whatever the format of its weights and input.

    Between 10 and 10.5, bfloat16 has only 8 numbers: a hundred logits there would be mostly ties,
    which ids break.
    """
    import torch

    bias = None if layer.bias is None else layer.bias.float()
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.nn.functional.linear(hidden.float(), layer.weight.float(), bias)
