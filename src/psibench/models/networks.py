"""The network behind a ``TransformerEncoder``: a transformer, a pooling and dense layers.

The common kinds are read with transformers alone, which costs a job half the import of
sentence-transformers; modules of other kinds are that library's to run.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from psibench.config.encoders import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models import architectures, calibration
from psibench.models.checkpoints import read_json
from psibench.models.declared import Layout, read_layout
from psibench.models.tokenizing import load_tokenizer
from psibench.models.weights import (
    checking_weights,
    load_auto,
    quiet,
    read_tensors,
    tokenizer_folder,
)

PROBE = 8  # tokens
LEAST = 1e-9
"""Smallest divisor, as sentence-transformers has it."""


class Network(Protocol):
    """From a padded batch to token states, and from these to one vector per text."""

    @property
    def tokenizer(self) -> Any:
        """A fast tokenizer of transformers."""

    @property
    def transformer(self) -> Any:
        """A model of transformers, with its config."""

    @property
    def weights(self) -> str:
        """Number format of the weights."""

    @property
    def needs_mask(self) -> bool:
        """Whether places behind a text change its states if they are not masked."""

    @property
    def masks_prompt(self) -> bool:
        """Whether the prompt's tokens are left out of the pooling."""

    @property
    def pooling(self) -> tuple[str, ...]:
        """What states are pooled by, in `POOLINGS`' words; empty where it cannot be told."""

    @property
    def first_position(self) -> int | None:
        """Number of a text's first position; None if the transformer cannot be told positions."""

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer; the other methods take what it gives."""

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool the states of the tokens that a (rows, length) mask keeps into (rows, dim)."""


