"""Checkpoints and tokenizers as they lie on the hub; README.md names the reports."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from closeness import assert_vectors_close
from encoder_references import vectors_of
from stored_networks import network
from tiny_checkpoints import VOCABULARY, entry_of, save_bert, save_modules, save_tokenizer

from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.counting import load_tokenizer
from psibench.models.load import load_encoder
from psibench.models.networks import check_positions
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


def test_a_tokenizer_that_would_cut_the_beginning_is_refused(minilm_with):
    # The model read the last four words, but 48 of 48 characters were recorded as visible.
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


TEXTS = ["w1 w2 w3", "w4 w5 w6 w7 w8 w9 w10", "w1"]
"""Texts of several lengths, so that a batch is padded."""


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "lasttoken", "mean_sqrt_len_tokens"])
def test_padding_does_not_change_a_vector(tmp_path, pooling, padding_side):
    """Pooling as sentence-transformers 5.4 and later write it; [CLS] may follow padding."""
    from sentence_transformers import SentenceTransformer

    save_bert(tmp_path)
    save_tokenizer(tmp_path, padding_side=padding_side)
    save_modules(tmp_path, pooling="mean")
    config = {"embedding_dimension": 32, "pooling_mode": pooling, "include_prompt": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
    encoder = load_encoder(entry_of(tmp_path), device="cpu", dtype="float32")
    items = encoder.tokenize(TEXTS, "document")
    found = encoder.forward([one.windows[0] for one in items], [one.content[0] for one in items])
    library = SentenceTransformer(str(tmp_path), device="cpu")
    alone = [library.encode([text], normalize_embeddings=True)[0] for text in TEXTS]
    assert_vectors_close(np.vstack(found), np.vstack(alone))


def test_inputs_whose_vectors_would_depend_on_the_batch_are_refused(tmp_path):
    """With LongRoPE, a text of 22 tokens had another vector (cosine 0.87) beside one of 92."""
    rope = {"rope_type": "longrope", "rope_theta": 10_000.0, "factor": 4.0}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope |= {"original_max_position_embeddings": 32}
    sizes = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 128}
    model = network("LlamaModel", **sizes, num_key_value_heads=4, rope_parameters=rope)
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    save_modules(tmp_path, pooling="mean")
    encoder = load_encoder(entry_of(tmp_path, max_tokens=32), device="cpu", dtype="float32")
    texts = ["w1 w2 w3 w4", " ".join(f"w{n}" for n in range(60))]
    alone = np.concatenate(vectors_of(encoder, texts, together=False))
    assert_vectors_close(np.concatenate(vectors_of(encoder, texts)), alone)
    with pytest.raises(InputError, match="max_tokens is 33, but above 32 tokens its positions"):
        load_encoder(entry_of(tmp_path, max_tokens=33), device="cpu", dtype="float32")
    model.config.rope_parameters = {"full_attention": rope}  # by the kind of layer, as in Gemma
    with pytest.raises(InputError, match="above 32 tokens"):
        check_positions(model, "checkpoint", 33)
