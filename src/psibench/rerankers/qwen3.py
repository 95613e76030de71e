"""Qwen3-Reranker: how probable "yes" is against "no" as the answer to a fixed question.

Format and score as on the model card (Qwen/Qwen3-Reranker-0.6B) and in Zhang et al. 2025,
arXiv:2506.05176, section 2: softmax over the logits of "yes" and "no" at the last position, which
is the sigmoid of their difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.config.rerankers import Qwen3Reranker
from psibench.errors import InputError
from psibench.rerankers.causal import last_logits, load_causal, load_tokenizer, token_id
from psibench.rerankers.protocols import Pair, PairTokens
from psibench.rerankers.transformer import (
    TransformerReranker,
    encodings_of,
    entry_fingerprint,
    resolve_dtype,
    visible_char_end,
)

PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
MIN_ROOM = 32
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def format_pair(pair: Pair, instruction: str) -> str:
    """Write what stands between `PREFIX` and `SUFFIX`."""
    query, text = pair
    return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"


def load_qwen3(name: str, entry: Qwen3Reranker, *, device: str) -> TransformerReranker:
    """Load a Qwen3 reranker, weights in the entry's number format.

    ``max_tokens`` counts prefix and suffix; what is too long loses its end, the suffix never.

    Raises
    ------
    InputError
        If it cannot be loaded, has no tokens "yes" and "no", or ``max_tokens`` leaves no room.
    """
    dtype = resolve_dtype(entry.dtype, device)
    tokenizer = load_tokenizer(entry)
    layout = Qwen3Layout.of(tokenizer, entry)
    model = load_causal(entry, device=device, dtype=dtype, longest=entry.max_tokens)
    yes, no = (token_id(tokenizer, word, entry) for word in ("yes", "no"))
    return TransformerReranker(
        name=name,
        fingerprint=entry_fingerprint(entry, dtype=dtype),
        max_tokens=entry.max_tokens,
        layout=layout,
        logits=last_logits(model, yes, against=no),
        device=device,
        pad_id=tokenizer.pad_token_id or 0,
        padding_side="left",
    )


@dataclass(frozen=True)
class Qwen3Layout:
    """Pairs as tokens of `PREFIX`, the formatted pair cut to ``room`` tokens, and `SUFFIX`."""

    tokenizer: Any
    instruction: str
    prefix: list[int]
    suffix: list[int]
    room: int

    @classmethod
    def of(cls, tokenizer: Any, entry: Qwen3Reranker) -> "Qwen3Layout":
        """Make the layout; too little room for a pair is refused."""
        prefix, suffix = (
            tokenizer(part, add_special_tokens=False)["input_ids"] for part in (PREFIX, SUFFIX)
        )
        room = entry.max_tokens - len(prefix) - len(suffix)
        if room < MIN_ROOM:
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} leaves {room} "
                f"tokens beside the format's own; needed: {MIN_ROOM}"
            )
        return cls(tokenizer, entry.instruction, prefix, suffix, room)

    def encode(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Tokenize pairs."""
        if not pairs:
            return []
        return [
            PairTokens(np.array([*self.prefix, *ids, *self.suffix], dtype=np.int32))
            for ids in self._encoded(pairs)["input_ids"]
        ]

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say what is read of each text: the end of the formatted pair is what is cut."""
        if not pairs:
            return []
        return [
            visible_char_end(encoding, text, before=len(format_pair((query, ""), self.instruction)))
            for encoding, (query, text) in zip(
                encodings_of(self._encoded(pairs)), pairs, strict=True
            )
        ]

    def _encoded(self, pairs: Sequence[Pair]) -> Any:
        return self.tokenizer(
            [format_pair(pair, self.instruction) for pair in pairs],
            add_special_tokens=False,
            truncation=True,
            max_length=self.room,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
