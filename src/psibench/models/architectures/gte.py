"""GTE's encoder, stored as model type `new` (gte-multilingual-base, stella_en_400M_v5).

transformers has this network as `gte` and renames the weights itself; only the config differs. The
checkpoints' static NTK scaling of rotary angles by a factor f (base times f, frequencies divided by
f^(2/d)) equals linear scaling by f^(2/d) of angles with base theta times f.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.weights import check_network_config, load_port

_REQUIRED_CONFIG = {
    "model_type": "new",
    "position_embedding_type": "rope",
    "layer_norm_type": "layer_norm",
    "pack_qkv": True,
    "logn_attention_scale": False,
}
_CONFIG_KEYS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "pad_token_id",
    "classifier_dropout",
)  # fmt: skip


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Load transformers' GteModel from a checkpoint of model type `new`.

    ``options`` are for ``from_pretrained``. Raises InputError if the config has a feature that the
    class does not support, or weights are missing.
    """
    from transformers import GteModel

    arguments = {"config": gte_config(folder, config), "add_pooling_layer": False}
    return load_port(GteModel, folder, **arguments, **options)


def load_classifier(folder: Path, config: Mapping[str, Any]) -> Any:
    """Load transformers' GteForSequenceClassification with one output; refuses as ``load``."""
    from transformers import GteForSequenceClassification

    ported = gte_config(folder, config, num_labels=1)
    return load_port(GteForSequenceClassification, folder, config=ported, dtype="float32")


def gte_config(folder: Path, config: Mapping[str, Any], **fields: Any) -> Any:
    """Convert the checkpoint's config.json into transformers' GteConfig, with additional fields.

    Raises InputError if it has a feature that the class does not support.
    """
    from transformers import GteConfig

    check_network_config(config, _REQUIRED_CONFIG, where=f"{folder}: architecture gte")
    shared = {key: config[key] for key in _CONFIG_KEYS if key in config}
    return GteConfig(**shared, rope_parameters=rope_parameters(config), **fields)


def rope_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the checkpoint's rotary angles into transformers' parameters.

    Raises InputError if they are not scaled by a fixed NTK factor.
    """
    theta = float(config.get("rope_theta", 10_000.0))
    scaling = config.get("rope_scaling")
    if scaling is None:
        return {"rope_type": "default", "rope_theta": theta}
    if scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None:
        raise InputError(
            f"architecture gte: found rope_scaling {scaling!r}; supported: type ntk without "
            "mixed_b, or null"
        )
    factor = float(scaling["factor"])
    head_size = config["hidden_size"] // config["num_attention_heads"]
    return {
        "rope_type": "linear",
        "rope_theta": theta * factor,
        "factor": factor ** (2 / head_size),
    }
