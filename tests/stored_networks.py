"""Weights as repositories with code of their own store them, and that code's formulas."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.nn.functional import gelu, layer_norm, linear, softmax

HIDDEN, INNER, HEADS, LAYERS = 32, 64, 4, 2
SIZES = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
}


def network(kind: str, *, seed: int = 0, **config):
    """Make a tiny network with random weights, of transformers' classes: `BertModel` or so."""
    import transformers

    torch.manual_seed(seed)
    configure = getattr(transformers, re.split("Model|For", kind)[0] + "Config")
    return getattr(transformers, kind)(configure(**SIZES | config)).eval()


def norm_weights(name: str, size: int = HIDDEN) -> dict:
    return {f"{name}.weight": torch.rand(size) + 0.5, f"{name}.bias": torch.randn(size) * 0.2}


def linear_weights(name: str, n_in: int, n_out: int, *, scale: float = 0.2) -> dict:
    return {
        f"{name}.weight": torch.randn(n_out, n_in) * scale,
        f"{name}.bias": torch.randn(n_out) * scale,
    }


def gte_weights(n_words: int, *, n_types: int) -> dict:
    """Weights of model type `new`, without the prefix that some repositories have."""
    state = {
        "embeddings.word_embeddings.weight": torch.randn(n_words, HIDDEN),
        "embeddings.token_type_embeddings.weight": torch.randn(n_types, HIDDEN),
    } | norm_weights("embeddings.LayerNorm")
    for number in range(LAYERS):
        at = f"encoder.layer.{number}"
        state |= linear_weights(f"{at}.attention.qkv_proj", HIDDEN, 3 * HIDDEN, scale=0.3)
        state |= linear_weights(f"{at}.attention.o_proj", HIDDEN, HIDDEN, scale=0.3)
        state |= linear_weights(f"{at}.mlp.down_proj", INNER, HIDDEN)
        state |= {f"{at}.mlp.up_gate_proj.weight": torch.randn(2 * INNER, HIDDEN) * 0.2}
        state |= norm_weights(f"{at}.attn_ln") | norm_weights(f"{at}.mlp_ln")
    return state


GTE = {
    "model_type": "new", "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm", "pack_qkv": True, "position_embedding_type": "rope",
    "logn_attention_scale": False, "rope_theta": 20_000,
    "rope_scaling": {"type": "ntk", "factor": 8.0},
}  # fmt: skip
"""Fields of config.json of model type `new`."""


