"""The network behind a ``TransformerEncoder``: a transformer, and modules that pool its states.

sentence-transformers' modules load a checkpoint and process the states of its transformer. psibench
calls the transformer itself, with batches that it lays out. If the code of a checkpoint's
transformer needs transformers 4, `psibench.models.architectures` has a port.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.config.encoders import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models.architectures import port
from psibench.models.checkpoints import USES, read_json_object, read_modules
from psibench.models.declared import TEXT_INPUT, declared_pooling, is_dense, kept_dimensions
from psibench.models.library_keys import (
    check_requirements,
    refuse_for_port,
    refuse_unknown_modules,
    refuse_unread,
)
from psibench.models.tokenizing import load_checkpoint_tokenizer
from psibench.models.weights import (
    check_tokenizer,
    checking_weights,
    refuse_untrusted_activations,
    without_weights,
)

logger = logging.getLogger("psibench")

_CAUSALITY_TOKENS = 8
ROTARY = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose only positional encoding is one rotary embedding, set by `rope_parameters`."""
STANDSTILL = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 1e30}
"""Rotary parameters that rotate nothing at any position: angles are divided by the factor, so that
their cosines are 1 and their sines vanish in every number format."""
TASK, OUTPUT = "feature-extraction", "token_embeddings"
"""Task of a transformer module, and name of its output for the next module."""
PLAIN_MODULE = {"path": "", "type": "sentence_transformers.base.modules.Transformer"}
"""The first module of a checkpoint without a list of modules."""
OWN_POOLING = ("nv-embed", "jina-v3", "jina-v4")
"""Architectures pooled by the mean, because their checkpoints list modules with custom code."""


@dataclass(frozen=True)
class Network:
    """A transformer, and the modules that turn its states into vectors.

    Attributes
    ----------
    transformer
        Takes ``input_ids`` and ``attention_mask``, returns ``last_hidden_state``.
    modules
        sentence-transformers' modules after the transformer, in sequence and in float32: a pooling,
        dense layers. A final normalisation is left out, because encoders normalise.
    weights
        Number format of the transformer's weights.
    needs_mask
        Whether padding after a text changes its states unless it is masked.
    masks_prompt
        Whether the prompt's tokens are left out of the pooling.
    dimensions
        To how many dimensions a text's vector is cut; None: it is not cut.
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
        """sentence-transformers' names of the pooling modes; empty for another way of pooling."""
        modes = [module.pooling_mode for module in self.modules if hasattr(module, "pooling_mode")]
        named = modes[0] if len(modes) == 1 else ()
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def has_token_modules(self) -> bool:
        """Whether modules change the vectors of tokens after the transformer."""
        return any(map(_is_of_tokens, self.modules or ()))

    def vectors(self, states: Any, mask: Any) -> Any:
        """Pool the states of the tokens that a (rows, length) mask keeps into (rows, dim) float32.

        The mask keeps at least one token of each row. As in sentence-transformers, vectors are cut
        to ``dimensions`` after the last module. The normalisation that sentence-transformers runs
        before the cut does not change directions.
        """
        features = {"token_embeddings": states.float(), "attention_mask": mask}
        return self.modules(features)["sentence_embedding"][:, : self.dimensions]

    def token_vectors(self, states: Any) -> Any:
        """Return (rows, length, dim) float32 vectors of tokens.

        As in sentence-transformers' ``encode(output_value="token_embeddings")``, modules of tokens
        run, whether they come before or after the pooling.
        """
        features = {OUTPUT: states.float()}
        for module in filter(_is_of_tokens, self.modules):
            features = module(features)
        return features[OUTPUT]


