"""Token ids, windows and the reach of truncation, from a fast tokenizer; batches of windows."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import SentenceTransformerModel
from psibench.config.model_base import LateChunking
from psibench.errors import InputError
from psibench.models.protocols import TokenizedText
from psibench.models.weights import check_files, check_tokenizer

CHUNK = 512  # texts per tokenizer call: offsets are bulky


def load_tokenizer(
    folder: Path, *, trust_remote_code: bool = False, as_stored: bool = False
) -> Any:
    """Load a checkpoint's tokenizer.

    Parameters
    ----------
    as_stored
        Take tokenizer.json as it is, whatever class the checkpoint names: that may be code of its
        own.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_files(folder)
    if as_stored and (folder / "tokenizer.json").is_file():
        return check_tokenizer(PreTrainedTokenizerFast.from_pretrained(folder), folder)
    loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    return check_tokenizer(loaded, folder)


def refuse_left_truncation(tokenizer: Any) -> None:
    """Refuse a tokenizer that cuts the beginning of long texts: what it leaves is no beginning.

    A text's visible part is recorded by its end alone, so evidence at the beginning would count as
    given.
    """
    if (side := getattr(tokenizer, "truncation_side", "right")) != "right":
        raise InputError(
            f"tokenizer {tokenizer.name_or_path!r}: truncation_side is {side!r}, which cuts the "
            "beginning of long texts; psibench can only record what is cut at their end. If the "
            'model may be read from the beginning, set "truncation_side": "right" in the '
            "tokenizer_config.json of a copy of the checkpoint and name the copy"
        )


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
        refuse_left_truncation(tokenizer)
        options |= {"truncation": True, "max_length": max_tokens}
    if overlap is not None:
        options |= {"return_overflowing_tokens": True, "stride": overlap}
    tokenized: list[TokenizedText] = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        encoded = tokenizer([prompt + text for text in chunk], **options)
        tokenized += _group(encoded, chunk, len(prompt), is_cut=overlap is None)
    return tokenized


def _group(
    encoded: Any, texts: Sequence[str], prompt_chars: int, *, is_cut: bool
) -> list[TokenizedText]:
    """Collect the windows of each text.

    Of a text that was cut, what ends with its last token is visible; of any other all is, also the
    characters at its end of which the tokenizer makes no token.
    """
    owners = encoded.get("overflow_to_sample_mapping", range(len(texts)))
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


