"""Decoders that embed without their causal mask (gte-Qwen2, inf-retriever, llama-embed-nemotron).

Their checkpoints are plain Qwen2, Llama or Mistral models; only their own code takes
the mask away. transformers does so where the config says ``is_causal: false``, and its kernels
where an attention module does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.weights import load_port

# Model type in config.json -> transformers'.
MODEL_TYPES = {
    "qwen2": "qwen2",
    "llama": "llama",
    "llama_bidirec": "llama",
    "mistral": "mistral",
    "bidir_mistral": "mistral",
}
# Keys of config.json that name a checkpoint's own classes, or nothing of the network.
LEFT_OUT = frozenset(
    {"architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype",
     "_name_or_path", "is_causal", "use_cache"}
)  # fmt: skip


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Load a decoder and take its causal mask away.

    ``options`` are for ``from_pretrained``: number format, attention, names of weights. Raises
    InputError if the checkpoint is of another model type, or weights are missing.
    """
    from transformers import AutoModel

    model = load_port(AutoModel, folder, config=_decoder_config(folder, config), **options)
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False
    return model


def _decoder_config(folder: Path, config: Mapping[str, Any]) -> Any:
    """Write a checkpoint's config.json as transformers' config of the same network.

    Raises InputError if it is of a model type whose mask cannot be taken away here.
    """
    from transformers import AutoConfig

    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise InputError(
            f"{folder}: architecture bidirectional: found model_type {kind!r}; supported: "
            f"{', '.join(MODEL_TYPES)}"
        )
    kept = {key: value for key, value in config.items() if key not in LEFT_OUT}
    native = AutoConfig.for_model(MODEL_TYPES[kind], **kept)
    native.is_causal = False
    native.use_cache = False
    return native
