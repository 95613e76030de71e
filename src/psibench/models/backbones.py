"""Transformers of checkpoints, loaded with transformers alone."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psibench.config.models import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models.hub import read_json
from psibench.models.module_list import Layout, read_layout
from psibench.models.weights import check_network

PROBE = 8  # tokens


def choose_layout(entry: SentenceTransformerModel, folder: Path) -> Layout | None:
    """Choose pooling and dense layers: those of the entry, else those of the checkpoint.

    Returns
    -------
    Layout or None
        None: the checkpoint's modules are sentence-transformers' to load.

    Raises
    ------
    InputError
        If the entry names an architecture and neither it nor the checkpoint says how to pool.
    """
    kind, layout = entry.architecture, read_layout(folder)
    if kind in ("nv-embed", "jina-v4"):
        layout = Layout()  # the mean: the module lists of both name their own code
    if kind == "bidirectional" and layout and not (folder / "modules.json").is_file():
        layout = Layout()
    if layout is None and kind == "auto":
        return None
    if layout is None and entry.pooling == "checkpoint":
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its modules.json names code of its own; set "
            "`pooling` in the model's entry"
        )
    layout = layout or Layout()
    return Layout(
        pooling=layout.pooling if entry.pooling == "checkpoint" else (entry.pooling,),
        dense=(entry.projection,) if entry.projection else layout.dense,
        transformer=layout.transformer,
        include_prompt=layout.include_prompt or entry.pooling != "checkpoint",
        lower_case=layout.lower_case,
    )


def load_backbone(entry: SentenceTransformerModel, folder: Path, *, dtype: str) -> Any:
    """Load a checkpoint's transformer on the CPU.

    Parameters
    ----------
    folder
        Of the transformer's config.json.
    dtype
        Number format of its weights.

    Returns
    -------
    Module or None
        Its forward pass takes ``input_ids``, ``attention_mask`` and perhaps ``position_ids`` and
        gives ``last_hidden_state``. None: an encoder with a decoder, of which sentence-transformers
        takes one.

    Raises
    ------
    InputError
        If weights are missing, or the checkpoint is not of the architecture the entry names.
    """
    config = read_json(folder / "config.json")
    options: dict[str, Any] = {"dtype": dtype}
    if entry.attention != "auto":
        options["attn_implementation"] = entry.attention
    if entry.architecture == "auto" and config.get("is_encoder_decoder"):
        return None
    with quiet():
        return _load(entry, folder, config, options)


def _load(
    entry: SentenceTransformerModel, folder: Path, config: dict[str, Any], options: dict[str, Any]
) -> Any:
    match entry.architecture:
        case "gte":
            from psibench.models.architectures import gte

            return gte.load(folder, config, options)
        case "bidirectional":
            from psibench.models.architectures import bidirectional

            return bidirectional.load(folder, config, options)
        case "nv-embed":
            from psibench.models.architectures import nv_embed

            return nv_embed.load(folder, config, options)
        case "jina-v4":
            from psibench.models.architectures import jina_v4

            return jina_v4.load(folder, config, options)
        case _:
            return load_auto(folder, options, trust_remote_code=entry.trust_remote_code)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' report of weights: what matters of it is checked here."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def load_auto(folder: Path, options: dict[str, Any], *, trust_remote_code: bool = False) -> Any:
    """Load the class that the checkpoint names, without BERT's pooler, which nothing here reads.

    Raises
    ------
    InputError
        If weights are missing, of another shape, or of a larger network.
    """
    from transformers import AutoConfig, AutoModel

    trust = {"trust_remote_code": trust_remote_code}
    config = AutoConfig.from_pretrained(folder, **trust)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    known = type(config) in AutoModel._model_mapping
    if known and "add_pooling_layer" in _parameters(AutoModel._model_mapping[type(config)]):
        options = options | {"add_pooling_layer": False}
    model, info = AutoModel.from_pretrained(
        folder, config=config, output_loading_info=True, **options, **trust
    )
    check_network(folder, model, info)
    return model


def _parameters(model_class: Any) -> set[str]:
    return set(inspect.signature(model_class.__init__).parameters)


def takes_positions(backbone: Any) -> bool:
    """Say whether a transformer can be told the positions of tokens."""
    return "position_ids" in inspect.signature(backbone.forward).parameters


def is_causal(backbone: Any) -> bool:
    """Say whether no token sees a later one, so that padding behind a text changes nothing.

    Attention modules declare it; a short text whose last token is changed shows it.
    """
    import torch

    declared = [m.is_causal for m in backbone.modules() if hasattr(m, "is_causal")]
    if not declared or not all(declared):
        return False
    device = next(backbone.parameters()).device
    texts = [[*range(PROBE)], [*range(PROBE - 1), PROBE]]
    with torch.inference_mode():
        first, second = (
            backbone(input_ids=torch.tensor([ids], device=device)).last_hidden_state[0]
            for ids in texts
        )
    return bool(torch.equal(first[:-1], second[:-1]) and not torch.equal(first[-1], second[-1]))


def first_position(backbone: Any) -> int:
    """Return the number of a text's first position.

    0, except in models of RoBERTa's kind, which number from padding_idx + 1 on.
    """
    for name, module in backbone.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return int(padding) + 1
    return 0


def usable_positions(backbone: Any) -> int | None:
    """Return the longest input of a transformer in tokens, None if it declares no limit.

    In models of RoBERTa's kind max_position_embeddings 514 leaves 512.
    """
    declared = getattr(backbone.config, "max_position_embeddings", None)
    return None if declared is None else int(declared) - first_position(backbone)
