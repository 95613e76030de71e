"""Files of a reranker's checkpoint: its folder, its config, its weights."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from psibench.config.rerankers import CheckpointReranker
from psibench.errors import InputError
from psibench.models import checkpoints
from psibench.models.checkpoints import resolve_checkpoint

FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "pytorch_model*.bin"]


@contextmanager
def loading(entry: CheckpointReranker) -> Iterator[None]:
    """Turn what goes wrong while a checkpoint is loaded into an InputError that names it.

    Code that comes with a checkpoint and was written for another release of transformers fails
    in more ways than a missing file.
    """
    # Reads nothing but the entry's checkpoint and revision.
    with checkpoints.loading(entry):  # type: ignore[arg-type]
        try:
            yield
        except (AttributeError, RuntimeError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def checkpoint_folder(entry: CheckpointReranker) -> Path:
    """Return the folder of a local checkpoint, or download the hub's at its revision."""
    resolved = resolve_checkpoint(entry.checkpoint, entry.revision)
    if Path(resolved).is_dir():
        return Path(resolved)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(resolved, revision=entry.revision, allow_patterns=FILES))


def read_config(folder: Path) -> dict[str, Any]:
    """Read a checkpoint's config.json."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def set_weights(model: Any, weights: Mapping[str, Any], entry: CheckpointReranker) -> None:
    """Give a model its weights: all of them, and no other.

    Raises
    ------
    InputError
        If a tensor is missing, left over or of another shape: the checkpoint is of another kind.
    """
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}, revision {entry.revision!r}: its weights are not "
            f"those of {type(model).__name__} ({error}). Is this the right backend or architecture?"
        ) from error


def last_product_in_float32(model: Any) -> None:
    """Let a classifier's last layer compute in float32, whatever the layers before it run in.

    bfloat16 leaves 8 numbers between 10 and 10.5: a hundred logits there would be a handful of
    ties, which ids decide.
    """
    from torch.nn import Linear

    for module in model.modules():
        if isinstance(module, Linear) and module.out_features == 1:
            module.forward = partial(_linear_in_float32, module)  # type: ignore[method-assign]


def keep_logits_of(model: Any, tokens: Sequence[int]) -> None:
    """Leave a language model these tokens' logits alone, in this order, computed in float32.

    Those of a large vocabulary at all positions would fill the memory.
    """
    import torch

    head = model.get_output_embeddings()
    kept = torch.nn.Linear(head.in_features, len(tokens), bias=head.bias is not None)
    kept = kept.to(device=head.weight.device, dtype=head.weight.dtype)
    with torch.no_grad():
        kept.weight.copy_(head.weight[list(tokens)])
        if head.bias is not None:
            kept.bias.copy_(head.bias[list(tokens)])
    kept.forward = partial(_linear_in_float32, kept)  # type: ignore[method-assign]
    model.set_output_embeddings(kept)


def _linear_in_float32(layer: Any, hidden: Any) -> Any:
    import torch

    bias = None if layer.bias is None else layer.bias.float()
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.nn.functional.linear(hidden.float(), layer.weight.float(), bias)


def fast_tokenizer(folder: Path) -> Any:
    """Load a checkpoint's tokenizer.json as it is, whatever class the checkpoint names."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)