@dataclass(frozen=True)
class NativeNetwork:
    """A transformer and a head, without sentence-transformers."""

    tokenizer: Any
    transformer: Any
    head: Any
    weights: str
    needs_mask: bool
    masks_prompt: bool
    first_position: int | None

    @property
    def pooling(self) -> tuple[str, ...]:
        """What states are pooled by; several are concatenated."""
        return tuple(self.head.pooling)

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.transformer(**inputs).last_hidden_state

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""
        return found

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool states, then pass them through the dense layers."""
        return self.head(found, mask)


def load_network(
    entry: SentenceTransformerModel, folder: Path, *, device: str, dtype: str
) -> Network:
    """Load a checkpoint's network.

    On a GPU the weights of a transformer are in the number format asked for: half the memory of
    float32. On a CPU they stay float32 (see ``TransformerEncoder``). The head is always float32.

    Raises
    ------
    InputError
        If the checkpoint's files are not of the kind that the entry says.
    """
    layout = choose_layout(entry, folder)
    if layout is None:
        return load_modules(entry, folder, device=device)
    weights = dtype if device == "cuda" else "float32"
    transformer = load_backbone(entry, folder / layout.transformer, dtype=weights)
    if transformer is None:
        return load_modules(entry, folder, device=device)
    if not layout.include_prompt:
        refuse_prompt_left_out(entry)
    transformer = transformer.eval().to(device)
    return NativeNetwork(
        tokenizer=load_tokenizer(
            folder,
            layout.transformer,
            trust_remote_code=entry.trust_remote_code,
            as_stored=entry.architecture != "auto",
            lower_case=layout.lower_case,
        ),
        transformer=transformer,
        head=load_head(folder, layout, device=device),
        weights=weights,
        # Calibration has to know which tokens are a text's.
        needs_mask=entry.padding_side == "left"
        or entry.calibrate is not None
        or not is_causal(transformer),
        masks_prompt=entry.architecture == "nv-embed" and entry.pooling == "checkpoint",
        first_position=first_position(transformer) if takes_positions(transformer) else None,
    )


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
    chosen = "mean" if entry.pooling == "landmark" else entry.pooling
    return Layout(
        pooling=layout.pooling if chosen == "checkpoint" else (chosen,),
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
    options: dict[str, Any] = {"dtype": dtype, **_attention_options(entry)}
    if entry.architecture == "auto" and config.get("is_encoder_decoder"):
        return None
    if entry.architecture == "auto":
        return load_auto(folder, options, trust_remote_code=entry.trust_remote_code)
    port = import_module(f"{architectures.__name__}.{entry.architecture.replace('-', '_')}")
    with quiet():
        return port.load(folder, config, options)


def _attention_options(entry: SentenceTransformerModel) -> dict[str, str]:
    """Return what a transformer is loaded with: calibrated attention goes through a function."""
    if entry.calibrate is not None:
        return {"attn_implementation": calibration.register()}
    return {} if entry.attention == "auto" else {"attn_implementation": entry.attention}


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


class Head:
    """From token states to one vector per text, in float32.

    A pooling, or several whose results are concatenated, and dense layers behind it. Formulas are
    those of sentence-transformers' modules Pooling and Dense.
    """

    def __init__(self, pooling: Sequence[str], dense: Any) -> None:
        self.pooling, self.dense = tuple(pooling), dense

    def __call__(self, states: Any, mask: Any) -> Any:
        """Return (rows, dim) vectors.

        Parameters
        ----------
        states
            (rows, length, hidden) states of tokens, in any number format.
        mask
            (rows, length): 1 where a token counts, at least one per row.
        """
        import torch

        pooled = [POOLINGS[name](states, mask).float() for name in self.pooling]
        return self.dense(torch.cat(pooled, dim=-1))


def load_head(folder: Path, layout: Layout, *, device: str) -> Head:
    """Read the dense layers of a checkpoint and put them behind a pooling.

    Raises
    ------
    InputError
        If a folder holds no dense layer, or its weights do not fit.
    """
    from torch import nn

    dense = nn.Sequential(*(_load_dense(folder / name) for name in layout.dense))
    return Head(layout.pooling, dense.eval().to(device))


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
    return states[_rows(states), mask.argmax(dim=1)]


def _last(states: Any, mask: Any) -> Any:
    places = mask.shape[1] - 1 - mask.flip(1).argmax(dim=1)
    return states[_rows(states), places]


def _rows(states: Any) -> Any:
    import torch

    return torch.arange(len(states), device=states.device)


POOLINGS: dict[str, Any] = {
    "cls": _first,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_by_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}


@dataclass(frozen=True)
class ModuleNetwork:
    """A ``Network`` of any modules that sentence-transformers has."""

    model: Any
    weights: str = "float32"
    needs_mask: bool = True
    masks_prompt: bool = False
    first_position: int | None = None

    @property
    def tokenizer(self) -> Any:
        """Return the tokenizer."""
        return self.model.tokenizer

    @property
    def transformer(self) -> Any:
        """Return transformers' model."""
        return self.model[0].auto_model

    @property
    def pooling(self) -> tuple[str, ...]:
        """What its one pooling module pools by; empty where it has none, or several."""
        modes = [module.pooling_mode for module in self.model if hasattr(module, "pooling_mode")]
        named = modes[0] if len(modes) == 1 else ()
        return (named,) if isinstance(named, str) else tuple(named)

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.model[0](dict(inputs))

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""
        return found["token_embeddings"]

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pass what the transformer gives through the modules behind it, in float32."""
        states = found["token_embeddings"].float()
        features = {**found, "token_embeddings": states, "attention_mask": mask}
        for module in list(self.model)[1:]:
            features = module(features)
        return features["sentence_embedding"]


def load_modules(entry: SentenceTransformerModel, folder: Path, *, device: str) -> ModuleNetwork:
    """Load a checkpoint with sentence-transformers, in float32.

    Raises
    ------
    InputError
        If its first module is no transformer, or the entry asks for what only the common modules
        have.
    """
    from sentence_transformers import SentenceTransformer

    if entry.projection or entry.architecture != "auto":
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its modules are not the common ones, so that "
            "`projection` and `architecture` cannot be used; take them out of the model's entry"
        )
    options = _attention_options(entry)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    tokenizer_folder(folder, modules[0]["path"])
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
        refuse_prompt_left_out(entry)
    return ModuleNetwork(model.eval())


def _set_pooling(model: Any, mode: str) -> None:
    """Replace the checkpoint's pooling module, or put one behind the transformer."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    pooling = Pooling(model[0].get_embedding_dimension(), pooling_mode=mode)
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            model[index] = pooling
            return
    model.insert(1, pooling)


def refuse_prompt_left_out(entry: SentenceTransformerModel) -> None:
    """Refuse a prompt for a checkpoint whose pooling would leave its tokens out.

    Raises
    ------
    InputError
        If the entry has a prompt.
    """
    if entry.query_prompt or entry.document_prompt:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling leaves the prompt's tokens out, which "
            "is not supported together with a prompt; set pooling, or take the prompts away"
        )
