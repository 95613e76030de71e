"""The network behind a ``TransformerEncoder``: a transformer, a pooling and dense layers.

The common kinds are read with transformers alone, which costs a job half the import of
sentence-transformers; modules of other kinds are that library's to run.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from psibench.config.encoders import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models import architectures, calibration
from psibench.models.checkpoints import read_json
from psibench.models.declared import Layout, read_layout, read_modules, refuse_more
from psibench.models.tokenizing import load_tokenizer
from psibench.models.weights import (
    checking_weights,
    load_auto,
    quiet,
    read_tensors,
    tokenizer_folder,
)

PROBE = 8  # tokens
ROTARY = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose only positional encoding is one rotary embedding, by `rope_parameters`."""
STANDSTILL = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 1e30}
"""Rotary parameters under which no position turns anything: angles are divided by the factor, their
cosines are 1, and their sines too small to be seen beside it in any number format."""
LEAST = 1e-9  # divisor, as sentence-transformers has it


@dataclass(frozen=True)
class Network:
    """From a padded batch to token states, and from these to one vector per text.

    Attributes
    ----------
    pooling
        What states are pooled by, in `POOLINGS`' words, results of several concatenated; empty
        where it cannot be told.
    weights
        Number format of the weights.
    needs_mask
        Whether places behind a text change its states if they are not masked.
    masks_prompt
        Whether the prompt's tokens are left out of the pooling.
    first_position
        Number of a text's first position; None if the transformer cannot be told positions.
    """

    tokenizer: Any
    transformer: Any
    pooling: tuple[str, ...]
    weights: str = "float32"
    needs_mask: bool = True
    masks_prompt: bool = False
    first_position: int | None = None

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer; the other methods take what it gives."""
        raise NotImplementedError

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""
        raise NotImplementedError

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool the states of the tokens that a (rows, length) mask keeps into (rows, dim) float32.

        At least one token of each row counts.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class NativeNetwork(Network):
    """A transformer, poolings and dense layers, without sentence-transformers.

    Formulas are those of its modules Pooling and Dense.
    """

    dense: Any = None

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.transformer(**inputs).last_hidden_state

    def tokens(self, found: Any) -> Any:
        """Return the states of tokens."""
        return found

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool, then pass through what is behind."""
        import torch

        pooled = [POOLINGS[name](found, mask).float() for name in self.pooling]
        return self.dense(torch.cat(pooled, dim=-1))


