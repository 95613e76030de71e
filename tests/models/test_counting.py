import numpy as np
import pytest

from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.counting import token_counter

MINILM = "embedded:all-MiniLM-L6-v2"


def test_counts_leave_special_tokens_out(tiny_bert):
    counts = token_counter(str(tiny_bert))(["w1 w2 w3", "", "w4"])
    assert counts.tolist() == [3, 0, 1]
    assert counts.dtype == np.int32


def test_the_embedded_tokenizer_counts_as_transformers_does():
    texts = [
        "", " \n\t ", "It's a café; naïve coöperation (2,299 for 860).", "什么是猫？", "ภาษาไทย",
        "\U0001f600 x\u0301", "[CLS] [MASK] a [SEP] [UNK]", "a" * 300, "word " * 3000,
    ]  # fmt: skip
    by_folder = token_counter(resolve_checkpoint(MINILM))
    assert token_counter(MINILM)(texts).tolist() == by_folder(texts).tolist()


@pytest.mark.parametrize("name", ["nobody/nothing-here", "./nowhere", "embedded:other"])
def test_unknown_tokenizer_is_named(name):
    with pytest.raises(InputError, match=name) as refused:
        token_counter(name)
    assert "\n" not in str(refused.value)
