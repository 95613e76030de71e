"""Decoders that embed without their causal mask (gte-Qwen2, inf-retriever, llama-embed-nemotron).

Their checkpoints are plain Qwen2, Llama or Mistral models; only their custom code removes the mask.
transformers removes it if the config has ``is_causal: false``, and its kernels if an attention
module has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.weights import load_port

# Model type in config.json -> model type of transformers.
DECODER_TYPES = {
    "qwen2": "qwen2",
    "llama": "llama",
    "llama_bidirec": "llama",
    "mistral": "mistral",
    "bidir_mistral": "mistral",
}
# Keys of config.json that name a checkpoint's classes, or do not describe the network.
NOT_OF_THE_NETWORK = frozenset(
    {"architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype",
     "_name_or_path", "is_causal", "use_cache"}
)  # fmt: skip


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Load a decoder and remove its causal mask.

    ``options`` are for ``from_pretrained``: number format, attention, names of weights. Raises
    InputError if the checkpoint has another model type, or weights are missing.
    """
    from transformers import AutoModel

    model = load_port(AutoModel, folder, config=_decoder_config(folder, config), **options)
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.is_causal = False
    return model


def _decoder_config(folder: Path, config: Mapping[str, Any]) -> Any:
    """Return transformers' config of the network that a checkpoint's config.json describes.

    Raises InputError if it has a model type whose mask cannot be removed.
    """
    from transformers import AutoConfig

    kind = config.get("model_type")
    if kind not in DECODER_TYPES:
        raise InputError(
            f"{folder}: architecture bidirectional: found model_type {kind!r}; supported: "
            f"{', '.join(DECODER_TYPES)}"
        )
    fields = {key: value for key, value in config.items() if key not in NOT_OF_THE_NETWORK}
    native = AutoConfig.for_model(DECODER_TYPES[kind], **fields)
    native.is_causal = False
    native.use_cache = False
    return native
