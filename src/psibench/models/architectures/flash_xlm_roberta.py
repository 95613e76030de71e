"""XLM-RoBERTa as Jina stores it for FlashAttention (jina-colbert-v2, jina-reranker-v2, jina-v3).

The same network under other names, with query, key and value in one matrix. As an encoder with
rotary positions it is transformers' JinaEmbeddingsV3Model, as a classifier with absolute positions
XLMRobertaForSequenceClassification. The checkpoints' code does not run with transformers 5, and is
not used.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.weights import check_network_config, load_port, read_tensors, set_weights

NAME = "architecture flash-xlm-roberta"
# Module of a layer in the checkpoint -> in transformers.
_LAYER_MODULES = {
    "mixer.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "norm2": "output.LayerNorm",
}
# Keys that would change what the checkpoint's code computes, if they were set.
_UNSUPPORTED_KEYS = ("lora_adaptations", "rotary_emb_scale_base", "rotary_emb_interleaved")
DEFAULT_BASE = 10_000.0  # as in the checkpoint's XLMRobertaFlashConfig


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Load an encoder with rotary positions; transformers renames its tensors.

    ``options`` are for ``from_pretrained``. Raises InputError if the config has other positions,
    adapters, or rotations of a part of each head, or the weights do not fit.
    """
    from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

    positions = {"position_embedding_type": config.get("position_embedding_type")}
    check_network_config(
        positions, {"position_embedding_type": "rotary"}, where=f"{folder}: {NAME}"
    )
    unsupported = {key: config[key] for key in _UNSUPPORTED_KEYS if config.get(key)}
    whole = config["hidden_size"] // config["num_attention_heads"]
    if config.get("rotary_emb_dim", whole) != whole:
        unsupported["rotary_emb_dim"] = config["rotary_emb_dim"]
    if unsupported:
        raise InputError(
            f"{folder}: {NAME}: found {unsupported}, which the port does not support; use another "
            "checkpoint"
        )
    known = set(JinaEmbeddingsV3Config().to_dict()) - {"model_type", "architectures", "dtype"}
    fields = {key: value for key, value in config.items() if key in known}
    base = float(config.get("rotary_emb_base", DEFAULT_BASE))
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": base}
    return load_port(
        JinaEmbeddingsV3Model,
        folder,
        config=JinaEmbeddingsV3Config(**fields),
        add_pooling_layer=False,
        **options,
    )


def load_classifier(folder: Path, config: Mapping[str, Any]) -> Any:
    """Load transformers' XLMRobertaForSequenceClassification with one output.

    Raises InputError if the config has rotary positions or adapters, which this network does not
    have, or the weights do not fit.
    """
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    kind = config.get("position_embedding_type", "absolute")
    if kind != "absolute" or config.get("lora_adaptations"):
        raise InputError(
            f"{folder}: {NAME}: found position_embedding_type {kind!r} and lora_adaptations "
            f"{config.get('lora_adaptations')!r}; supported: 'absolute' without lora_adaptations"
        )
    known = set(XLMRobertaConfig().to_dict()) - {"model_type", "architectures", "dtype"}
    fields = {key: value for key, value in config.items() if key in known}
    network = XLMRobertaForSequenceClassification(XLMRobertaConfig(**fields, num_labels=1))
    return set_weights(network, _converted(read_tensors(folder)), folder)


def _converted(weights: Mapping[str, Any]) -> dict[str, Any]:
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
            projections = zip(("query", "key", "value"), tensor.chunk(3, dim=0), strict=True)
            for projection, piece in projections:
                converted[f"{prefix}.attention.self.{projection}.{kind}"] = piece
        else:
            converted[f"{prefix}.{_LAYER_MODULES.get(module, module)}.{kind}"] = tensor
    return converted
