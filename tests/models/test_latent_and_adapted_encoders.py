"""NV-Embed's latent attention, Jina's adapters and JinaBERT, against their own code's formulas."""

import json

import numpy as np
import pytest
import torch
from encoder_references import TEXTS, encode, full_attention, ids_of, unit
from safetensors.torch import load_file, save_file
from tiny_architectures import (
    ALPHA,
    INSTRUCTIONS,
    RANK,
    save_bidirectional_qwen2,
    save_jina_bert,
    save_jina_v3,
    save_jina_v4,
    save_new_type_gte,
    save_nomic,
    save_nv_embed,
)
from tiny_checkpoints import change_json
from torch.nn.functional import gelu, layer_norm, linear, softmax
from transformers import AutoConfig, AutoModel, Qwen2_5_VLTextConfig

from psibench.errors import InputError


def nv_reference(folder, ids: torch.Tensor, n_prompt: int) -> np.ndarray:
    """The formulas of modeling_nvembed.py over raw tensors."""
    config = json.loads((folder / "config.json").read_text())["text_config"]
    state = load_file(folder / "model.safetensors")
    config = {key: value for key, value in config.items() if key != "model_type"}
    config = AutoConfig.for_model("mistral", **config, sliding_window=None)
    decoder = AutoModel.from_config(config, attn_implementation="eager").eval()
    own = {k.removeprefix("embedding_model."): v for k, v in state.items()}
    decoder.load_state_dict({k: v for k, v in own.items() if "latent" not in k}, strict=True)
    hidden = full_attention(decoder, ids)
    at = {k.partition("cross_attend_blocks.")[2]: v for k, v in state.items()}

    def norm(x, name):
        return layer_norm(x, (32,), at[f"{name}.weight"], at[f"{name}.bias"], 1e-5)

    latents = norm(state["latent_attention_model.latents"], "0.norm_context")
    query = norm(hidden, "0.norm") @ at["0.fn.to_q.weight"].T
    key, value = (latents @ at["0.fn.to_kv.weight"].T).chunk(2, dim=-1)
    mixed = []
    for head in range(2):
        part = slice(32 * head, 32 * (head + 1))
        weights = softmax(query[:, part] @ key[:, part].T / 32**0.5, dim=-1)
        mixed.append(weights @ value[:, part])
    hidden = torch.cat(mixed, dim=-1) @ at["0.fn.to_out.weight"].T + hidden
    inner = linear(norm(hidden, "1.norm"), at["1.fn.net.0.weight"], at["1.fn.net.0.bias"])
    x, gates = inner.chunk(2, dim=-1)
    fed = linear(x * gelu(gates), at["1.fn.net.2.weight"], at["1.fn.net.2.bias"])
    return unit((fed + hidden)[n_prompt:].mean(dim=0))


# Query, w9 and ":" are three tokens; "<s>" before them is excluded first.
@pytest.mark.parametrize(
    ("pooling", "role", "n_prompt"),
    [("checkpoint", "document", 0), ("checkpoint", "query", 3), ("mean", "query", 0)],
)
def test_nv_embed_excludes_the_prompts_tokens_from_the_mean(
    tmp_path, load_tiny, pooling, role, n_prompt
):
    """Except if the entry pools by the mean."""
    folder = save_nv_embed(tmp_path / "m")
    fields = {"append": "</s>", "query_prompt": "Query w9 : ", "architecture": "nv-embed"}
    encoder = load_tiny(folder, pooling=pooling, **fields)
    for text, vector in zip(TEXTS, encode(encoder, TEXTS, role), strict=True):
        ids = ids_of(encoder, text, role)
        assert encoder.model.tokenizer.convert_ids_to_tokens(ids[0, [0, -1]]) == ["<s>", "</s>"]
        np.testing.assert_allclose(vector, nv_reference(folder, ids, n_prompt), atol=1e-5)


def test_jina_v4_adds_the_retrieval_adapter_to_every_linear_layer(tmp_path, load_tiny):
    folder = save_jina_v4(tmp_path / "m")
    encoder = load_tiny(folder, architecture="jina-v4")
    config = json.loads((folder / "config.json").read_text())["text_config"]
    reference = AutoModel.from_config(Qwen2_5_VLTextConfig(**config)).eval()
    prefix = "model.language_model."
    state = {
        name.removeprefix(prefix): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if name.startswith(prefix)
    }
    reference.load_state_dict(state, strict=True)
    adapters = load_file(folder / "adapters" / "adapter_model.safetensors")
    for name, module in reference.named_modules():
        if isinstance(module, torch.nn.Linear):
            at = f"base_model.model.{prefix}{name}"
            a, b = (adapters[f"{at}.lora_{side}.retrieval.weight"] for side in "AB")

            def add(module, inputs, output, a=a, b=b):
                return output + ALPHA / RANK * (inputs[0] @ a.T @ b.T)

            module.register_forward_hook(add)
    for text, vector in zip(TEXTS, encode(encoder, TEXTS), strict=True):
        with torch.inference_mode():
            hidden = reference(ids_of(encoder, text)).last_hidden_state[0]
        np.testing.assert_allclose(vector, unit(hidden.mean(dim=0)), atol=1e-5)


V3 = {
    "architecture": "jina-v3",
    "query_prompt": INSTRUCTIONS["retrieval.query"],
    "document_prompt": INSTRUCTIONS["retrieval.passage"],
    "pooling": "mean",
}


