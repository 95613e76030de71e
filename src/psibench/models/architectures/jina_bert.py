"""JinaBERT: BERT with ALiBi and GEGLU (jina-embeddings-v2-base-en, jina-reranker-v1-turbo-en).

Günther et al. 2023, arXiv:2310.19923, section 3: no position embeddings, but a bias of -slope
times the distance of two tokens on their attention (Press et al. 2022, the slopes of section 3,
symmetric here); feed-forward blocks gated by GELU (Shazeer 2020). The rest is transformers' BERT:
positions that add nothing, ALiBi in the place of its mask, gates in the place of its activation.
Import inside functions only: it needs torch.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from psibench.models.weights import check_config, read_tensors, round_parameters, set_weights

PREFIX = "bert."
REQUIRED = {
    "position_embedding_type": "alibi",
    "feed_forward_type": "geglu",
    "hidden_act": "gelu",
}
KEPT = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "layer_norm_eps", "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
# The checkpoint's module -> transformers'.
LAYER = {
    "mlp.gated_layers.": "intermediate.dense.",
    "mlp.wo.": "output.dense.",
    "mlp.layernorm.": "output.LayerNorm.",
}


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "JinaBert":
    """Load the encoder, without the pooler that may be stored beside it.

    ``options`` are those of ``from_pretrained``. Raises InputError if the config describes another
    network, or its weights are others.
    """
    from transformers import BertModel

    network = BertModel(_bert_config(config), add_pooling_layer=False)
    stored = read_tensors(folder, lambda name: "pooler." not in name)
    weights = {name.removeprefix(PREFIX): tensor for name, tensor in stored.items()}
    return round_parameters(JinaBert(network, weights, folder), options["dtype"])


def load_classifier(folder: Path, config: Mapping[str, Any]) -> "JinaBert":
    """Load the encoder with its pooler and an output for a reranker; refuses as ``load``."""
    from transformers import BertForSequenceClassification

    network = BertForSequenceClassification(_bert_config(config))
    return JinaBert(network, read_tensors(folder), folder)


def _bert_config(config: Mapping[str, Any]) -> Any:
    """Write a config.json as transformers' BertConfig; refuse that of another network."""
    from transformers import BertConfig

    whole = {**dict.fromkeys(REQUIRED), **config}
    check_config(whole, REQUIRED, where="architecture jina-bert")
    return BertConfig(**{key: config[key] for key in KEPT if key in config}, num_labels=1)


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
    """BERT, with or without a head, that attends with ALiBi through gated units."""

    def __init__(self, network: Any, weights: Mapping[str, Any], folder: Path) -> None:
        super().__init__()
        self.network, self.config = network, network.config
        for layer in network.base_model.encoder.layer:
            layer.intermediate = _Gates(self.config)
        renamed = {}
        for name, tensor in weights.items():
            for theirs, ours in LAYER.items():
                name = name.replace(theirs, ours)
            renamed[name] = tensor
        positions = network.base_model.embeddings.position_embeddings.weight
        (place,) = [name for name, one in network.named_parameters() if one is positions]
        set_weights(network, renamed | {place: torch.zeros_like(positions)}, folder)

    def get_input_embeddings(self) -> nn.Module:
        """Return the layer of the word embeddings."""
        found: nn.Module = self.network.get_input_embeddings()
        return found

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Run the network; without a mask all is text."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        bias = self._attention_bias(attention_mask, next(self.network.parameters()).dtype)
        return self.network(input_ids=input_ids, attention_mask=bias)

    def _attention_bias(self, attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Return (rows, n_heads, length, length): ALiBi, and -inf where a key is padding."""
        places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
        distances = (places[None, :] - places[:, None]).abs()
        slopes = alibi_slopes(self.config.num_attention_heads)
        alibi = -torch.tensor(slopes, device=attention_mask.device)[:, None, None] * distances
        masked = ~attention_mask.bool()[:, None, None, :]
        return alibi[None].masked_fill(masked, -torch.inf).to(dtype)


class _Gates(nn.Module):
    """The first half of a feed-forward block, under the names of BERT's."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Gate (rows, length, hidden) states into (rows, length, intermediate)."""
        gate, up = self.dense(hidden).chunk(2, dim=-1)
        return gelu(gate) * up
