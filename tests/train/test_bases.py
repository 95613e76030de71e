"""The kinds of the paper's bases, tiny and random, trained, cut and encoded."""

from unittest import mock

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from stored_networks import network
from tiny_checkpoints import DECODER_VOCABULARY, change_json, entry_of, save_static, save_tokenizer
from tiny_training import base_of, train

from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.train.finetune import load_base
from psibench.train.sections import Base

SIZES = {"vocab_size": len(DECODER_VOCABULARY), "pad_token_id": 0}
COMMON = SIZES | {"num_hidden_layers": 4, "max_position_embeddings": 128}
KINDS = {
    "Bert": (COMMON, "cls"),
    "Longformer": (COMMON | {"attention_window": [8] * 4}, "mean"),
    "ModernBert": (COMMON | {"global_attn_every_n_layers": 2, "local_attention": 8}, "cls"),
    "GPT2": (SIZES | {"n_positions": 128, "num_hidden_layers": 4}, "lasttoken"),
    "Bloom": (SIZES | {"num_hidden_layers": 4}, "lasttoken"),
    "Llama": (COMMON | {"num_key_value_heads": 2}, "lasttoken"),
    "Qwen3": (COMMON | {"num_key_value_heads": 2, "head_dim": 8}, "lasttoken"),
}


def save(folder, kind, config):
    network(f"{kind}Model", **config).save_pretrained(folder)
    is_decoder = kind not in KINDS or KINDS[kind][1] == "lasttoken"
    template = "$A" if is_decoder else "[CLS] $A [SEP]"
    side = "left" if is_decoder else "right"
    save_tokenizer(folder, vocabulary=DECODER_VOCABULARY, template=template, padding_side=side)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_base_is_trained_and_saved_alike(pool, tmp_path, kind):
    config, pooling = KINDS[kind]
    folder = save(tmp_path / "base", kind, config)
    if kind == "GPT2":  # which has no padding token
        names = {"pad_token": None, "eos_token": "<|endoftext|>"}
        change_json(folder / "tokenizer_config.json", **names)
    prompts = {"query_prompt": "Retrieve a relevant passage: ", "document_prompt": "w1 w2 "}
    base = base_of(folder, pooling=pooling, layers=2, **prompts, max_tokens=32)
    train(pool, tmp_path, base, epochs=1)
    saved = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    assert saved.num_hidden_layers == 2
    library = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = ["w5 w6", " ".join(f"w{n}" for n in range(60))]  # the second one is cut
    encoder = load_encoder(entry_of(tmp_path / "model", max_tokens=32), device="cpu")
    for role, encode in (("query", library.encode_query), ("document", library.encode_document)):
        theirs = encode(texts, normalize_embeddings=True)
        for item, other in zip(encoder.tokenize(texts, role), theirs, strict=True):
            ours = encoder.forward([item.windows[0]], [item.content[0]])[0][0]
            assert ours == pytest.approx(other, abs=1e-5)
    bare = library.encode(texts, normalize_embeddings=True)
    assert np.abs(bare - theirs).max() > 1e-4  # the prompt counts


# --- A base without its positional encoding

ROTARY_KINDS = ("Llama", "Qwen3")
SCRAMBLED = torch.tensor([[5, 0, 9, 2, 7, 1]])
IDS = torch.tensor([[4, 9, 13, 5, 4, 20]])


def save_rotary(folder, kind):
    return save(folder, kind, KINDS.get(kind, KINDS["Llama"])[0])


def states(network, positions=None):
    # without a mask, positions that do not rise by 1 would mean several texts in a row
    mask = torch.ones_like(IDS)
    with torch.inference_mode():
        found = network(input_ids=IDS, attention_mask=mask, position_ids=positions)
        return found.last_hidden_state


def backbone(folder, **fields):
    entry = entry_of(folder, max_tokens=32, pooling="lasttoken", **fields)
    return load_encoder(entry, device="cpu").model.transformer


@pytest.mark.parametrize("kind", ROTARY_KINDS)
def test_without_positions_the_rotary_embedding_is_the_identity(tmp_path, kind):
    folder = save_rotary(tmp_path / "base", kind)
    own, bare = backbone(folder), backbone(folder, positions="none")
    assert not torch.allclose(states(own), states(own, SCRAMBLED), atol=1e-3)
    assert torch.equal(states(bare), states(bare, SCRAMBLED))
    # like the authors' code, which does not rotate queries and keys
    module = f"transformers.models.{kind.lower()}.modeling_{kind.lower()}.apply_rotary_pos_emb"
    with mock.patch(module, lambda q, k, *_, **__: (q, k)):
        expected = states(own)
    assert torch.equal(states(bare), expected)
    assert not torch.allclose(states(own), expected, atol=1e-3)


