import random

import numpy as np
import pytest
from encoder_references import encode
from tiny_checkpoints import entry_of, save_bert

from psibench.models.load import load_encoder
from psibench.models.static import StaticEncoder


def static(checkpoint, **fields) -> StaticEncoder:
    entry = entry_of(checkpoint, backend="static-embeddings", **fields)
    return load_encoder(entry, device="cpu")


@pytest.fixture(scope="module")
def control() -> StaticEncoder:
    return static("embedded:all-MiniLM-L6-v2")


def test_vector_is_the_unit_mean_of_the_word_embeddings(tiny_bert):
    encoder = static(tiny_bert)
    # w1, w2 and w2 have the ids 5, 6 and 6.
    mean = encoder.embeddings[[5, 6, 6]].mean(axis=0)
    expected = mean / np.linalg.norm(mean)
    found, nothing = encode(encoder, ["w2 w1 w2", " "])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(nothing, np.zeros(32))
    assert (found.shape, found.dtype) == ((32,), np.float32)


def test_shuffling_words_leaves_every_bit_of_the_vector(control):
    text = (
        "Retrievers tokenise naïve documents unpredictably; evidence-bearing 日本 sentences differ."
    )
    words = text.split() * 40
    shuffled = random.Random(0).sample(words, len(words))
    np.testing.assert_array_equal(
        encode(control, [" ".join(shuffled)]), encode(control, [" ".join(words)])
    )


def test_long_text_is_not_truncated(control):
    text = " ".join(["cat"] * 1999 + ["dog"])
    (item,) = control.tokenize([text], "document")
    assert (item.n_tokens, item.visible_char_end) == (2000, len(text))
    assert not np.array_equal(encode(control, [text]), encode(control, ["cat"]))


def test_fingerprint_follows_the_checkpoint_only(tiny_bert, tmp_path):
    plain = static(tiny_bert)
    assert static(tiny_bert, description="x", query_prompt="w1 ").fingerprint == plain.fingerprint
    assert static(save_bert(tmp_path, seed=1)).fingerprint != plain.fingerprint