def load_network(
    entry: SentenceTransformerModel, folder: Path, *, device: str, weights: str
) -> Network:
    """Load a checkpoint's network; its transformer's weights are in the format ``weights``.

    Raises InputError if the checkpoint's files are not of the entry's kind.
    """
    import torch

    refuse_untrusted_activations(folder, entry.projection)
    if entry.architecture == "auto":
        check_requirements(folder)
        first, modules = _load_modules(entry, folder, weights)
        tokenizer, transformer = first.tokenizer, text_transformer(first, entry.checkpoint)
    else:
        refuse_for_port(folder)
        tokenizer = load_checkpoint_tokenizer(folder, as_stored=True)
        config = read_json_object(folder / "config.json")
        transformer = port(entry.architecture).load(folder, config, {"dtype": weights})
        modules = _modules_behind(entry, folder)
    modules = _as_entry_says(entry, folder, modules)
    if entry.scoring == "maxsim":
        _refuse_without_token_vectors(entry, folder, modules)
    pools_prompt = all(getattr(module, "include_prompt", True) for module in modules)
    if not pools_prompt and (entry.query_prompt or entry.document_prompt):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling excludes the prompt's tokens, which is "
            "not supported together with a prompt; set `pooling` in the model's entry, or set its "
            'prompts to ""'
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
    """Load a checkpoint's first module, which holds a transformer, and the later ones.

    For checkpoints of another kind (sparse, late interaction), only the transformer is loaded and
    pooled by the mean, as in sentence-transformers.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    is_of_kind = is_dense(read_json_object(folder / USES))
    listed = read_modules(folder) if is_of_kind else []
    module = listed[0] if listed else PLAIN_MODULE
    subfolder = folder / module["path"]
    changes = without_positions(subfolder, entry.checkpoint) if entry.positions else {}
    options = {"dtype": weights}
    with checking_weights(folder):
        first = _load_module(entry, folder, module, model_kwargs=options, config_kwargs=changes)
    _check_first(entry, first, subfolder)
    if not listed:
        if getattr(first.tokenizer, "chat_template", None):
            logger.warning(
                "checkpoint %r: without modules.json, sentence-transformers would put each text "
                "into the tokenizer's chat template; psibench does not",
                entry.checkpoint,
            )
        mode = declared_pooling(folder) if is_of_kind else "mean"
        return first, [Pooling(first.get_embedding_dimension(), mode)]
    refuse_unknown_modules(folder)
    return first, _modules_behind(entry, folder)


def _is_of_tokens(module: Any) -> bool:
    """Return whether a module (Dense, Normalize) changes vectors of tokens, not of texts."""
    return getattr(module, "module_input_name", None) == OUTPUT


def _refuse_without_token_vectors(
    entry: SentenceTransformerModel, folder: Path, modules: list[Any]
) -> None:
    """Refuse a checkpoint whose vectors of tokens are made by modules that are not loaded.

    sentence-transformers applies a dense layer of texts to tokens in MultiVectorEncoder, but not in
    ``encode(output_value="token_embeddings")``.

    Raises
    ------
    InputError
        If it is not a SentenceTransformer, so that its modules are not loaded, or has modules of
        texts other than pooling and normalisation.
    """
    from sentence_transformers.sentence_transformer.modules import Dropout, Normalize, Pooling

    kinds = [read_json_object(folder / USES).get("model_type", "")]
    kinds += read_json_object(folder / "config.json").get("architectures") or []
    if not is_dense(read_json_object(folder / USES)) or "HF_ColBERT" in kinds:
        reason = f"psibench does not read the modules of a {next(filter(None, kinds))}"
    elif entry.architecture == "jina-v4":
        reason = "psibench does not read its multi_vector_projector"
    elif others := [
        type(module).__name__
        for module in modules
        if not (_is_of_tokens(module) or isinstance(module, Pooling | Normalize | Dropout))
    ]:
        reason = f"its modules {', '.join(others)} change vectors of texts, not of tokens"
    else:
        return
    raise InputError(
        f"checkpoint {entry.checkpoint!r}: `scoring: maxsim` needs vectors of tokens, but "
        f"{reason}; use `backend: colbert` in the model's entry, which reads checkpoints for late "
        "interaction"
    )


def load_without_weights(entry: SentenceTransformerModel, folder: Path) -> Network:
    """Load a network that can only tokenize.

    Raises InputError as ``load_network``, except for errors in the weights.
    """
    if entry.architecture == "auto":
        listed = read_modules(folder) if is_dense(read_json_object(folder / USES)) else []
        module = listed[0] if listed else PLAIN_MODULE
        with without_weights(folder):
            first = _load_module(entry, folder, module)
        _check_first(entry, first, folder / module["path"])
        tokenizer, transformer = first.tokenizer, text_transformer(first, entry.checkpoint)
    else:
        refuse_for_port(folder)
        tokenizer, transformer = load_checkpoint_tokenizer(folder, as_stored=True), None
    return Network(tokenizer, transformer, modules=None, masks_prompt=_masks_prompt(entry))


def _masks_prompt(entry: SentenceTransformerModel) -> bool:
    return entry.architecture == "nv-embed" and entry.pooling == "checkpoint"


def _check_first(entry: SentenceTransformerModel, first: Any, folder: Path) -> None:
    """Raise InputError if a transformer module has another model's tokenizer or unread settings."""
    if hasattr(first, "auto_model"):
        check_tokenizer(first.tokenizer, folder)
        refuse_unread(first, entry.checkpoint)


def _load_module(
    entry: SentenceTransformerModel, folder: Path, module: dict[str, str], **options: Any
) -> Any:
    from sentence_transformers.util.misc import import_module_class

    trust = {"trust_remote_code": entry.trust_remote_code}
    kind = import_module_class(module["type"], str(folder), **trust)
    location = {"subfolder": module["path"], "local_files_only": True}
    return kind.load(str(folder), **location, **trust, **options)


