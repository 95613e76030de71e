"""Token counts by a named tokenizer."""

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

WORDS = "words"
CHUNK = 1024  # texts per tokenizer call


def load_tokenizer(name: str, *, option: str, also: str = "") -> Any:
    """Load a tokenizer: a checkpoint's, or a tokenizer.json by itself.

    The InputError of one that cannot be loaded says what names it, ``option``, and what else it may
    be, ``also``.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        if (file := tokenizer_file(name)) is not None:
            return PreTrainedTokenizerFast(tokenizer_file=str(file))
        path = resolve_checkpoint(name, part="tokenizer")
        return check_tokenizer(AutoTokenizer.from_pretrained(path), Path(path))
    except Exception as error:  # the tokenizers library raises nothing narrower
        said = " ".join(str(error).split())  # transformers' are of several lines
        raise InputError(
            f"{option} {name!r}: cannot be loaded ({said}). Give a checkpoint folder, its "
            f"tokenizer.json, a hub name, embedded:all-MiniLM-L6-v2{also}."
        ) from error


def token_counter(name: str) -> TokenCounter:
    """Return texts -> (n_texts,) int32 token counts, special tokens left out.

    ``words`` splits on white space; any other name is a checkpoint with a tokenizer.

    Raises
    ------
    InputError
        If the tokenizer cannot be loaded.
    """
    if name == WORDS:
        return count_whitespace_tokens
    if name.startswith(EMBEDDED_PREFIX):
        return _embedded_counter(name)
    return counter_of(load_tokenizer(name, option="length_tokenizer", also=f", or {WORDS}"))


def counter_of(tokenizer: Any) -> TokenCounter:
    """Return texts -> (n_texts,) int32 token counts by a tokenizer, special tokens left out."""

    def count(texts: list[str]) -> list[int]:
        found = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [len(ids) for ids in found]

    return _by_chunks(count)


def _embedded_counter(name: str) -> TokenCounter:
    """Count by the tokenizer.json alone: transformers takes longer to import than most jobs run.

    Of the embedded checkpoint both are known to give the same counts.
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
        chunks = (list(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK))
        return np.array([n for chunk in chunks for n in count(chunk)], dtype=np.int32)

    return counted