def test_a_model_trained_without_positions_loads_without_them(pool, tmp_path):
    folder = save_rotary(tmp_path / "base", "Llama")
    base = base_of(folder, pooling="lasttoken", max_tokens=32, positions="none")
    with torch.inference_mode():
        loaded = load_base(Base.model_validate(base), device="cpu")[0].auto_model
    assert torch.equal(states(loaded), states(backbone(folder, positions="none")))
    train(pool, tmp_path, base, epochs=1)
    by_library = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    assert torch.equal(states(by_library), states(by_library, SCRAMBLED))
    assert torch.equal(states(by_library), states(backbone(tmp_path / "model", positions="none")))
    assert "No positional encoding" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize("kind", ["Bert", "ModernBert", "GPT2"])
def test_unsupported_positional_encodings_are_refused(tmp_path, kind):
    folder = save(tmp_path / "base", kind, KINDS[kind][0])
    said = r"`positions: none` supports the model types llama.*this is"
    with pytest.raises(InputError, match=said):
        backbone(folder, positions="none")
    with pytest.raises(InputError, match=said):
        load_base(Base.model_validate(base_of(folder, positions="none")), device="cpu")


def test_static_embeddings_are_refused_as_a_base(tmp_path):
    base = Base.model_validate(base_of(save_static(tmp_path)))
    with pytest.raises(InputError, match=r"has static embeddings .* A training, .* need a"):
        load_base(base, device="cpu")


# --- Arguments in a base's files


def save_module(tmp_path, config, uses):
    """Save a BERT like sentence-transformers, with changed fields in two of its files."""
    plain = save(tmp_path / "plain", "Bert", COMMON)
    folder = tmp_path / "base"
    module = Transformer(str(plain))
    SentenceTransformer(modules=[module, Pooling(32)], device="cpu").save_pretrained(str(folder))
    change_json(folder / "sentence_bert_config.json", **config)
    change_json(folder / "config_sentence_transformers.json", **uses)
    return folder


@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": True},
        {"config_kwargs": {"hidden_act": "relu"}},
        {"config_args": {"hidden_act": "relu"}},
        {"model_kwargs": {"attn_implementation": "eager", "torch_dtype": "float16"}},
        {"processor_kwargs": {"unk_token": "w3", "model_max_length": 9}},
    ],
    ids=str,
)
def test_a_base_uses_its_checkpoints_arguments(tmp_path, config):
    folder = save_module(tmp_path, config, {})
    base = base_of(folder, max_tokens=32, query_prompt="")
    found = load_base(Base.model_validate(base), device="cpu")
    library = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    library.max_seq_length = 32
    texts = ["W5 w6", " ".join(f"w{n}" for n in range(60))]
    assert found.encode(texts) == pytest.approx(library.encode(texts), abs=1e-6)
    assert found.tokenizer.unk_token == library.tokenizer.unk_token
    attention = found[0].auto_model.config._attn_implementation
    assert attention == library[0].auto_model.config._attn_implementation


@pytest.mark.parametrize(
    ("config", "uses", "refused"),
    [
        ({}, {"truncate_dim": 5}, "truncate_dim 5"),
        ({}, {"requirements": {"torch": ">=99"}}, "torch"),
        ({"query_length": 8}, {}, "query_length 8"),
        ({"processing_kwargs": {"text": {"padding": True}}}, {}, "processing_kwargs"),
        ({"tokenizer_name_or_path": "a/b"}, {}, "tokenizer_name_or_path 'a/b'"),
        ({"processor_kwargs": {"truncation_side": "left"}}, {}, "truncation_side is 'left'"),
    ],
    ids=str,
)
def test_a_base_that_reads_texts_differently_is_refused(tmp_path, config, uses, refused):
    base = base_of(save_module(tmp_path, config, uses), max_tokens=32)
    with pytest.raises(InputError, match=refused):
        load_base(Base.model_validate(base), device="cpu")


def test_a_trained_model_keeps_its_bases_arguments(pool, tmp_path):
    config = {"config_kwargs": {"hidden_act": "relu"}, "do_lower_case": True}
    base = base_of(save_module(tmp_path, config, {}), max_tokens=32, query_prompt="")
    train(pool, tmp_path, base, epochs=1)
    encoder = load_encoder(entry_of(tmp_path / "model", max_tokens=32), device="cpu")
    assert encoder.model.transformer.config.hidden_act == "relu"
    upper, lower = (encoder.tokenize([text], "query")[0].windows[0] for text in ("W5", "w5"))
    assert upper.tolist() == lower.tolist()
