"""Architectures whose hub repositories bring code of their own, against that code's formulas."""

import json

import numpy as np
import pytest
from encoder_references import TEXTS, encode, full_attention, ids_of, unit
from sentence_transformers import SentenceTransformer
from tiny_architectures import (
    save_bidirectional_llama,
    save_bidirectional_qwen2,
    save_new_type_gte,
    save_qwen3_embedding,
)
from tiny_checkpoints import VOCABULARY, save_dense
from transformers import AutoConfig, AutoModel

from psibench.errors import InputError


def test_projection_selects_another_dense_layer(tmp_path, load_tiny):
    folder = save_new_type_gte(tmp_path / "m", prefix="", pooling="mean")
    weights = {name: save_dense(folder / name, 32, 16) for name in ("2_Dense", "2_Dense_16")}
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    plain = load_tiny(folder, architecture="gte")
    hidden = plain.model.transformer(ids_of(plain, TEXTS[0])).last_hidden_state[0].mean(dim=0)
    for projection, used in ((None, "2_Dense"), ("2_Dense_16", "2_Dense_16")):
        encoder = load_tiny(folder, architecture="gte", projection=projection)
        expected = weights[used]["linear.weight"] @ hidden + weights[used]["linear.bias"]
        np.testing.assert_allclose(encode(encoder, TEXTS[:1])[0], unit(expected), atol=1e-6)
    with pytest.raises(InputError, match=r"2_Dense_99.*projection"):
        load_tiny(folder, architecture="gte", projection="2_Dense_99")


@pytest.mark.parametrize(
    ("save", "pooling"),
    [(save_bidirectional_qwen2, "lasttoken"), (save_bidirectional_llama, "mean")],
)
def test_bidirectional_decoders_equal_an_explicit_full_mask(tmp_path, load_tiny, save, pooling):
    folder = save(tmp_path / "m")
    encoder = load_tiny(folder, architecture="bidirectional", append="<|endoftext|>")
    config = json.loads((folder / "config.json").read_text())
    kind = config.pop("model_type").replace("_bidirec", "")
    reference = AutoModel.from_pretrained(
        folder, config=AutoConfig.for_model(kind, **config), attn_implementation="eager"
    )
    for text, vector in zip(TEXTS, encode(encoder, TEXTS), strict=True):
        hidden = full_attention(reference.eval(), ids_of(encoder, text))
        expected = unit(hidden[-1] if pooling == "lasttoken" else hidden.mean(dim=0))
        np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_decoder_vectors_equal_sentence_transformers(tmp_path, load_tiny):
    """Causal ones need no mask for padding behind a text."""
    encoder = load_tiny(save_qwen3_embedding(tmp_path / "m"))
    assert not encoder.model.needs_mask
    library = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    np.testing.assert_allclose(
        encode(encoder, TEXTS), library.encode(TEXTS, normalize_embeddings=True), atol=1e-6
    )


def test_port_reads_a_tokenizer_stored_as_a_word_list(tmp_path, load_tiny):
    folder = save_new_type_gte(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    encoder = load_tiny(folder, architecture="gte")
    assert ids_of(encoder, "w1 w2").tolist() == [[2, 5, 6, 3]]
