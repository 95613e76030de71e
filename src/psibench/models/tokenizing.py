"""Token ids, windows and the visible part of texts, from a fast tokenizer; batches of windows."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import SentenceTransformerModel
from psibench.config.model_base import LateChunking
from psibench.errors import InputError
from psibench.models.protocols import TokenizedText
from psibench.models.weights import check_files, check_tokenizer

_TEXTS_PER_CALL = 512  # limits the memory for offsets


def load_checkpoint_tokenizer(
    folder: Path, *, trust_remote_code: bool = False, as_stored: bool = False
) -> Any:
    """Load a checkpoint's tokenizer.

    Parameters
    ----------
    as_stored
        Read tokenizer.json and ignore the class that the checkpoint names, which may be custom
        code.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_files(folder)
    if as_stored and (folder / "tokenizer.json").is_file():
        return check_tokenizer(PreTrainedTokenizerFast.from_pretrained(folder), folder)
    loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    return check_tokenizer(loaded, folder)


def refuse_left_truncation(tokenizer: Any) -> None:
    """Raise InputError for a tokenizer that cuts the beginning of long texts.

    psibench records only where a text's visible part ends, so it would count cut evidence at the
    beginning as visible.
    """
    if (side := getattr(tokenizer, "truncation_side", "right")) != "right":
        raise InputError(
            f"tokenizer {tokenizer.name_or_path!r}: truncation_side is {side!r}, which cuts the "
            "beginning of long texts; psibench can only record a cut at their end. To keep the "
            'beginning, set "truncation_side": "right" in the tokenizer_config.json of a copy of '
            "the checkpoint and name the copy in the model's entry"
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
        A fast tokenizer of transformers, because offsets are needed.
    max_tokens
        Longest window, including special tokens; None keeps the whole text in one window.
    overlap
        Tokens shared by neighbouring windows; None truncates to the first window.
    """
    if not tokenizer.is_fast:
        raise InputError(
            f"{type(tokenizer).__name__} returns no character offsets; use a fast tokenizer"
        )
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
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        chunk = texts[start : start + _TEXTS_PER_CALL]
        encoded = tokenizer([prompt + text for text in chunk], **options)
        tokenized += _group(encoded, chunk, len(prompt), is_cut=overlap is None)
    return tokenized


def _group(
    encoded: Any, texts: Sequence[str], prompt_chars: int, *, is_cut: bool
) -> list[TokenizedText]:
    """Collect the windows of each text.

    A text that was cut is visible up to the end of its last token. Any other text is visible to its
    end, even if the tokenizer drops its last characters.
    """
    owners = encoded.get("overflow_to_sample_mapping", range(len(texts)))
    windows: list[list[np.ndarray]] = [[] for _ in texts]
    content: list[list[np.ndarray]] = [[] for _ in texts]
    reach = [0] * len(texts)
    for row, owner in enumerate(owners):
        pairs = encoded["offset_mapping"][row]
        # Twice as fast as an array of pairs; on a GPU, tokenizing competes with encoding.
        flat = np.fromiter(chain.from_iterable(pairs), np.int64, 2 * len(pairs))
        offsets = flat.reshape(-1, 2)
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
    """Return the ids of the entry's ``append``; empty if the tokenizer itself appends them.

    Raises InputError if they are no tokens of the tokenizer, or leave no tokens for the text.
    """
    if not entry.append:
        return ()
    ids = tuple(tokenizer(entry.append, add_special_tokens=False)["input_ids"])
    known = set(tokenizer.all_special_ids) | set(tokenizer.get_added_vocab().values())
    if not ids or not set(ids) <= known:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: append {entry.append!r} must consist of the "
            "tokenizer's special tokens; known: "
            f"{', '.join(sorted(tokenizer.all_special_tokens))}"
        )
    if tuple(tokenizer("a")["input_ids"][-len(ids) :]) == ids:
        return ()
    shortest = entry.windows.tokens if entry.windows else entry.max_tokens
    if shortest - len(ids) - tokenizer.num_special_tokens_to_add() < 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: append {entry.append!r} has {len(ids)} tokens, "
            f"which leaves none of the {shortest} tokens for a text; raise max_tokens or "
            "windows.tokens"
        )
    return ids


def append_tokens(item: TokenizedText, ids: Sequence[int]) -> TokenizedText:
    """Append tokens to each window, after the tokenizer's last special token."""
    tail = np.array(ids, dtype=np.int32)
    return replace(
        item,
        windows=tuple(np.concatenate([window, tail]) for window in item.windows),
        content=tuple(np.pad(keep, (0, len(tail))) for keep in item.content),
    )


def pool_behind_prompt(item: TokenizedText, n_prompt: int) -> TokenizedText:
    """Mark as content the tokens that NV-Embed pools: all except the first ``n_prompt``.

    NV-Embed's code counts the prompt's tokens without the special token in front of them, which
    makes up for the prompt's last token: that is a space, which merges with the text's first word.
    The last token of the text is always pooled.
    """
    sizes = map(len, item.windows)
    content = tuple(np.arange(n) >= min(n_prompt, n - 1) for n in sizes)
    return replace(item, content=content)


def head_and_tail(item: TokenizedText, head: TokenizedText, overlap: int) -> TokenizedText:
    """Return a text with only its first window and its last tokens, as many as a window holds.

    A text of one or two windows is returned unchanged, because no tokens lie between them.

    Parameters
    ----------
    item
        The text with all windows; each shares ``overlap`` tokens with the one before it.
    head
        The text cut to its first window. The result is visible to the same character, because only
        the end of a visible part is recorded, and the middle of the text is missing.
    """
    if len(item.windows) < 3:
        return item
    (before, last), (inner, kept) = item.windows[-2:], item.content[-2:]
    tokens = np.concatenate([before[inner], last[kept][overlap:]])[-int(inner.sum()) :]
    own = np.flatnonzero(kept)
    front, back = last[: own[0]], last[own[-1] + 1 :]
    tail = np.concatenate([front, tokens, back])
    content = np.pad(np.ones(len(tokens), dtype=bool), (len(front), len(back)))
    windows, contents = (item.windows[0], tail), (item.content[0], content)
    return replace(head, windows=windows, content=contents)


def in_chunks(item: TokenizedText, chunks: LateChunking) -> TokenizedText:
    """Mark the tokens from which each chunk of a text is pooled; the text is one window.

    Chunks count the text's tokens only; a text shorter than a chunk is one chunk. Tokens before the
    text (special tokens, the prompt) belong to the first chunk, tokens after it to the last
    (Guenther et al. 2024, section 4.1), so that a single chunk has the vector of the whole text.
    """
    (window,), (content,) = item.windows, item.content
    own = np.flatnonzero(content)
    step = chunks.tokens - chunks.overlap
    starts = range(0, max(1, len(own) - chunks.overlap), step)
    members = np.zeros((len(starts), len(window)), dtype=bool)
    for row, start in enumerate(starts):
        chunk = own[start : start + chunks.tokens]
        first = chunk[0] if start else 0
        members[row, first : chunk[-1] + 1 if row < len(starts) - 1 else None] = True
    return replace(item, content=(members,))


def token_offsets(tokenizer: Any, texts: Sequence[str], *, prompt: str = "") -> list[np.ndarray]:
    """Return the (n_tokens, 2) starts and ends of each text's tokens, in characters of the text.

    Texts are not cut. Special tokens and tokens of the prompt are left out, as in
    `TokenizedText.content`.
    """
    found = []
    for text in texts:
        encoded = tokenizer(
            prompt + text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        table = np.asarray(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        table = table[table[:, 1] > len(prompt)] - len(prompt)
        found.append(np.maximum(table, 0))
    return found


def late_windows(
    item: TokenizedText,
    offsets: np.ndarray,
    chunks: Sequence[tuple[int, int]],
    *,
    max_tokens: int,
    pools_prompt: bool = True,
) -> TokenizedText:
    """Mark the tokens from which each chunk of a whole document is pooled.

    A document of more than ``max_tokens`` tokens is read in windows. A window has as many whole
    chunks as fit behind a quarter of its tokens, which are those in front of them (the macro chunks
    of Guenther et al. 2024, algorithm 2, with cuts between chunks). A chunk with more tokens than a
    window is cut. Tokens before the text (special tokens, the prompt) belong to the first chunk,
    tokens after it to the last, so that a single chunk has the vector of the whole text.

    Parameters
    ----------
    item
        The document in one window.
    offsets
        (n_tokens, 2) characters of its tokens, without special tokens (`token_offsets`).
    chunks
        (start, end), characters of the document, ascending by start.
    pools_prompt
        Whether tokens before the text are pooled.

    Returns
    -------
    TokenizedText with a row of ``content`` for each chunk, over all windows in order.
    """
    (window,), (content,) = item.windows, item.content
    own = np.flatnonzero(content)
    front, back = window[: own[0]], window[own[-1] + 1 :]
    room = max_tokens - len(front) - len(back)
    firsts = np.searchsorted(offsets[:, 0], [start for start, _ in chunks])
    lasts = np.searchsorted(offsets[:, 0], [end for _, end in chunks])
    lasts = np.maximum(lasts, firsts + 1)
    windows, contents = [], []
    at = 0
    while at < len(chunks):
        begin = int(firsts[at])
        begin = 0 if len(own) <= room else max(0, begin - min(room // 4, room - 1))
        begin = min(begin, max(0, len(own) - room))
        # A long chunk takes the place of the tokens in front of it.
        begin = max(begin, min(int(firsts[at]), int(lasts[at]) - room))
        stop = min(begin + room, len(own))
        past = at + 1
        while past < len(chunks) and lasts[past] <= stop:
            past += 1
        members = np.zeros((past - at, len(front) + stop - begin + len(back)), dtype=bool)
        for row, number in enumerate(range(at, past)):
            low, high = (int(k) - begin + len(front) for k in (firsts[number], lasts[number]))
            members[row, low : min(high, len(front) + stop - begin)] = True
            if number == 0 and pools_prompt:
                members[row, : len(front)] = True
            if number == len(chunks) - 1:
                members[row, len(front) + stop - begin :] = True
        windows.append(np.concatenate([front, window[own[begin:stop]], back]))
        contents.append(members)
        at = past
    return replace(item, windows=tuple(windows), content=tuple(contents))


def padding_id(tokenizer: Any, network: Any) -> int:
    """Return the token that fills up the rows of a batch.

    No token attends to it, so any token with an input embedding will do: the tokenizer's padding
    token if it has one, else the first of the vocabulary.
    """
    pad_id = tokenizer.pad_token_id
    return pad_id if pad_id is not None and pad_id < n_input_embeddings(network, pad_id + 1) else 0


def n_input_embeddings(network: Any, unknown: int) -> int:
    """Return a network's number of input embeddings; ``unknown`` if it does not declare it."""
    try:
        return len(network.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError):
        return unknown


def pad_rows(rows: Sequence[np.ndarray], value: int = 0, *, side: str = "right") -> Any:
    """Return an (n_rows, longest) int64 tensor, with rows filled up with ``value``."""
    import torch

    tensors = [torch.from_numpy(row) for row in rows]
    whole = torch.nn.utils.rnn.pad_sequence(
        tensors, batch_first=True, padding_value=value, padding_side=side
    )
    return whole.long()


def filled_windows(windows: Sequence[np.ndarray], pad_id: int) -> list[np.ndarray]:
    """Return windows of at least one token, because each row must attend to something."""
    return [window if len(window) else np.array([pad_id], window.dtype) for window in windows]


def pad_windows(windows: Sequence[np.ndarray], *, pad_id: int, device: str) -> dict[str, Any]:
    """Lay out windows, arrays of token ids, as the rows of a batch, padded on the right.

    A window without tokens has one padding token that is not masked (`filled_windows`).

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask``: (n_windows, longest) int64.
    """
    rows = filled_windows(windows, pad_id)
    padded = {
        "input_ids": pad_rows(rows, pad_id),
        "attention_mask": pad_rows([np.ones_like(row) for row in rows]),
    }
    if device != "cuda":
        return padded
    # From pinned memory, the copy does not wait for the batch that runs.
    return {
        name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in padded.items()
    }
