"""Token counts by a tokenizer that a setting names."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from psibench.errors import InputError
from psibench.models.checkpoints import (
    EMBEDDED_PREFIX,
    resolve_checkpoint,
    tokenizer_file,
)
from psibench.models.weights import check_tokenizer
from psibench.text.lengths import TokenCounter, count_whitespace_tokens

WHITESPACE_WORDS = "words"
_TEXTS_PER_CALL = 1024  # of the tokenizer


def load_tokenizer(name: str, *, option: str, also: str = "") -> Any:
    """Load the tokenizer of a checkpoint, or a tokenizer.json.

    ``option`` and ``also`` are for the InputError: the setting with the name, and further allowed
    names.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        if (file := tokenizer_file(name)) is not None:
            return PreTrainedTokenizerFast(tokenizer_file=str(file))
        path = resolve_checkpoint(name, part="tokenizer")
        return check_tokenizer(AutoTokenizer.from_pretrained(path), Path(path))
    except Exception as error:  # the tokenizers library raises plain Exception
        reason = " ".join(str(error).split())  # transformers' messages have several lines
        raise InputError(
            f"{option} {name!r}: cannot be loaded ({reason}). Give a checkpoint folder, its "
            f"tokenizer.json, a hub name, embedded:all-MiniLM-L6-v2{also}."
        ) from error


def token_counter(name: str) -> TokenCounter:
    """Return a function from texts to (n_texts,) int32 token counts without special tokens.

    ``words`` splits at white space; any other name is a checkpoint with a tokenizer.

    Raises
    ------
    InputError
        If the tokenizer cannot be loaded.
    """
    if name == WHITESPACE_WORDS:
        return count_whitespace_tokens
    if name.startswith(EMBEDDED_PREFIX):
        return _embedded_counter(name)
    return counter_of(
        load_tokenizer(name, option="length_tokenizer", also=f", or {WHITESPACE_WORDS}")
    )


def counter_of(tokenizer: Any) -> TokenCounter:
    """Return a function from texts to (n_texts,) int32 counts without special tokens."""

    def count(texts: list[str]) -> list[int]:
        encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [len(ids) for ids in encoded]

    return _by_chunks(count)


def _embedded_counter(name: str) -> TokenCounter:
    """Count by the tokenizers library: importing transformers takes longer than most jobs.

    Both give the same counts for the embedded checkpoint.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(resolve_checkpoint(name)) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return _by_chunks(
        lambda texts: map(len, tokenizer.encode_batch_fast(texts, add_special_tokens=False))
    )


def _by_chunks(count: Callable[[list[str]], Iterable[int]]) -> TokenCounter:
    def counted(texts: Sequence[str]) -> np.ndarray:
        chunks = (
            list(texts[start : start + _TEXTS_PER_CALL])
            for start in range(0, len(texts), _TEXTS_PER_CALL)
        )
        return np.array([n for chunk in chunks for n in count(chunk)], dtype=np.int32)

    return counted