def text_transformer(first: Any, checkpoint: str) -> Any:
    """Return the transformer of a checkpoint's first module.

    Raises InputError if the module is no transformer, or texts do not go through its forward pass.
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
            f"checkpoint {checkpoint!r}: its transformer reads texts by {text}, with the output "
            f"{output!r}, for the task {task!r}; supported: {TEXT_INPUT}, {OUTPUT!r}, {TASK!r}"
        )
    return first.auto_model


def _modules_behind(entry: SentenceTransformerModel, folder: Path) -> list[Any]:
    """Load the modules after a checkpoint's first one, in float32.

    If the list is empty, or a port's checkpoint lists modules with custom code, returns a mean
    pooling.
    """
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    listed = [] if entry.architecture in OWN_POOLING else read_modules(folder)[1:]
    foreign = [m for m in listed if not m["type"].startswith("sentence_transformers.")]
    if entry.architecture != "auto" and foreign:
        if entry.pooling == "checkpoint":
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: its modules.json names custom code, which a "
                "port does not run; set `pooling` in the model's entry"
            )
        listed = []
    modules = [_load_module(entry, folder, module) for module in listed]
    if modules and isinstance(modules[-1], Normalize):
        modules.pop()
    return modules or [Pooling(1, "mean")]


def _as_entry_says(entry: SentenceTransformerModel, folder: Path, modules: list[Any]) -> list[Any]:
    """Use the entry's pooling and dense layer instead of the checkpoint's."""
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


def without_positions(folder: Path, checkpoint: str) -> dict[str, Any]:
    """Return keys of config.json that switch a transformer's positional encoding off.

    A checkpoint saved with these keys has no positional encoding wherever it is loaded. A causal
    network can still infer positions from the number of tokens it sees.

    Raises
    ------
    InputError
        If the checkpoint's model type is not supported.
    """
    kind = read_json_object(folder / "config.json").get("model_type")
    if kind not in ROTARY:
        raise InputError(
            f"checkpoint {checkpoint!r}: `positions: none` supports the model types "
            f"{', '.join(ROTARY)}, this is {kind!r}; remove `positions` from the model's entry"
        )
    return {"rope_parameters": dict(STANDSTILL)}


def weights_format(device: str, dtype: str) -> str:
    """Return the number format of a transformer's weights.

    float32 on a CPU, where other formats run under autocast; on a GPU the requested format.
    """
    return dtype if device == "cuda" else "float32"


def is_causal(backbone: Any) -> bool:
    """Return whether no token attends to a later one, so that padding after a text changes nothing.

    Attention modules declare it; running two short texts that differ in the last token confirms it.
    """
    import torch

    declared = [m.is_causal for m in backbone.modules() if hasattr(m, "is_causal")]
    if not declared or not all(declared):
        return False
    device = next(backbone.parameters()).device
    n = _CAUSALITY_TOKENS
    texts = [[*range(n)], [*range(n - 1), n]]
    with torch.inference_mode():
        first, second = (
            backbone(input_ids=torch.tensor([ids], device=device)).last_hidden_state[0]
            for ids in texts
        )
    return bool(torch.equal(first[:-1], second[:-1]) and not torch.equal(first[-1], second[-1]))


def check_positions(
    backbone: Any, checkpoint: str, tokens: int | None, key: str = "max_tokens"
) -> None:
    """Raise InputError if a key of an entry sets more tokens than a transformer has positions.

    RoBERTa-like models count positions from padding_idx + 1: of 514 positions, 512 can be used.
    LongRoPE (Ding et al. 2024, arXiv:2402.13753) has other angles for long inputs, and transformers
    uses these for a whole batch with a long text: only short inputs can be used.
    """
    positions = getattr(backbone.config, "max_position_embeddings", None)
    for name, module in backbone.named_modules():
        padding = getattr(module, "padding_idx", None)
        if positions is not None and padding is not None and name.endswith("position_embeddings"):
            positions -= padding + 1
    if positions is not None and tokens is not None and tokens > positions:
        raise InputError(
            f"checkpoint {checkpoint!r}: {key} is {tokens}, but the model has only {positions} "
            f"positions; lower {key.partition(' ')[0]}"
        )
    parameters = getattr(backbone.config, "rope_parameters", None) or {}
    for rope in (parameters, *parameters.values()):  # by kind of layer, or one for all
        if not isinstance(rope, dict) or rope.get("rope_type") != "longrope":
            continue
        short = rope["original_max_position_embeddings"]
        if tokens is not None and tokens > short:
            raise InputError(
                f"checkpoint {checkpoint!r}: {key} is {tokens}, but above {short} tokens its "
                "positions (longrope) depend on the longest text of a batch, so a text would have "
                f"different vectors; lower {key.partition(' ')[0]} to {short}"
            )
