"""The network behind a ``TransformerEncoder``: a transformer, and what pools its states.

sentence-transformers' modules load a checkpoint and run on the states of its transformer; that
itself is called here, with the batches that psibench lays out. A checkpoint whose transformer comes
with code for transformers 4 has a port of it in `psibench.models.architectures`.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.config.encoders import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models.architectures import port
from psibench.models.checkpoints import USES, read_json, read_modules
from psibench.models.declared import TEXT_INPUT, declared_pooling, is_dense, kept_dimensions
from psibench.models.library_keys import (
    check_requirements,
    refuse_for_port,
    refuse_unknown_modules,
    refuse_unread,
)
from psibench.models.tokenizing import load_tokenizer
from psibench.models.weights import (
    check_tokenizer,
    checking_weights,
    refuse_untrusted_activations,
    without_weights,
)

logger = logging.getLogger("psibench")

PROBE = 8  # tokens
ROTARY = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose only positional encoding is one rotary embedding, by `rope_parameters`."""
STANDSTILL = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 1e30}
"""Rotary parameters under which no position turns anything: angles are divided by the factor, their
cosines are 1, and their sines too small to be seen beside it in any number format."""
TASK, OUTPUT = "feature-extraction", "token_embeddings"
"""What a transformer module is for, and what it gives to the modules behind it."""
PLAIN = {"path": "", "type": "sentence_transformers.base.modules.Transformer"}
"""The module of a checkpoint that lists none."""
OWN_POOLING = ("nv-embed", "jina-v3", "jina-v4")
"""Architectures that take the mean: their checkpoints' lists of modules name code of their own."""


@dataclass(frozen=True)
class Network:
    """From a padded batch to token states, and from these to one vector per text.

    Attributes
    ----------
    transformer
        Takes ``input_ids`` and ``attention_mask``, gives ``last_hidden_state``.
    modules
        sentence-transformers' modules behind the transformer, in a row and in float32: a pooling,
        dense layers. What brings vectors to unit length at their end is left out: encoders do.
    weights
        Number format of the transformer's weights.
    needs_mask
        Whether places behind a text change its states if they are not masked.
    masks_prompt
        Whether the prompt's tokens are left out of the pooling.
    dimensions
        How many of a text's dimensions are kept, the first ones; None: all.
    """

    tokenizer: Any
    transformer: Any
    modules: Any
    weights: str = "float32"
    needs_mask: bool = True
    masks_prompt: bool = False
    dimensions: int | None = None

    @property
    def pooling(self) -> tuple[str, ...]:
        """What states are pooled by, in sentence-transformers' words; empty: in another way."""
        modes = [module.pooling_mode for module in self.modules if hasattr(module, "pooling_mode")]
        named = modes[0] if len(modes) == 1 else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def has_token_modules(self) -> bool:
        """Whether vectors of tokens are more than the states of the transformer."""
        return any(map(_is_of_tokens, self.modules or ()))

    def vectors(self, states: Any, mask: Any) -> Any:
        """Pool the states of the tokens that a (rows, length) mask keeps into (rows, dim) float32.

        At least one token of each row counts. ``dimensions`` are cut from the output of the last
        module, as sentence-transformers does. There, a module that brings vectors to unit length
        comes before the cut; it changes no direction.
        """
        features = {"token_embeddings": states.float(), "attention_mask": mask}
        return self.modules(features)["sentence_embedding"][:, : self.dimensions]

    def token_vectors(self, states: Any) -> Any:
        """Return (rows, length, dim) float32 vectors of tokens.

        As sentence-transformers' ``encode(output_value="token_embeddings")``, which runs the
        modules of tokens in front of a pooling and behind it.
        """
        features = {OUTPUT: states.float()}
        for module in filter(_is_of_tokens, self.modules):
            features = module(features)
        return features[OUTPUT]


def load_network(
    entry: SentenceTransformerModel, folder: Path, *, device: str, weights: str
) -> Network:
    """Load a checkpoint's network, the weights of its transformer in a number format.

    Raises InputError if the checkpoint's files are not of the kind that the entry says.
    """
    import torch

    refuse_untrusted_activations(folder, entry.projection)
    if entry.architecture == "auto":
        check_requirements(folder)
        first, modules = _load_modules(entry, folder, weights)
        tokenizer, transformer = first.tokenizer, text_transformer(first, entry.checkpoint)
    else:
        refuse_for_port(folder)
        tokenizer = load_tokenizer(folder, as_stored=True)
        config = read_json(folder / "config.json")
        transformer = port(entry.architecture).load(folder, config, {"dtype": weights})
        modules = _modules_behind(entry, folder)
    modules = _as_entry_says(entry, folder, modules)
    if entry.scoring == "maxsim":
        _refuse_without_token_vectors(entry, folder, modules)
    pools_prompt = all(getattr(module, "include_prompt", True) for module in modules)
    if not pools_prompt and (entry.query_prompt or entry.document_prompt):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling leaves the prompt's tokens out, which "
            "is not supported together with a prompt; set pooling, or take the prompts away"
        )
    transformer = transformer.to(device).eval()
    return Network(
        tokenizer,
        transformer,
        torch.nn.Sequential(*modules).to(device).eval(),
        weights,
        needs_mask=not is_causal(transformer),
        masks_prompt=_masks_prompt(entry),
        dimensions=kept_dimensions(entry, folder),
    )