def gte_states(state: Mapping, ids: list[int], *, theta: float, factor: float) -> torch.Tensor:
    """The old code's network: rotary angles with fixed NTK scaling, norms behind the residuals.

    The base times the factor, frequencies over factor^(2 / head size); a factor of 1 is none.
    """
    size = HIDDEN // HEADS
    frequencies = (theta * factor) ** (-torch.arange(0, size, 2) / size) / factor ** (2 / size)
    angles = torch.outer(torch.arange(len(ids)), frequencies).repeat(1, 2)

    def norm(x, name):
        return layer_norm(x, (HIDDEN,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    def dense(x, name):
        return linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))

    def rotate(x):
        first, second = x.chunk(2, dim=-1)
        return x * angles.cos() + torch.cat([-second, first], dim=-1) * angles.sin()

    hidden = state["embeddings.word_embeddings.weight"][ids]
    hidden = norm(
        hidden + state["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
    )
    for number in range(LAYERS):
        at = f"encoder.layer.{number}"
        query, key, value = (
            part.view(-1, HEADS, size).transpose(0, 1)
            for part in dense(hidden, f"{at}.attention.qkv_proj").chunk(3, dim=-1)
        )
        weights = softmax(rotate(query) @ rotate(key).transpose(1, 2) / size**0.5, dim=-1)
        mixed = (weights @ value).transpose(0, 1).reshape(len(ids), HIDDEN)
        hidden = norm(hidden + dense(mixed, f"{at}.attention.o_proj"), f"{at}.attn_ln")
        up, gate = dense(hidden, f"{at}.mlp.up_gate_proj").chunk(2, dim=-1)
        hidden = norm(hidden + dense(up * gelu(gate), f"{at}.mlp.down_proj"), f"{at}.mlp_ln")
    return hidden


def jina_bert_weights(n_words: int, *, hidden: int = HIDDEN, inner: int = INNER) -> dict:
    """Weights of JinaBERT's encoder, without the prefix that some repositories have."""
    state = {
        "embeddings.word_embeddings.weight": torch.randn(n_words, hidden),
        "embeddings.token_type_embeddings.weight": torch.randn(2, hidden),
    } | norm_weights("embeddings.LayerNorm", hidden)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            state |= linear_weights(f"{layer}.attention.{part}", hidden, hidden)
        state |= norm_weights(f"{layer}.attention.output.LayerNorm", hidden)
        state |= norm_weights(f"{layer}.mlp.layernorm", hidden)
        state |= linear_weights(f"{layer}.mlp.wo", inner, hidden)
        state[f"{layer}.mlp.gated_layers.weight"] = torch.randn(2 * inner, hidden) * 0.2
    return state


JINA_BERT = {
    "model_type": "bert", "position_embedding_type": "alibi", "feed_forward_type": "geglu",
    "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2,
}  # fmt: skip


def jina_bert_states(state: Mapping, ids: list[int], slopes: list[float]) -> torch.Tensor:
    """JinaBERT's formulas: a bias of -slope times the distance, GELU gates, norms behind.

    ``slopes`` has one per head.
    """

    def norm(x, name):
        size = (x.shape[-1],)
        return layer_norm(x, size, state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    def dense(x, name):
        return linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))

    x = state["embeddings.word_embeddings.weight"][ids]
    x = norm(x + state["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    size = x.shape[-1] // len(slopes)
    places = torch.arange(len(ids))
    distances = (places[:, None] - places[None, :]).abs()
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        parts = [dense(x, f"{layer}.attention.self.{p}") for p in ("query", "key", "value")]
        heads = []
        for head, slope in enumerate(slopes):
            query, key, value = (part[:, head * size : (head + 1) * size] for part in parts)
            weights = query @ key.T / size**0.5 - slope * distances
            heads.append(softmax(weights, dim=-1) @ value)
        attended = dense(torch.cat(heads, dim=-1), f"{layer}.attention.output.dense")
        x = norm(attended + x, f"{layer}.attention.output.LayerNorm")
        gate, up = dense(x, f"{layer}.mlp.gated_layers").chunk(2, dim=-1)
        x = norm(dense(gelu(gate) * up, f"{layer}.mlp.wo") + x, f"{layer}.mlp.layernorm")
    return x


def flash_weights(twin) -> dict:
    """Weights of transformers' XLM-RoBERTa or Jina v3, named and joined as Jina stores them."""
    state = {f"roberta.{flash_name(name)}": t for name, t in twin.state_dict().items()}
    stored = {name: t.contiguous() for name, t in state.items() if ".PART." not in name}
    for number in range(LAYERS):
        layer = f"roberta.encoder.layers.{number}"
        for kind in ("weight", "bias"):
            parts = [state[f"{layer}.PART.{part}.{kind}"] for part in ("query", "key", "value")]
            stored[f"{layer}.mixer.Wqkv.{kind}"] = torch.cat(parts)
    return stored


def flash_name(name: str) -> str:
    """Rename a tensor of either twin; parts of attention that are stored as one have PART."""
    for theirs, flash in (
        ("self_attn.o_proj", "mixer.out_proj"), ("self_attn.q_proj", "PART.query"),
        ("self_attn.k_proj", "PART.key"), ("self_attn.v_proj", "PART.value"),
        ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"),
        ("attention.self.", "PART."), ("attention.output.dense", "mixer.out_proj"),
        ("attention.output.LayerNorm", "norm1"), ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"), ("output.LayerNorm", "norm2"),
        ("embeddings.LayerNorm", "emb_ln"), ("encoder.layer.", "layers."),
    ):  # fmt: skip
        name = name.replace(theirs, flash)
    return f"encoder.{name}" if name.startswith("layers.") else name


def save_word_tokenizer(
    folder: Path,
    vocabulary: list[str],
    *,
    pattern: str,
    single: str = "",
    pair: str | None = None,
    **names,
) -> int:
    """Save a word-level tokenizer; returns the size of its vocabulary.

    ``single`` and ``pair`` are templates, whose words but $A and $B are special tokens.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: place for place, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=names["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    added = dict.fromkeys(word for word in single.split() if word != "$A")
    if added:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(name, ids[name]) for name in added]
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return len(vocabulary)
