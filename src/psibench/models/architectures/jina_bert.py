"""JinaBERT: BERT with ALiBi and GEGLU (jina-embeddings-v2-base-en, jina-reranker-v1-turbo-en).

Günther et al. 2023, arXiv:2310.19923, section 3: no position embeddings, but a bias of -slope
times the distance of two tokens on their attention (Press et al. 2022, the slopes of section 3,
symmetric here); feed-forward blocks gated by GELU (Shazeer 2020). transformers has no such class.
Import inside functions only: it needs torch.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from psibench.errors import InputError
from psibench.models.weights import check_config, read_tensors, round_parameters, set_weights

PREFIX = "bert."

REQUIRED = {
    "position_embedding_type": "alibi",
    "feed_forward_type": "geglu",
    "hidden_act": "gelu",
}


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "JinaBert":
    """Load the encoder, without the pooler that may be stored beside it.

    ``options`` are those of ``from_pretrained``. Raises InputError if the config describes another
    network, its weights are others, or another attention than torch's is asked for.
    """
    if options.get("attn_implementation", "sdpa") != "sdpa":
        raise InputError(
            f"{folder}: architecture jina-bert attends by torch's own function; take "
            "`calibrate` out of the model's entry"
        )
    check(config)
    weights = {
        name.removeprefix(PREFIX): tensor
        for name, tensor in read_tensors(folder, lambda name: "pooler." not in name).items()
    }
    return round_parameters(set_weights(JinaBert(config), weights, folder), options["dtype"])


def load_classifier(folder: Path, config: Mapping[str, Any]) -> "JinaBertClassifier":
    """Load the encoder with its pooler and an output for a reranker; refuses as ``load``."""
    check(config)
    network: JinaBertClassifier = set_weights(
        JinaBertClassifier(config), read_tensors(folder), folder
    )
    return network


def check(config: Mapping[str, Any]) -> None:
    """Raise InputError if a config.json describes another network."""
    whole = {**dict.fromkeys(REQUIRED), **config}
    check_config(whole, REQUIRED, where="architecture jina-bert")


def alibi_slopes(n_heads: int) -> list[float]:
    """Return a slope per head: 2^(-8/n), 2^(-16/n), ... for n a power of two.

    For other n: those of the power of two below, then every other one of the power above
    (Press et al. 2022, the authors' code).
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    if power < n_heads:
        slopes += alibi_slopes(2 * power)[0::2][: n_heads - power]
    return slopes


class JinaBert(nn.Module):
    """The encoder; submodules carry the checkpoint's names."""

    def __init__(self, config: Mapping[str, Any], *, add_pooler: bool = False) -> None:
        super().__init__()
        hidden, n_layers = config["hidden_size"], config["num_hidden_layers"]
        self.config = SimpleNamespace(**config)
        self.n_heads = config["num_attention_heads"]
        self.embeddings = _Embeddings(config)
        layers = nn.ModuleList(_Layer(config) for _ in range(n_layers))
        self.encoder = nn.ModuleDict({"layer": layers})
        if add_pooler:
            self.pooler = nn.ModuleDict({"dense": nn.Linear(hidden, hidden)})

    def get_input_embeddings(self) -> nn.Module:
        """Return the layer of the word embeddings."""
        return self.embeddings.word_embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Return ``last_hidden_state``, (rows, length, hidden); without a mask all is text."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        hidden = self.embeddings(input_ids)
        bias = self._attention_bias(attention_mask, hidden.dtype)
        for layer in self.encoder["layer"]:  # type: ignore[attr-defined]
            hidden = layer(hidden, bias)
        return SimpleNamespace(last_hidden_state=hidden)

    def _attention_bias(self, attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Return (rows, n_heads, length, length): ALiBi, and -inf where a key is padding."""
        places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
        distances = (places[None, :] - places[:, None]).abs()
        slopes = torch.tensor(alibi_slopes(self.n_heads), device=attention_mask.device)
        alibi = -slopes[:, None, None] * distances
        masked = ~attention_mask.bool()[:, None, None, :]
        return alibi[None].masked_fill(masked, -torch.inf).to(dtype)


class JinaBertClassifier(nn.Module):
    """Encoder, BERT's pooler over the first token, and one linear output.

    Submodules carry the checkpoint's names.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.bert = JinaBert(config, add_pooler=True)
        self.config = self.bert.config
        self.classifier = nn.Linear(config["hidden_size"], 1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return ``logits``, (n_pairs, 1)."""
        hidden = self.bert(input_ids, attention_mask).last_hidden_state
        pooled = torch.tanh(self.bert.pooler["dense"](hidden[:, 0]))
        return SimpleNamespace(logits=self.classifier(pooled))


class _Embeddings(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], hidden)
        self.token_type_embeddings = nn.Embedding(config["type_vocab_size"], hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=config["layer_norm_eps"])

    def forward(self, input_ids: Tensor) -> Tensor:
        """Embed; all tokens are of type 0: the checkpoint's tokenizer gives no types."""
        summed = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0]
        normed: Tensor = self.LayerNorm(summed)
        return normed


class _Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, inner, eps = (
            config[key] for key in ("hidden_size", "intermediate_size", "layer_norm_eps")
        )
        self.n_heads = config["num_attention_heads"]
        norm = nn.LayerNorm(hidden, eps=eps)
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict(
                    {part: nn.Linear(hidden, hidden) for part in ("query", "key", "value")}
                ),
                "output": nn.ModuleDict({"dense": nn.Linear(hidden, hidden), "LayerNorm": norm}),
            }
        )
        self.mlp = nn.ModuleDict(
            {
                "gated_layers": nn.Linear(hidden, 2 * inner, bias=False),
                "wo": nn.Linear(inner, hidden),
                "layernorm": nn.LayerNorm(hidden, eps=eps),
            }
        )

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Attend, then feed forward; each with its residual, normed after."""
        output: Any = self.attention["output"]
        attended = output["LayerNorm"](output["dense"](self._attend(hidden, bias)) + hidden)
        gate, up = self.mlp["gated_layers"](attended).chunk(2, dim=-1)
        normed: Tensor = self.mlp["layernorm"](self.mlp["wo"](gelu(gate) * up) + attended)
        return normed

    def _attend(self, hidden: Tensor, bias: Tensor) -> Tensor:
        parts: Any = self.attention["self"]
        shape = (*hidden.shape[:2], self.n_heads, -1)
        query, key, value = (
            parts[part](hidden).view(shape).transpose(1, 2) for part in ("query", "key", "value")
        )
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype))
        return mixed.transpose(1, 2).flatten(2)