def test_jina_v3_selects_the_adapter_for_each_text(tmp_path, load_tiny):
    twins = save_jina_v3(tmp_path)
    encoder = load_tiny(tmp_path, **V3)
    pairs = [(role, text) for text in TEXTS for role in ("query", "document")]
    items = [encoder.tokenize([text], role)[0] for role, text in pairs]
    found = encoder.forward([i.windows[0] for i in items], [i.content[0] for i in items])
    for (role, text), vectors in zip(pairs, found, strict=True):
        twin = twins["retrieval.query" if role == "query" else "retrieval.passage"]
        with torch.inference_mode():
            hidden = twin(ids_of(encoder, text, role)).last_hidden_state[0]
        np.testing.assert_allclose(vectors[0], unit(hidden.mean(dim=0)), atol=1e-5)


# Of 8 dimensions a head, trained on 16 tokens, the base of 1,000 becomes of L tokens
# 1,000 x (2 L / 16 - 1)^(8 / 6); for the last text, L = 27: 2.375^(4 / 3) = 3.168692.
LONG_NOMIC = {"architecture": "nomic-long", "max_tokens": 48}
STRETCHED = {7: 1000.0, 16: 1000.0, 27: 3168.692}


def test_nomic_stretches_the_angles_of_texts_longer_than_its_training(tmp_path, load_tiny):
    from transformers import NomicBertModel

    save_nomic(tmp_path, max_trained_positions=16)
    encoder = load_tiny(tmp_path, **LONG_NOMIC)
    # Two of a text's tokens are special.
    texts = [" ".join(f"w{number}" for number in range(n - 2)) for n in STRETCHED]
    plain = load_tiny(tmp_path).model.transformer
    for text, base, vector in zip(texts, STRETCHED.values(), encode(encoder, texts), strict=True):
        rope = {"rope_type": "default", "rope_theta": base}
        config = plain.config.__class__(**plain.config.to_dict() | {"rope_parameters": rope})
        reference = NomicBertModel(config, add_pooling_layer=False).eval()
        reference.load_state_dict(plain.state_dict())
        with torch.inference_mode():
            hidden = reference(ids_of(encoder, text)).last_hidden_state[0]
        np.testing.assert_allclose(vector, unit(hidden.mean(dim=0)), atol=1e-5)
    unstretched = encode(load_tiny(tmp_path, max_tokens=48), texts)
    assert np.abs(encode(encoder, texts)[2] - unstretched[2]).max() > 1e-3


CONFIG, ADAPTER = "config.json", "adapters/adapter_config.json"
V4 = {"architecture": "jina-v4"}
REFUSED = [
    (save_new_type_gte, CONFIG, {"model_type": "bert"}, {"architecture": "gte"}, "'bert'"),
    (save_bidirectional_qwen2, CONFIG, {"model_type": "t5"}, {"architecture": "bidirectional"},
     "found model_type 't5'; supported: qwen2, llama"),
    (save_nv_embed, CONFIG, {"model_type": "bert"}, {"architecture": "nv-embed"}, "'bert'"),
    (save_jina_v4, CONFIG, {"model_type": "bert"}, V4, "'bert'"),
    (save_jina_v4, ADAPTER, {"use_dora": True}, V4, "use_dora True"),
    (save_jina_v4, ADAPTER, {"r": RANK + 1}, V4, "rank"),
    (save_jina_v3, CONFIG, {"lora_adaptations": ["retrieval.query"]}, V3, "both need retrieval"),
    (save_jina_v3, CONFIG, {"task_instructions": {}}, V3, "both need retrieval.query and"),
    (save_jina_v3, CONFIG, {"task_instructions": dict.fromkeys(INSTRUCTIONS, "w1")}, V3,
     "the same tokens"),
    (save_jina_v3, CONFIG, {}, V3 | {"query_prompt": ""}, "set query_prompt 'Represent the q"),
    (save_jina_bert, CONFIG, {"position_embedding_type": "absolute"},
     {"architecture": "jina-bert"}, "position_embedding_type 'absolute'; supported: 'alibi'"),
    (save_nomic, CONFIG, {"max_trained_positions": None}, LONG_NOMIC, "missing: max_trained_posit"),
    (save_nomic, CONFIG, {"model_type": "bert"}, LONG_NOMIC, "model_type 'bert'"),
]  # fmt: skip


@pytest.mark.parametrize(("save", "name", "changes", "fields", "message"), REFUSED)
def test_checkpoints_of_another_kind_are_refused(
    tmp_path, load_tiny, save, name, changes, fields, message
):
    save(tmp_path)
    change_json(tmp_path / name, **changes)
    with pytest.raises(InputError, match=message):
        load_tiny(tmp_path, **fields)


@pytest.mark.parametrize(
    ("save", "name", "fields", "old", "new", "message"),
    [
        (save_jina_v4, "adapters/adapter_model.safetensors", V4,
         ".retrieval.", ".clustering.", "no adapter of the text model for"),
        (save_jina_v4, "adapters/adapter_model.safetensors", V4,
         "lora_A", "lora_magnitude", "no LoRA tensor of a task"),
        (save_jina_v3, "model.safetensors", V3,
         "1.mlp.fc2.parametrizations.weight.0.lora_B", "x", "layers.1.mlp.fc2 has the tensors"),
    ],
)  # fmt: skip
def test_adapters_of_another_kind_are_refused(
    tmp_path, load_tiny, save, name, fields, old, new, message
):
    save(tmp_path)
    stored = load_file(tmp_path / name)
    save_file({key.replace(old, new): t for key, t in stored.items()}, tmp_path / name)
    with pytest.raises(InputError, match=message):
        load_tiny(tmp_path, **fields)