@dataclass(frozen=True)
class ModuleNetwork(Network):
    """Any modules that sentence-transformers has, in float32."""

    modules: tuple[Any, ...] = ()

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.modules[0](dict(inputs))

    def tokens(self, found: Any) -> Any:
        """Return the states of tokens."""
        return found["token_embeddings"]

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool, then pass through what is behind."""
        states = found["token_embeddings"].float()
        features = {**found, "token_embeddings": states, "attention_mask": mask}
        for module in self.modules[1:]:
            features = module(features)
        return features["sentence_embedding"]


def load_network(
    entry: SentenceTransformerModel, folder: Path, *, device: str, dtype: str
) -> Network:
    """Load a checkpoint's network.

    On a GPU the weights of a transformer are in the number format asked for: half the memory of
    float32. On a CPU they stay float32 (see ``TransformerEncoder``). The head is always float32.
    Raises InputError if the checkpoint's files are not of the kind that the entry says.
    """
    import torch

    layout = _choose_layout(entry, folder)
    weights = dtype if device == "cuda" else "float32"
    transformer: Any = None
    if layout is not None:
        transformer = load_backbone(entry, folder / layout.transformer, dtype=weights)
    if layout is None or transformer is None:
        return _load_modules(entry, folder, device=device)
    if not layout.include_prompt:
        _refuse_prompt_left_out(entry)
    transformer = transformer.eval().to(device)
    takes_positions = "position_ids" in inspect.signature(transformer.forward).parameters
    dense = torch.nn.Sequential(*(_load_dense(folder / name) for name in layout.dense))
    return NativeNetwork(
        load_tokenizer(
            folder,
            layout.transformer,
            trust_remote_code=entry.trust_remote_code,
            as_stored=entry.architecture != "auto",
            lower_case=layout.lower_case,
        ),
        transformer,
        layout.pooling,
        weights,
        # Calibration has to know which tokens are a text's.
        needs_mask=entry.padding_side == "left"
        or entry.calibrate is not None
        or not is_causal(transformer),
        masks_prompt=entry.architecture == "nv-embed" and entry.pooling == "checkpoint",
        first_position=first_position(transformer) if takes_positions else None,
        dense=dense.eval().to(device),
    )


def _choose_layout(entry: SentenceTransformerModel, folder: Path) -> Layout | None:
    """Choose pooling and dense layers: those of the entry, else those of the checkpoint.

    None: the checkpoint's modules are sentence-transformers' to load.
    """
    kind, layout = entry.architecture, read_layout(folder)
    if kind in ("nv-embed", "jina-v3", "jina-v4"):
        layout = Layout()  # the mean: their module lists name code of their own
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
    chosen = "mean" if entry.pooling == "landmark" else entry.pooling
    return Layout(
        pooling=layout.pooling if chosen == "checkpoint" else (chosen,),
        dense=(entry.projection,) if entry.projection else layout.dense,
        transformer=layout.transformer,
        include_prompt=layout.include_prompt or entry.pooling != "checkpoint",
        lower_case=layout.lower_case,
    )


def load_backbone(entry: SentenceTransformerModel, folder: Path, *, dtype: str) -> Any:
    """Load a checkpoint's transformer on the CPU, its weights in a number format.

    Its forward pass takes ``input_ids``, ``attention_mask`` and perhaps ``position_ids`` and gives
    ``last_hidden_state``. None for an encoder with a decoder, of which sentence-transformers takes
    one. Raises InputError if weights are missing, or the checkpoint is not of the architecture that
    the entry names.
    """
    config = read_json(folder / "config.json")
    options: dict[str, Any] = {"dtype": dtype, **_attention_options(entry)}
    if entry.architecture == "auto" and config.get("is_encoder_decoder"):
        return None
    if entry.architecture == "auto":
        changes = positions_taken_out(folder, entry.checkpoint) if entry.positions else {}
        return load_auto(
            folder, options, trust_remote_code=entry.trust_remote_code, changes=changes
        )
    port = import_module(f"{architectures.__name__}.{entry.architecture.replace('-', '_')}")
    with quiet():
        return port.load(folder, config, options)


def _attention_options(entry: SentenceTransformerModel) -> dict[str, str]:
    """Return what a transformer is loaded with: calibrated attention goes through a function."""
    if entry.calibrate is not None:
        return {"attn_implementation": calibration.register()}
    return {} if entry.attention == "auto" else {"attn_implementation": entry.attention}


def positions_taken_out(folder: Path, checkpoint: str) -> dict[str, Any]:
    """Return the keys of config.json with which a transformer has no positional encoding.

    Saved with them, a checkpoint has none wherever it is loaded; a causal network knows positions
    still, by how many tokens it sees.

    Raises
    ------
    InputError
        If it is not known how to take it out of the checkpoint's model type.
    """
    kind = read_json(folder / "config.json").get("model_type")
    if kind not in ROTARY:
        raise InputError(
            f"checkpoint {checkpoint!r}: positions: none takes out a rotary embedding of the model "
            f"types {', '.join(ROTARY)}, and this is {kind!r}; leave `positions` out"
        )
    return {"rope_parameters": dict(STANDSTILL)}


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


def check_positions(
    backbone: Any, checkpoint: str, tokens: int | None, key: str = "max_tokens"
) -> None:
    """Raise InputError if a key of an entry has more tokens than a transformer has positions."""
    refuse_more(usable_positions(backbone), checkpoint, key, tokens)


def _load_dense(folder: Path) -> Any:
    from torch import nn

    config = read_json(folder / "config.json")
    if not {"in_features", "out_features"} <= set(config):
        raise InputError(
            f"{folder}: no config.json of a dense layer with in_features and out_features; correct "
            "`projection` in the model's entry"
        )
    linear = nn.Linear(config["in_features"], config["out_features"], config.get("bias", True))
    weights = {k.removeprefix("linear."): tensor for k, tensor in read_tensors(folder).items()}
    try:
        linear.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        raise InputError(f"{folder}: not the weights of its dense layer ({error})") from error
    path = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    activation = getattr(nn, path.rpartition(".")[2], None)
    if not path.startswith("torch.nn.") or activation is None:
        raise InputError(f"{folder}: activation_function {path!r}; supported: classes of torch.nn")
    return nn.Sequential(linear, activation())


def _mean(states: Any, mask: Any) -> Any:
    return _sum(states, mask) / _count(mask)


def _mean_by_root(states: Any, mask: Any) -> Any:
    return _sum(states, mask) / _count(mask).sqrt()


def _sum(states: Any, mask: Any) -> Any:
    """Sum in float32; a factor of 0 or 1 is exact in any format."""
    import torch

    return (states * mask.unsqueeze(-1).to(states.dtype)).sum(dim=1, dtype=torch.float32)


def _count(mask: Any) -> Any:
    return mask.sum(dim=1, keepdim=True).float().clamp(min=LEAST)


def _weighted_mean(states: Any, mask: Any) -> Any:
    """Weight each token by its number in the text, from 1."""
    weights = (mask.cumsum(dim=1) * mask).unsqueeze(-1).float()
    return (states.float() * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=LEAST)


def _max(states: Any, mask: Any) -> Any:
    return states.masked_fill(mask.unsqueeze(-1) == 0, float("-inf")).max(dim=1).values


def _first(states: Any, mask: Any) -> Any:
    return _at(states, mask.argmax(dim=1))


def _last(states: Any, mask: Any) -> Any:
    return _at(states, mask.shape[1] - 1 - mask.flip(1).argmax(dim=1))


def _at(states: Any, places: Any) -> Any:
    return states.take_along_dim(places[:, None, None], dim=1).squeeze(1)


POOLINGS: dict[str, Any] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}


def _load_modules(entry: SentenceTransformerModel, folder: Path, *, device: str) -> ModuleNetwork:
    """Load a checkpoint with sentence-transformers, in float32."""
    from sentence_transformers import SentenceTransformer

    if entry.projection or entry.architecture != "auto" or entry.positions:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its modules are not the common ones, so that "
            "`projection`, `architecture` and `positions` cannot be used; take them out of the "
            "model's entry"
        )
    options = _attention_options(entry)
    tokenizer_folder(folder, read_modules(folder)[0]["path"])
    with checking_weights(folder):
        model = SentenceTransformer(
            str(folder),
            device=device,
            trust_remote_code=entry.trust_remote_code,
            model_kwargs={"dtype": "float32", **options},  # else in the format they were saved in
        )
    if not hasattr(model[0], "auto_model"):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its first module is a {type(model[0]).__name__}, "
            "not a transformer; give a checkpoint of a transformer encoder"
        )
    if entry.pooling != "checkpoint":
        _set_pooling(model, "mean" if entry.pooling == "landmark" else entry.pooling)
    if not all(getattr(module, "include_prompt", True) for module in model):
        _refuse_prompt_left_out(entry)
    # What its one pooling module pools by; unknown where it has none, or several.
    modes = [module.pooling_mode for module in model if hasattr(module, "pooling_mode")]
    named = modes[0] if len(modes) == 1 else ()
    pooling = (named,) if isinstance(named, str) else tuple(named)
    model = model.eval()
    return ModuleNetwork(model.tokenizer, model[0].auto_model, pooling, modules=tuple(model))


def _set_pooling(model: Any, mode: str) -> None:
    """Replace the checkpoint's pooling module, or put one behind the transformer."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    pooling = Pooling(model[0].get_embedding_dimension(), pooling_mode=mode)
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            model[index] = pooling
            return
    model.insert(1, pooling)


def _refuse_prompt_left_out(entry: SentenceTransformerModel) -> None:
    if entry.query_prompt or entry.document_prompt:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling leaves the prompt's tokens out, which "
            "is not supported together with a prompt; set pooling, or take the prompts away"
        )
