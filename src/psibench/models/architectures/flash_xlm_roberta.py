"""XLM-RoBERTa as Jina stores it for FlashAttention (jina-colbert-v2, jina-reranker-v2, jina-v3).

The same network under other names, with query, key and value in one matrix. As an encoder with
rotary positions it is transformers' JinaEmbeddingsV3Model, with absolute ones XLMRobertaModel. The
code that comes with the checkpoints imports what transformers 5 no longer has; none of it runs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.config.encoders import ColbertModel
from psibench.errors import InputError
from psibench.models.checkpoints import read_json
from psibench.models.weights import read_tensors, round_parameters, set_weights

PREFIX = "roberta."
# The checkpoint's layer module -> transformers'.
LAYER = {
    "mixer.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "norm2": "output.LayerNorm",
}
# XLMRobertaModel's layer module -> JinaEmbeddingsV3Model's. The order matters: an earlier one
# holds a later one.
ROTARY_LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.o_proj",
    "attention.output.LayerNorm": "post_attention_layernorm",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "output.LayerNorm": "post_mlp_layernorm",
    "encoder.layer.": "layers.",
}
# Keys that would make the checkpoint's code do something else, if they were set.
UNSUPPORTED = ("lora_adaptations", "rotary_emb_scale_base", "rotary_emb_interleaved")
DEFAULT_BASE = 10_000.0  # of the checkpoint's XLMRobertaFlashConfig


def load(entry: ColbertModel, folder: Path, dtype: str) -> Any:
    """Load the transformer on the CPU, its weights in the number format given.

    Raises InputError if the config asks for what these networks have not, or the weights are
    others.
    """
    config = read_json(folder / "config.json")
    stored = read_tensors(folder, is_encoder)
    if config.get("position_embedding_type") == "rotary":
        model, weights = build_rotary(config), rotary_weights(stored)
    else:
        model, weights = build(config).roberta, _without_prefix(convert(stored))
    return round_parameters(set_weights(model, weights, entry), dtype)


def is_encoder(name: str) -> bool:
    """Say whether a tensor is one of the encoder's, by its name."""
    return name.startswith(PREFIX) and ".pooler." not in name


def rotary_weights(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Rename an encoder's tensors as JinaEmbeddingsV3Model has them."""
    named = _without_prefix(convert(stored))
    return {_rotary_name(name): tensor for name, tensor in named.items()}


def _without_prefix(weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(PREFIX): tensor for name, tensor in weights.items()}


def build_rotary(config: Mapping[str, Any]) -> Any:
    """Make transformers' JinaEmbeddingsV3Model for a checkpoint's config.json.

    Raises InputError if the config asks for adapters, or for other rotations than over whole heads.
    """
    from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

    asked = {key: config[key] for key in UNSUPPORTED if config.get(key)}
    whole = config["hidden_size"] // config["num_attention_heads"]
    if config.get("rotary_emb_dim", whole) != whole:
        asked["rotary_emb_dim"] = config["rotary_emb_dim"]
    if asked:
        raise InputError(
            f"architecture flash-xlm-roberta: found {asked}; supported: none of these keys"
        )
    known = set(JinaEmbeddingsV3Config().to_dict()) - {"model_type", "architectures", "dtype"}
    kept = {key: value for key, value in config.items() if key in known}
    base = float(config.get("rotary_emb_base", DEFAULT_BASE))
    rope = {"rope_type": "default", "rope_theta": base}
    return JinaEmbeddingsV3Model(
        JinaEmbeddingsV3Config(**kept | {"rope_parameters": rope}), add_pooling_layer=False
    )


def _rotary_name(name: str) -> str:
    for theirs, ours in ROTARY_LAYER.items():
        name = name.replace(theirs, ours)
    return name


def build(config: Mapping[str, Any]) -> Any:
    """Make transformers' XLMRobertaForSequenceClassification for a checkpoint's config.json.

    Raises InputError if the config asks for rotary positions or adapters, which this network has
    not.
    """
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute" or config.get("lora_adaptations"):
        raise InputError(
            f"architecture flash-xlm-roberta: found position_embedding_type {kind!r} and "
            f"lora_adaptations {config.get('lora_adaptations')!r}; supported: 'absolute' and none"
        )
    known = set(XLMRobertaConfig().to_dict()) - {"model_type", "architectures", "dtype"}
    kept = {key: value for key, value in config.items() if key in known}
    return XLMRobertaForSequenceClassification(XLMRobertaConfig(**kept, num_labels=1))


def convert(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Rename a checkpoint's tensors and split its fused projections."""
    converted: dict[str, Any] = {}
    for name, tensor in weights.items():
        match = re.fullmatch(r"roberta\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", name)
        if match is None:
            converted[name.replace("roberta.emb_ln.", "roberta.embeddings.LayerNorm.")] = tensor
            continue
        layer, module, kind = match.groups()
        prefix = f"roberta.encoder.layer.{layer}"
        if module == "mixer.Wqkv":
            parts = zip(("query", "key", "value"), tensor.chunk(3, dim=0), strict=True)
            for part, piece in parts:
                converted[f"{prefix}.attention.self.{part}.{kind}"] = piece
        else:
            converted[f"{prefix}.{LAYER.get(module, module)}.{kind}"] = tensor
    return converted
