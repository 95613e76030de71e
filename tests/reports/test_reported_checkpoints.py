"""Checkpoints and tokenizers as they lie on the hub; README.md names the reports."""

import json
import shutil
from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.counting import load_tokenizer
from psibench.models.tokenizing import tokenize_texts
from psibench.rerankers.checkpoints import encode

TEXT = "one two three four five six seven eight nine ten"


@pytest.fixture
def minilm_with(tmp_path):
    """Load MiniLM's tokenizer with other values of its tokenizer_config.json."""

    def load(**fields):
        source = Path(resolve_checkpoint("embedded:all-MiniLM-L6-v2"))
        for name in ("tokenizer.json", "config.json", "tokenizer_config.json"):
            shutil.copy(source / name, tmp_path / name)
        path = tmp_path / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
        return load_tokenizer(str(tmp_path), option="tokenizer")

    return load


def test_a_tokenizer_that_cuts_the_beginning_is_refused_where_it_would_cut(minilm_with):
    # Read are the last four words, and 48 of 48 characters were recorded as visible.
    tokenizer = minilm_with(truncation_side="left")
    with pytest.raises(InputError, match="truncation_side is 'left'"):
        tokenize_texts(tokenizer, [TEXT], max_tokens=6)
    with pytest.raises(InputError, match="truncation_side is 'left'"):
        encode(tokenizer, ["query"], [TEXT], truncation="longest_first", max_length=6)
    (whole,) = tokenize_texts(tokenizer, [TEXT])
    assert (whole.n_tokens, whole.visible_char_end) == (12, 48)


@pytest.mark.parametrize(("max_tokens", "n_tokens"), [(None, 1002), (300, 300)])
def test_a_limit_inside_tokenizer_json_cuts_nothing(minilm_with, max_tokens, n_tokens):
    # all-MiniLM's tokenizer.json cuts and pads to 128 tokens; sentence-transformers reads 256.
    (item,) = tokenize_texts(minilm_with(), ["word " * 1000], max_tokens=max_tokens)
    assert item.n_tokens == n_tokens