def _load_modules(
    entry: SentenceTransformerModel, folder: Path, weights: str
) -> tuple[Any, list[Any]]:
    """Load a checkpoint's modules: the first, which holds a transformer, and those behind it.

    Those of a checkpoint of another kind (sparse, late interaction) are not read: its transformer
    is pooled by the mean, as sentence-transformers does.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    is_of_kind = is_dense(read_json(folder / USES))
    listed = read_modules(folder) if is_of_kind else []
    module = listed[0] if listed else PLAIN
    place = folder / module["path"]
    changes = positions_taken_out(place, entry.checkpoint) if entry.positions else {}
    options = {"dtype": weights}
    with checking_weights(folder):
        first = _load_module(entry, folder, module, model_kwargs=options, config_kwargs=changes)
    _check_first(entry, first, place)
    if not listed:
        if getattr(first.tokenizer, "chat_template", None):
            logger.warning(
                "checkpoint %r: sentence-transformers would put each text into the tokenizer's "
                "chat template, as modules.json does not say otherwise; texts are read as they are",
                entry.checkpoint,
            )
        mode = declared_pooling(folder) if is_of_kind else "mean"
        return first, [Pooling(first.get_embedding_dimension(), mode)]
    refuse_unknown_modules(folder)
    return first, _modules_behind(entry, folder)


def _is_of_tokens(module: Any) -> bool:
    """Say whether a module changes the vectors of tokens (Dense, Normalize) rather than texts."""
    return getattr(module, "module_input_name", None) == OUTPUT


def _refuse_without_token_vectors(
    entry: SentenceTransformerModel, folder: Path, modules: list[Any]
) -> None:
    """Refuse a checkpoint that other modules make vectors of tokens of.

    A dense layer of texts is applied to tokens by sentence-transformers' MultiVectorEncoder, and
    not by ``encode(output_value="token_embeddings")``.

    Raises
    ------
    InputError
        If it is of another kind than SentenceTransformer, whose modules are not read, or has
        modules of texts besides a pooling and a normalisation.
    """
    from sentence_transformers.sentence_transformer.modules import Dropout, Normalize, Pooling

    kinds = [read_json(folder / USES).get("model_type", "")]
    kinds += read_json(folder / "config.json").get("architectures") or []
    if not is_dense(read_json(folder / USES)) or "HF_ColBERT" in kinds:
        found = f"it is a {next(filter(None, kinds))}, whose modules are not read here"
    elif entry.architecture == "jina-v4":
        found = "its multi_vector_projector is not read"
    elif others := [
        type(module).__name__
        for module in modules
        if not (_is_of_tokens(module) or isinstance(module, Pooling | Normalize | Dropout))
    ]:
        found = f"its modules {', '.join(others)} are of texts, not of tokens"
    else:
        return
    raise InputError(
        f"checkpoint {entry.checkpoint!r}: `scoring: maxsim` needs vectors of tokens, and {found}; "
        "use `backend: colbert` in the model's entry, which reads checkpoints for late interaction"
    )


def load_without_weights(entry: SentenceTransformerModel, folder: Path) -> Network:
    """Load what tokenizes a checkpoint's texts; its network cannot run.

    Raises InputError as ``load_network``, of what is wrong with the weights nothing.
    """
    if entry.architecture == "auto":
        listed = read_modules(folder) if is_dense(read_json(folder / USES)) else []
        module = listed[0] if listed else PLAIN
        with without_weights(folder):
            first = _load_module(entry, folder, module)
        _check_first(entry, first, folder / module["path"])
        tokenizer, transformer = first.tokenizer, text_transformer(first, entry.checkpoint)
    else:
        refuse_for_port(folder)
        tokenizer, transformer = load_tokenizer(folder, as_stored=True), None
    return Network(tokenizer, transformer, modules=None, masks_prompt=_masks_prompt(entry))


def _masks_prompt(entry: SentenceTransformerModel) -> bool:
    return entry.architecture == "nv-embed" and entry.pooling == "checkpoint"


def _check_first(entry: SentenceTransformerModel, first: Any, place: Path) -> None:
    """Refuse a transformer module whose tokenizer is another's, or whose texts are read otherwise.

    Raises InputError.
    """
    if hasattr(first, "auto_model"):
        check_tokenizer(first.tokenizer, place)
        refuse_unread(first, entry.checkpoint)


def _load_module(
    entry: SentenceTransformerModel, folder: Path, module: dict[str, str], **options: Any
) -> Any:
    """Load one of the modules that a checkpoint lists."""
    from sentence_transformers.util.misc import import_module_class

    trust = {"trust_remote_code": entry.trust_remote_code}
    kind = import_module_class(module["type"], str(folder), **trust)
    place = {"subfolder": module["path"], "local_files_only": True}
    return kind.load(str(folder), **place, **trust, **options)


def text_transformer(first: Any, checkpoint: str) -> Any:
    """Return the transformer of a checkpoint's first module.

    Raises InputError if there is none, or texts do not go through its forward pass.
    """
    if not hasattr(first, "auto_model"):
        raise InputError(
            f"checkpoint {checkpoint!r}: its first module is a {type(first).__name__}, not a "
            "transformer; give a checkpoint of a transformer encoder"
        )
    text = getattr(first, "modality_config", {}).get("text", TEXT_INPUT)
    text = {key: text.get(key) for key in TEXT_INPUT}
    output = getattr(first, "module_output_name", OUTPUT)
    task = getattr(first, "transformer_task", TASK)
    if (text, output, task) != (TEXT_INPUT, OUTPUT, TASK):
        raise InputError(
            f"checkpoint {checkpoint!r}: texts go through its transformer by {text}, to "
            f"{output!r}, for the task {task!r}; supported: {TEXT_INPUT}, {OUTPUT!r}, {TASK!r}"
        )
    return first.auto_model


def _modules_behind(entry: SentenceTransformerModel, folder: Path) -> list[Any]:
    """Load the modules behind a checkpoint's first one, in float32.

    Of a port whose checkpoint lists code of its own, or nothing: the mean.
    """
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    listed = [] if entry.architecture in OWN_POOLING else read_modules(folder)[1:]
    foreign = [m for m in listed if not m["type"].startswith("sentence_transformers.")]
    if entry.architecture != "auto" and foreign:
        if entry.pooling == "checkpoint":
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: its modules.json names code of its own; set "
                "`pooling` in the model's entry"
            )
        listed = []
    modules = [_load_module(entry, folder, module) for module in listed]
    if modules and isinstance(modules[-1], Normalize):
        modules.pop()
    return modules or [Pooling(1, "mean")]


def _as_entry_says(entry: SentenceTransformerModel, folder: Path, modules: list[Any]) -> list[Any]:
    """Put the entry's pooling and dense layer in the place of the checkpoint's."""
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling

    if entry.pooling != "checkpoint":
        n_before = next((n for n, one in enumerate(modules) if isinstance(one, Pooling)), 0)
        others = [module for module in modules if not isinstance(module, Pooling)]
        modules = [*others[:n_before], Pooling(1, entry.pooling), *others[n_before:]]
    if entry.projection:
        if not (folder / entry.projection / "config.json").is_file():
            raise InputError(
                f"{folder / entry.projection}: no config.json of a dense layer; correct "
                "`projection` in the model's entry"
            )
        projection = Dense.load(str(folder), subfolder=entry.projection, local_files_only=True)
        modules = [*(m for m in modules if not isinstance(m, Dense)), projection]
    return modules


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


def weights_format(device: str, dtype: str) -> str:
    """Choose the number format of a transformer's weights.

    On a CPU float32, so that another format can be computed in later; on a GPU the one asked for.
    """
    return dtype if device == "cuda" else "float32"


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


def check_positions(
    backbone: Any, checkpoint: str, tokens: int | None, key: str = "max_tokens"
) -> None:
    """Raise InputError if a key of an entry has more tokens than a transformer has positions.

    Models of RoBERTa's kind number a text's positions from padding_idx + 1 on: of 514, 512 are
    left.
    """
    positions = getattr(backbone.config, "max_position_embeddings", None)
    for name, module in backbone.named_modules():
        padding = getattr(module, "padding_idx", None)
        if positions is not None and padding is not None and name.endswith("position_embeddings"):
            positions -= padding + 1
    if positions is not None and tokens is not None and tokens > positions:
        raise InputError(
            f"checkpoint {checkpoint!r}: {key} {tokens} is more than its {positions} positions; "
            f"lower {key}"
        )
