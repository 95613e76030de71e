import subprocess
import sys

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


def test_long_texts_are_counted_whole():
    # The tokenizer file asks for truncation at 128 tokens.
    assert token_counter(MINILM)(["cat " * 2000, "cat"]).tolist() == [2000, 1]


def test_the_embedded_tokenizer_counts_as_transformers_does():
    texts = [
        "", " \n\t ", "It's a café; naïve coöperation (2,299 for 860).", "UPPER lower ÄÖÜ ß",
        "什么是猫？猫是一种动物。", "ما هذا؟ مَا هَذَا", "ภาษาไทย", "हिन्दी",
        "\U0001f600\U0001d49c x\u0301",
        "[CLS] [MASK] a [SEP] [UNK]", "def f(x):\n    return x ** 2  # ...", "a" * 300,
        "word " * 3000,
    ]  # fmt: skip
    by_folder = token_counter(resolve_checkpoint(MINILM))
    assert token_counter(MINILM)(texts).tolist() == by_folder(texts).tolist()


def test_counting_by_the_embedded_tokenizer_imports_no_network():
    code = (
        "import sys; from psibench.models.counting import token_counter; "
        f"assert token_counter('{MINILM}')(['two words']).tolist() == [2]; "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_texts_than_one_call_takes_keep_their_order(tiny_bert):
    texts = ["w1 " * (i % 7) for i in range(2500)]
    assert token_counter(str(tiny_bert))(texts).tolist() == [i % 7 for i in range(2500)]


@pytest.mark.parametrize("name", [MINILM, "words"])
def test_no_texts_have_no_counts(name):
    counts = token_counter(name)([])
    assert (counts.shape, counts.dtype) == ((0,), np.int32)


def test_words_are_split_on_white_space():
    assert token_counter("words")(["a  b\nc", ""]).tolist() == [3, 0]


@pytest.mark.parametrize("name", ["nobody/nothing-here", "./nowhere", "embedded:other"])
def test_unknown_tokenizer_is_named(name):
    with pytest.raises(InputError, match=name):
        token_counter(name)
