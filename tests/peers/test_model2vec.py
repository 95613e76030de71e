"""model2vec's own vectors, of checkpoints that it saved."""

import numpy as np
import pytest
from encoder_references import encode, unit
from tiny_checkpoints import VOCABULARY, entry_of, save_tokenizer

from psibench.models.load import load_encoder

TEXTS = [
    "w1 w2 w2",
    "w7 unknown w8",  # model2vec leaves the unknown word out
    " ".join(f"w{i % 60}" for i in range(800)),  # cut by characters, then by tokens
    "w1 " * 600,  # cut by tokens
]


@pytest.mark.parametrize("max_length", [512, 5, None])
@pytest.mark.parametrize("clusters", [None, 8], ids=["a vector per word", "shared vectors"])
def test_vectors_equal_model2vec_for_cut_and_unknown_words(tmp_path, peer, max_length, clusters):
    from tokenizers import Tokenizer

    model2vec = peer("model2vec")
    save_tokenizer(tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    # In float64: in float32, model2vec's sums over long texts of random vectors round by 2e-6.
    vectors = np.random.default_rng(0).normal(size=(len(VOCABULARY), 16))
    made = model2vec.StaticModel(vectors, tokenizer, max_length=max_length)
    if clusters is not None:
        made = model2vec.model.quantize_model(made, vocabulary_quantization=clusters)
    made.save_pretrained(tmp_path / "m")
    expected = model2vec.StaticModel.from_pretrained(tmp_path / "m").encode(TEXTS)
    entry = entry_of(tmp_path / "m", backend="static-embeddings", library="model2vec")
    found = encode(load_encoder(entry, device="cpu"), TEXTS)
    np.testing.assert_allclose(found, unit(expected.astype(np.float64)), atol=1e-6)
