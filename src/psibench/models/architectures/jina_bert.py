"""JinaBERT: BERT with ALiBi and GEGLU (jina-embeddings-v2-base-en, jina-reranker-v1-turbo-en).

Günther et al. 2023, arXiv:2310.19923, section 3: instead of position embeddings, a bias of -slope
times the distance of two tokens on their attention (slopes as in Press et al. 2022, section 3, but
symmetric); feed-forward blocks gated by GELU (Shazeer 2020). The rest is transformers' BERT, with
zero position embeddings, ALiBi as its mask, and gates as its activation. Import inside functions
only: it needs torch.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from psibench.models.weights import (
    check_network_config,
    read_tensors,
    round_parameters,
    set_weights,
)

_BERT_PREFIX = "bert."
_REQUIRED_CONFIG = {
    "position_embedding_type": "alibi",
    "feed_forward_type": "geglu",
    "hidden_act": "gelu",
}
_CONFIG_KEYS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "layer_norm_eps", "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
# Module in the checkpoint -> in transformers.
_LAYER_MODULES = {
    "mlp.gated_layers.": "intermediate.dense.",
    "mlp.wo.": "output.dense.",
    "mlp.layernorm.": "output.LayerNorm.",
}


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "JinaBert":
    """Load the encoder, without its pooler.

    ``options`` are for ``from_pretrained``. Raises InputError if the config describes another
    network, or the weights do not fit.
    """
    from transformers import BertModel

    network = BertModel(_bert_config(config), add_pooling_layer=False)
    stored = read_tensors(folder, lambda name: "pooler." not in name)
    weights = {name.removeprefix(_BERT_PREFIX): tensor for name, tensor in stored.items()}
    return round_parameters(JinaBert(network, weights, folder), options["dtype"])


def load_classifier(folder: Path, config: Mapping[str, Any]) -> "JinaBert":
    """Load the encoder with its pooler and an output for a reranker; refuses as ``load``."""
    from transformers import BertForSequenceClassification

    network = BertForSequenceClassification(_bert_config(config))
    return JinaBert(network, read_tensors(folder), folder)


def _bert_config(config: Mapping[str, Any]) -> Any:
    """Convert a config.json into transformers' BertConfig; refuse other networks."""
    from transformers import BertConfig

    whole = {**dict.fromkeys(_REQUIRED_CONFIG), **config}
    check_network_config(whole, _REQUIRED_CONFIG, where="architecture jina-bert")
    shared = {key: config[key] for key in _CONFIG_KEYS if key in config}
    return BertConfig(**shared, num_labels=1)


def alibi_slopes(n_heads: int) -> list[float]:
    """Return a slope per head: 2^(-8/n), 2^(-16/n), ... for n a power of two.

    For another n: the slopes of the next lower power of two, then every second slope of the next
    higher one (Press et al. 2022, the authors' code).
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    if power < n_heads:
        slopes += alibi_slopes(2 * power)[0::2][: n_heads - power]
    return slopes


class JinaBert(nn.Module):
    """BERT, with or without a head, with ALiBi and gated feed-forward blocks."""

    def __init__(self, network: Any, weights: Mapping[str, Any], folder: Path) -> None:
        super().__init__()
        self.network, self.config = network, network.config
        for layer in network.base_model.encoder.layer:
            layer.intermediate = _Gates(self.config)
        renamed = {}
        for name, tensor in weights.items():
            for theirs, ours in _LAYER_MODULES.items():
                name = name.replace(theirs, ours)
            renamed[name] = tensor
        positions = network.base_model.embeddings.position_embeddings.weight
        (unused,) = [name for name, each in network.named_parameters() if each is positions]
        set_weights(network, renamed | {unused: torch.zeros_like(positions)}, folder)

    def get_input_embeddings(self) -> nn.Module:
        """Return the layer of word embeddings."""
        layer: nn.Module = self.network.get_input_embeddings()
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Run the network; without a mask no token is padding."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        bias = self._attention_bias(attention_mask, next(self.network.parameters()).dtype)
        return self.network(input_ids=input_ids, attention_mask=bias)

    def _attention_bias(self, attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Return (rows, n_heads, length, length): ALiBi, and -inf if a key is padding."""
        positions = torch.arange(attention_mask.shape[1], device=attention_mask.device)
        distances = (positions[None, :] - positions[:, None]).abs()
        slopes = alibi_slopes(self.config.num_attention_heads)
        alibi = -torch.tensor(slopes, device=attention_mask.device)[:, None, None] * distances
        masked = ~attention_mask.bool()[:, None, None, :]
        return alibi[None].masked_fill(masked, -torch.inf).to(dtype)


class _Gates(nn.Module):
    """First half of a feed-forward block, with BERT's names."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Gate (rows, length, hidden) states into (rows, length, intermediate)."""
        gate, up = self.dense(hidden).chunk(2, dim=-1)
        return gelu(gate) * up
