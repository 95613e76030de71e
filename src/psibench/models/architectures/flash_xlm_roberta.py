"""XLM-RoBERTa as Jina stores it for FlashAttention, as an encoder (jina-colbert-v2).

With rotary positions it is the network of transformers' JinaEmbeddingsV3Model, with absolute ones
that of XLMRobertaModel; neither runs code of the checkpoint.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.config.encoders import ColbertModel
from psibench.errors import InputError
from psibench.models.checkpoints import read_json
from psibench.models.weights import read_tensors
from psibench.rerankers.architectures import flash_xlm_roberta
from psibench.rerankers.checkpoints import set_weights

PREFIX = "roberta."
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

    Raises
    ------
    InputError
        If the config asks for what these networks have not, or the weights are others.
    """
    import torch

    config = read_json(folder / "config.json")
    stored = read_tensors(folder, lambda name: name.startswith(PREFIX) and ".pooler." not in name)
    weights = {
        name.removeprefix(PREFIX): tensor.float()
        for name, tensor in flash_xlm_roberta.convert(stored).items()
    }
    if config.get("position_embedding_type") == "rotary":
        model = build_rotary(config)
        weights = {_rotary_name(name): tensor for name, tensor in weights.items()}
    else:
        model = flash_xlm_roberta.build(config).roberta
    set_weights(model, weights, entry)  # type: ignore[arg-type]  # reads name and revision only
    return model.to(getattr(torch, dtype))


def build_rotary(config: Mapping[str, Any]) -> Any:
    """Make transformers' JinaEmbeddingsV3Model for a checkpoint's config.json.

    Raises
    ------
    InputError
        If the config asks for adapters, or for other rotations than over whole heads.
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
