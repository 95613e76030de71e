"""Token ids, windows and the reach of truncation, from a fast tokenizer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from psibench.errors import InputError
from psibench.models.protocols import TokenizedText

CHUNK = 512  # texts per tokenizer call: offsets are bulky


def tokenize_texts(
    tokenizer: Any,
    texts: Sequence[str],
    *,
    prompt: str = "",
    max_tokens: int | None = None,
    overlap: int | None = None,
    special_tokens: bool = True,
) -> list[TokenizedText]:
    """Tokenize texts.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers (offsets are needed).
    max_tokens
        Longest window, special tokens included; None keeps the whole text in one window.
    overlap
        Tokens shared by neighbouring windows; None truncates to the first window.
    """
    if not tokenizer.is_fast:
        raise InputError(f"{type(tokenizer).__name__} gives no character offsets; use a fast one")
    options: dict[str, Any] = {
        "add_special_tokens": special_tokens,
        "return_offsets_mapping": True,
        "return_special_tokens_mask": True,
        "verbose": False,
    }
    if max_tokens is not None:
        options |= {"truncation": True, "max_length": max_tokens}
    if overlap is not None:
        options |= {"return_overflowing_tokens": True, "stride": overlap}
    tokenized: list[TokenizedText] = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        encoded = tokenizer([prompt + text for text in chunk], **options)
        owners = encoded.get("overflow_to_sample_mapping", range(len(chunk)))
        tokenized += _group(encoded, owners, chunk, len(prompt), is_cut=overlap is None)
    return tokenized


def _group(
    encoded: Any, owners: Sequence[int], texts: Sequence[str], prompt_chars: int, *, is_cut: bool
) -> list[TokenizedText]:
    """Collect the windows of each text.

    Of a text that was cut, what ends with its last token is visible; of any other all is, also the
    characters at its end of which the tokenizer makes no token.
    """
    windows: list[list[np.ndarray]] = [[] for _ in texts]
    content: list[list[np.ndarray]] = [[] for _ in texts]
    reach = [0] * len(texts)
    for row, owner in enumerate(owners):
        offsets = np.asarray(encoded["offset_mapping"][row], dtype=np.int64).reshape(-1, 2)
        special = np.asarray(encoded["special_tokens_mask"][row], dtype=bool)
        windows[owner].append(np.asarray(encoded["input_ids"][row], dtype=np.int32))
        content[owner].append(~special & (offsets[:, 1] > prompt_chars))
        reach[owner] = len(texts[owner])
        if is_cut and encoded.encodings[row].overflowing:
            reach[owner] = int(offsets[~special, 1].max(initial=0)) - prompt_chars
    return [
        TokenizedText(tuple(windows[i]), tuple(content[i]), max(0, min(reach[i], len(text))))
        for i, text in enumerate(texts)
    ]