def tokens_to_append(entry: SentenceTransformerModel, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of the entry's ``append``, none if the tokenizer puts them there itself.

    Raises InputError if they are no tokens of the tokenizer, or leave no place for a text.
    """
    if not entry.append:
        return ()
    ids = tuple(tokenizer(entry.append, add_special_tokens=False)["input_ids"])
    known = set(tokenizer.all_special_ids) | set(tokenizer.get_added_vocab().values())
    if not ids or not set(ids) <= known:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: append {entry.append!r} is not made of special "
            f"tokens of its tokenizer; known: {', '.join(sorted(tokenizer.all_special_tokens))}"
        )
    if tuple(tokenizer("a")["input_ids"][-len(ids) :]) == ids:
        return ()
    shortest = entry.windows.tokens if entry.windows else entry.max_tokens
    if shortest - len(ids) - tokenizer.num_special_tokens_to_add() < 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: append {entry.append!r} is {len(ids)} tokens, which "
            f"leaves no place for a text in {shortest}"
        )
    return ids


def append_tokens(item: TokenizedText, ids: Sequence[int]) -> TokenizedText:
    """Put tokens at the very end of each window, behind those the tokenizer adds."""
    tail = np.array(ids, dtype=np.int32)
    return replace(
        item,
        windows=tuple(np.concatenate([window, tail]) for window in item.windows),
        content=tuple(np.pad(keep, (0, len(tail))) for keep in item.content),
    )


def pool_behind_prompt(item: TokenizedText, n_prompt: int) -> TokenizedText:
    """Mark as content what NV-Embed pools: all tokens but the first ``n_prompt``.

    Its own code counts the prompt's tokens alone and leaves out as many at the beginning, where the
    special token in front takes the place of the prompt's last one, a space that the text's first
    word swallows. The last token is pooled in any case.
    """
    sizes = map(len, item.windows)
    content = tuple(np.arange(n) >= min(n_prompt, n - 1) for n in sizes)
    return replace(item, content=content)


def head_and_tail(item: TokenizedText, head: TokenizedText, overlap: int) -> TokenizedText:
    """Keep the first window and the last tokens of the text, as many as a window holds.

    A text of one or two windows, in which nothing lies between them, stays as it is. ``item`` has
    all windows, each sharing ``overlap`` tokens with the one before it; ``head`` the first alone,
    which says what is visible: the tail is read, too, but not what lies between.
    """
    if len(item.windows) < 3:
        return item
    (before, last), (inner, kept) = item.windows[-2:], item.content[-2:]
    tokens = np.concatenate([before[inner], last[kept][overlap:]])[-int(inner.sum()) :]
    places = np.flatnonzero(kept)
    front, back = last[: places[0]], last[places[-1] + 1 :]
    tail = np.concatenate([front, tokens, back])
    content = np.pad(np.ones(len(tokens), dtype=bool), (len(front), len(back)))
    windows, contents = (item.windows[0], tail), (item.content[0], content)
    return replace(head, windows=windows, content=contents)


def in_chunks(item: TokenizedText, chunks: LateChunking) -> TokenizedText:
    """Say which tokens of a text, which is one window, each of its chunks is pooled from.

    Chunks count the text's own tokens; a text of no more tokens than one chunk is one chunk. What
    stands before the text (special tokens, the prompt) is in the first chunk, what stands behind it
    in the last (Guenther et al. 2024, section 4.1), so that one chunk has the vector of the whole.
    """
    (window,), (content,) = item.windows, item.content
    places = np.flatnonzero(content)
    step = chunks.tokens - chunks.overlap
    starts = range(0, max(1, len(places) - chunks.overlap), step)
    members = np.zeros((len(starts), len(window)), dtype=bool)
    for row, start in enumerate(starts):
        chunk = places[start : start + chunks.tokens]
        first = chunk[0] if start else 0
        members[row, first : chunk[-1] + 1 if row < len(starts) - 1 else None] = True
    return replace(item, content=(members,))


def padding_id(tokenizer: Any, network: Any) -> int:
    """Return the token that rows of a batch are filled up with, behind their texts.

    No token attends to it, so any token with an input embedding does: the tokenizer's own where it
    has one, else the first of the vocabulary.
    """
    named = tokenizer.pad_token_id
    return named if named is not None and named < n_input_embeddings(network, named + 1) else 0


def n_input_embeddings(network: Any, unknown: int) -> int:
    """Return how many tokens a network has input embeddings for; ``unknown`` if it does not say."""
    try:
        return len(network.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError):
        return unknown


def pad_rows(rows: Sequence[np.ndarray], value: int = 0, *, side: str = "right") -> Any:
    """Return (n_rows, longest) int64, rows filled up with ``value``."""
    import torch

    tensors = [torch.from_numpy(row) for row in rows]
    whole = torch.nn.utils.rnn.pad_sequence(
        tensors, batch_first=True, padding_value=value, padding_side=side
    )
    return whole.long()


def pad_windows(windows: Sequence[np.ndarray], *, pad_id: int, device: str) -> dict[str, Any]:
    """Lay windows, arrays of token ids, out as the rows of a batch, padded on the right.

    A window without tokens keeps one place that is not masked, so that no row attends to nothing.

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask``: (n_windows, longest) int64.
    """
    rows = [window if len(window) else np.array([pad_id], window.dtype) for window in windows]
    padded = {
        "input_ids": pad_rows(rows, pad_id),
        "attention_mask": pad_rows([np.ones_like(row) for row in rows]),
    }
    return {name: tensor.to(device) for name, tensor in padded.items()}
