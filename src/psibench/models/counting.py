"""Token counts by a named tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.weights import tokenizer_folder
from psibench.text.lengths import TokenCounter, count_whitespace_tokens

WORDS = "words"


def load_tokenizer(name: str, *, option: str, also: str = "") -> Any:
    """Load a tokenizer: a checkpoint's, or a tokenizer.json by itself.

    Parameters
    ----------
    option, also
        For the message: what names it, and what else it may be.

    Raises
    ------
    InputError
        If it cannot be loaded.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        if name.endswith(".json") and Path(name).is_file():
            return PreTrainedTokenizerFast(tokenizer_file=name)
        path = resolve_checkpoint(name, part="tokenizer")
        if Path(path).is_dir():
            tokenizer_folder(Path(path))
        return AutoTokenizer.from_pretrained(path)
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise InputError(
            f"{option} {name!r}: cannot be loaded ({error}). Give a checkpoint folder, its "
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
    tokenizer = load_tokenizer(name, option="length_tokenizer", also=f", or {WORDS}")

    def count(texts: Sequence[str]) -> np.ndarray:
        options = {"add_special_tokens": False, "verbose": False}
        return np.array(
            [
                len(ids)
                for start in range(0, len(texts), 1024)
                for ids in tokenizer(list(texts[start : start + 1024]), **options)["input_ids"]
            ],
            dtype=np.int32,
        )

    return count
