"""NV-Embed (Lee et al. 2024, arXiv:2405.17428): a Mistral without causal mask, latent attention.

Section 3.1: the decoder's states are queries of a cross-attention over trained latents, then of a
feed-forward block gated by GELU, each with a residual; the mean over tokens is the vector. Section
3.2: the mean leaves out the instruction's tokens. Weight names, the norms before both blocks and
the scale follow the checkpoint's code (modeling_nvembed.py of NV-Embed-v2), which needs
transformers 4. That code attends to whole texts, whatever window the config names. Import inside
functions only: it needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn, randn
from torch.nn.functional import gelu, scaled_dot_product_attention

from psibench.models.architectures import bidirectional
from psibench.models.weights import (
    check_network_config,
    read_tensors,
    round_parameters,
    set_weights,
)

# Defaults of the checkpoint's LatentAttentionConfig.
DEFAULTS = {
    "num_latents_value": 512,
    "num_cross_heads": 8,
    "hidden_dim": 4096,
    "latent_dim": 4096,
    "cross_dim_head": 4096,
}
_LATENT_PREFIX = "latent_attention_model."


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> "NvEmbed":
    """Load the decoder and the latent attention of a checkpoint.

    Raises InputError if the config describes another network, or weights are missing or left over.
    """
    kind = {"model_type": config.get("model_type")}
    check_network_config(kind, {"model_type": "nvembed"}, where=f"{folder}: architecture nv-embed")
    text = dict(config["text_config"]) | {"model_type": "mistral", "sliding_window": None}
    names = {r"^embedding_model\.": ""}
    decoder = bidirectional.load(folder, text, {**options, "key_mapping": names})
    latent = LatentAttention(DEFAULTS | dict(config.get("latent_attention_config") or {}))
    weights = read_tensors(folder, lambda name: name.startswith(_LATENT_PREFIX))
    weights = {name.removeprefix(_LATENT_PREFIX): tensor for name, tensor in weights.items()}
    set_weights(latent, weights, folder)
    return NvEmbed(decoder, round_parameters(latent, options["dtype"]))


class NvEmbed(nn.Module):
    """The decoder and the latent attention over its states."""

    def __init__(self, decoder: Any, latent: "LatentAttention") -> None:
        super().__init__()
        self.decoder = decoder
        self.latent = latent
        self.config = decoder.config

    def get_input_embeddings(self) -> nn.Module:
        """Return the decoder's layer of word embeddings."""
        layer: nn.Module = self.decoder.get_input_embeddings()
        return layer

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Return (rows, length, hidden) states as ``last_hidden_state``."""
        hidden = self.decoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return SimpleNamespace(last_hidden_state=self.latent(hidden))


class LatentAttention(nn.Module):
    """Cross-attention of tokens over latents, and a feed-forward block.

    Submodules have the checkpoint's names.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        dim, context = config["latent_dim"], config["hidden_dim"]
        inner = config["num_cross_heads"] * config["cross_dim_head"]
        self.heads = config["num_cross_heads"]
        self.latents = nn.Parameter(randn(config["num_latents_value"], config["latent_dim"]))
        attention = {
            "to_q": nn.Linear(dim, inner, bias=False),
            "to_kv": nn.Linear(context, 2 * inner, bias=False),
            "to_out": nn.Linear(inner, dim, bias=False),
        }
        forward = {"0": nn.Linear(dim, 8 * dim), "2": nn.Linear(4 * dim, dim)}
        self.cross_attend_blocks = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "norm": nn.LayerNorm(dim),
                        "norm_context": nn.LayerNorm(context),
                        "fn": nn.ModuleDict(attention),
                    }
                ),
                nn.ModuleDict(
                    {
                        "norm": nn.LayerNorm(dim),
                        "fn": nn.ModuleDict({"net": nn.ModuleDict(forward)}),
                    }
                ),
            ]
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (rows, length, hidden) states of tokens."""
        blocks: Any = self.cross_attend_blocks
        hidden = self._attend(blocks[0], hidden) + hidden
        feed = blocks[1]
        net = feed["fn"]["net"]
        up, gate = net["0"](feed["norm"](hidden)).chunk(2, dim=-1)
        output: Tensor = net["2"](up * gelu(gate)) + hidden
        return output

    def _attend(self, block: Any, hidden: Tensor) -> Tensor:
        """Attend from each token to the latents; no token sees another.

        All rows share one set of keys and values, and their tokens are the queries of a single row:
        copies for each row would need rows times the memory.
        """
        fn = block["fn"]

        def split(states: Tensor) -> Tensor:  # into (1, heads, tokens, dim_head)
            return states.reshape(1, -1, self.heads, states.shape[-1] // self.heads).transpose(1, 2)

        key, value = fn["to_kv"](block["norm_context"](self.latents)).chunk(2, dim=-1)
        query = fn["to_q"](block["norm"](hidden))
        mixed = scaled_dot_product_attention(split(query), split(key), split(value))
        output: Tensor = fn["to_out"](mixed.transpose(1, 2).reshape(query.shape))
        return output
