"""Rerankers that are one transformer over query and text: how a batch goes through it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from psibench.config.rerankers import CheckpointReranker
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import fast_dtype
from psibench.rerankers.protocols import Pair, PairTokens, Scores, sigmoid
from psibench.rerankers.versions import RERANKER_VERSIONS
from psibench.tables.provenance import hash_params

# Entries differ in these without their scores differing, or the fingerprint has them otherwise.
OTHER_FIELDS = frozenset({"description", "tokens_per_batch", "checkpoint", "revision", "dtype"})


class PairLayout(Protocol):
    """How query and text become one input."""

    def encode(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Turn pairs into token ids, cut to what the model reads."""

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say how many characters of each text that leaves."""


@dataclass(frozen=True)
class TransformerReranker:
    """A `Reranker` made of a tokenizer's format and a transformer's output.

    Attributes
    ----------
    name, fingerprint, max_tokens
        As in `Reranker`.
    layout
        Pairs -> their token ids.
    logits
        Padded tensors -> (n_pairs,) raw outputs.
    pad_id, padding_side
        How a batch is filled up. Causal models are padded on the left, so that the last position
        is the last token of every pair; their position ids are given, and start at 0 for each
        pair, so that padding changes nothing.
    autocast
        Number format of the forward pass; float32 is none.
    activation
        sigmoid, or none where raw outputs lie in [0, 1].
    """

    name: str
    fingerprint: str
    max_tokens: int
    layout: PairLayout
    logits: Callable[[dict[str, Any]], Any]
    device: str
    pad_id: int
    padding_side: Literal["left", "right"] = "right"
    autocast: str = "float32"
    activation: Literal["sigmoid", "none"] = "sigmoid"

    def tokenize(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Turn pairs into token ids."""
        return self.layout.encode(pairs)

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say how many characters of each text are in the model's input."""
        return self.layout.visible_char_ends(pairs)

    def score(self, items: Sequence[PairTokens]) -> Scores:
        """Score a batch in one forward pass."""
        import torch

        arrays = pad(items, pad_id=self.pad_id, side=self.padding_side)
        tensors = {name: torch.from_numpy(a).to(self.device) for name, a in arrays.items()}
        reduced = self.autocast != "float32"
        with (
            torch.inference_mode(),
            torch.autocast(self.device, dtype=getattr(torch, self.autocast), enabled=reduced),
        ):
            output = self.logits(tensors)
        raw = output.double().cpu().numpy()
        return Scores(raw, sigmoid(raw) if self.activation == "sigmoid" else raw)


def visible_char_end(encoding: Any, text: str, *, sequence: int = 0, before: int = 0) -> int:
    """Return how many characters of a text are in an input, by the tokenizer's offsets.

    Of a text that was cut, what ends with its last token; of any other all, also the characters at
    its end of which the tokenizer makes no token.

    Parameters
    ----------
    encoding
        The cut input and, as its overflow, what was cut off (``tokenizers.Encoding``).
    sequence
        Which of the tokenizer's inputs the text is in: 0, or 1 for the second of a pair.
    before
        Characters that stand in front of the text in that input.
    """
    read = _last_char(encoding, sequence)
    if all(_last_char(rest, sequence) <= read for rest in encoding.overflowing):
        return len(text)
    return min(max(read - before, 0), len(text))


def _last_char(encoding: Any, sequence: int) -> int:
    owned = zip(encoding.offsets, encoding.sequence_ids, strict=True)
    return max((end for (_, end), owner in owned if owner == sequence), default=0)


def encodings_of(encoded: Any) -> list[Any]:
    """Return a fast tokenizer's encodings, which know the characters of each token.

    Raises
    ------
    InputError
        If the tokenizer is none.
    """
    if encoded.encodings is None:
        raise InputError(
            "the reranker's tokenizer gives no character offsets, so that it cannot be told what "
            "is read of a text; use a checkpoint with a fast one (tokenizer.json)"
        )
    found: list[Any] = encoded.encodings
    return found


def pad(
    items: Sequence[PairTokens], *, pad_id: int, side: Literal["left", "right"]
) -> dict[str, np.ndarray]:
    """Fill pairs up to the longest: (n_pairs, longest) int64 arrays by input name.

    Padding on the left comes with position ids.
    """
    shape = (len(items), max(item.n_tokens for item in items))
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.int64)
    types = np.zeros(shape, dtype=np.int64)
    for row, item in enumerate(items):
        n = item.n_tokens
        place = slice(shape[1] - n, None) if side == "left" else slice(0, n)
        ids[row, place], mask[row, place] = item.ids, 1
        if item.types is not None:
            types[row, place] = item.types
    padded = {"input_ids": ids, "attention_mask": mask}
    if items[0].types is not None:
        padded["token_type_ids"] = types
    if side == "left":
        padded["position_ids"] = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    return padded


def resolve_dtype(wanted: str, device: str) -> str:
    """Resolve ``auto``: float32 on a CPU, what the GPU is made for there."""
    if wanted != "auto":
        return wanted
    return fast_dtype(device) if device == "cuda" else "float32"


def entry_fingerprint(entry: CheckpointReranker, *, dtype: str) -> str:
    """Hash everything that decides the scores of an entry's checkpoint."""
    return hash_params(
        entry.model_dump(mode="json", exclude=set(OTHER_FIELDS))
        | {
            "identity": checkpoint_identity(entry.checkpoint, entry.revision),
            "dtype": dtype,
            "version": RERANKER_VERSIONS[entry.backend],
        }
    )
