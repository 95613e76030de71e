"""The text model of jina-embeddings-v4 (Günther et al. 2025, arXiv:2506.18902), retrieval adapter.

Qwen2.5-VL's text model is Qwen2: without pictures, its three position numbers are equal. Its linear
layers have LoRA adapters (Hu et al. 2021, arXiv:2106.09685: W + s B A with s = alpha / r), one per
task; the checkpoint's code (custom_lora_module.py) selects a task's adapter in each layer. This
module adds the retrieval adapters to the weights once.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.architectures.bidirectional import NOT_OF_THE_NETWORK
from psibench.models.checkpoints import read_json_object
from psibench.models.weights import check_network_config, load_port, read_tensors, round_parameters

_MODEL_TYPES = ("qwen2_5_vl", "jina_embeddings_v4")
_RETRIEVAL_TASK = "retrieval"
_ADAPTERS_FOLDER = "adapters"
NAMES = {r"^model\.(language_model\.)?": ""}
OTHER_PARTS = r"(model\.)?(visual|lm_head|multi_vector_projector)\."
# PEFT names a module by its path below `base_model.model`; some releases add the adapter's name.
ADAPTER = re.compile(
    r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.(?:default\.)?(?P<task>[\w-]+)\.weight"
)
IN_TEXT_MODEL = re.compile(r"^(?:model\.)?(?:language_model\.)?")
_PLAIN_LORA = {
    "peft_type": "LORA", "use_dora": False, "lora_bias": False, "bias": "none",
    "fan_in_fan_out": False, "rank_pattern": {}, "alpha_pattern": {}, "modules_to_save": None,
}  # fmt: skip


def load(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Load transformers' Qwen2Model with the retrieval adapter merged into its weights.

    Weights are merged in float32, then rounded to the requested number format. Raises InputError if
    the config or the adapters are of another kind, or weights are missing.
    """
    from transformers import Qwen2Model

    read = {**options, "dtype": "float32", "config": text_config(folder, config)}
    model = load_port(Qwen2Model, folder, key_mapping=NAMES, **read)
    merge_adapter(model, folder / _ADAPTERS_FOLDER)
    return round_parameters(model, options["dtype"])


def text_config(folder: Path, config: Mapping[str, Any]) -> Any:
    """Convert the text part of Qwen2.5-VL's config.json into transformers' Qwen2Config.

    Raises InputError if it has another model type, or scaled rotary angles.
    """
    from transformers import Qwen2Config

    if config.get("model_type") not in _MODEL_TYPES:
        raise InputError(
            f"{folder}: jina-v4: found model_type {config.get('model_type')!r}; "
            f"supported: {_MODEL_TYPES[0]!r}"
        )
    text = dict(config.get("text_config") or config)
    scaling = text.pop("rope_scaling", None) or text.pop("rope_parameters", None) or {}
    kinds = {scaling.get(key, "default") for key in ("type", "rope_type")}
    if not kinds <= {"default", "mrope"}:
        raise InputError(f"{folder}: jina-v4: found rope_scaling {scaling!r}; supported: mrope")
    theta = float(scaling.get("rope_theta") or text.get("rope_theta") or 1_000_000.0)
    not_shared = {"vision_config", "text_config", "rope_parameters", "rope_theta"}
    ignored = NOT_OF_THE_NETWORK | not_shared
    fields = {key: value for key, value in text.items() if key not in ignored}
    rope = {"rope_type": "default", "rope_theta": theta}
    return Qwen2Config(**fields, rope_parameters=rope, use_cache=False)


def merge_adapter(model: Any, folder: Path) -> None:
    """Add the retrieval task's adapter to the weights of its layers.

    Raises InputError if the adapter is not a plain LoRA, or the task has none.
    """
    import torch

    config = read_json_object(folder / "adapter_config.json")
    options = {key: value for key, value in config.items() if value}  # empty values have no effect
    check_network_config(options, _PLAIN_LORA, where=f"{folder}: adapters")
    rank = config["r"]
    scale = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
    pairs: dict[str, dict[str, Any]] = {}
    for name, tensor in read_tensors(folder).items():
        match = ADAPTER.fullmatch(name)
        if match is None:
            raise InputError(
                f"{folder}: found the tensor {name!r}, which is no LoRA tensor of a task; "
                f"expected names that match {ADAPTER.pattern}"
            )
        if match["task"] == _RETRIEVAL_TASK and not re.match(OTHER_PARTS, f"{match['module']}."):
            name = IN_TEXT_MODEL.sub("", match["module"])
            pairs.setdefault(name, {})[match["side"]] = tensor
    if not pairs:
        raise InputError(
            f"{folder}: found no adapter of the text model for the task {_RETRIEVAL_TASK!r}"
        )
    with torch.no_grad():
        for name, sides in pairs.items():
            if set(sides) != {"A", "B"} or len(sides["A"]) != rank:
                raise InputError(
                    f"{folder}: the adapter of {name} lacks a matrix A or B of rank {rank}"
                )
            added = sides["B"].float() @ sides["A"].float()
            model.get_submodule(name).weight += scale * added
