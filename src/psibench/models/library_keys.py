"""Keys that sentence-transformers reads in a checkpoint's files, and refusals of unsupported ones.

psibench tokenizes and batches texts itself and runs the library's modules on the states of its
transformer. Each key is followed (the library's code reads it), compared with the entry, or
refused; none is ignored silently. A test compares these tables with the library's source.
"""

import logging
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.checkpoints import (
    USES,
    declared_prompts,
    read_json_object,
    read_modules,
    transformer_folder,
)
from psibench.reading import shown

logger = logging.getLogger("psibench")

MODEL_KEYS = {
    "model_type": "followed",
    "requirements": "followed",
    "prompts": "followed",
    "default_prompt_name": "followed",
    "truncate_dim": "followed",
    "similarity_fn_name": "compared",
    "__version__": "no effect",
}
"""Keys of config_sentence_transformers.json, as `SentenceTransformer` reads it."""

MODULE_KEYS = {
    "name": "refused where it occurs twice",
    "path": "followed",
    "type": "followed",
    "kwargs": "refused with task",
}
"""Keys of a module in modules.json."""

CLASSIFIER_KEYS = {
    "activation_fn": "refused unless the identity or the sigmoid",
    "keep_in_fp32_modules": "followed",
}
"""Further keys of config_sentence_transformers.json that `CrossEncoder` reads. Among the other
keys, a default prompt is refused; prompts without a default have no effect, as in `predict`."""

NETWORK_KEYS = {
    "sentence_transformers": "its activation_fn, as above",
    "sbert_ce_default_activation_function": "as activation_fn",
}
"""Keys of a classifier's config.json that `CrossEncoder` reads in addition to transformers."""

TRANSFORMER_KEYS = {
    "max_seq_length": "compared",
    "do_lower_case": "followed",
    "model_kwargs": "followed, except for the number format, which the entry sets",
    "processor_kwargs": "followed",
    "config_kwargs": "followed",
    "transformer_task": "refused unless feature-extraction",
    "modality_config": "refused unless plain texts",
    "module_output_name": "refused unless token_embeddings",
    "processing_kwargs": "refused",
    "tokenizer_name_or_path": "refused",
    "query_length": "refused",
    "document_length": "refused",
    "query_expansion": "refused",
    "unpad_inputs": "no effect",
}
"""Keys of sentence_bert_config.json."""

OLD_NAMES = {
    "model_args": "model_kwargs",
    "tokenizer_args": "processor_kwargs",
    "config_args": "config_kwargs",
}
"""Old names of keys in sentence_bert_config.json; the library prefers them."""

TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""Names of the file with `TRANSFORMER_KEYS`; the library reads the first that is not empty."""

MODULES_BEHIND = {
    "Pooling": ("embedding_dimension", "pooling_mode", "include_prompt"),
    "Dense": (
        *("in_features", "out_features", "bias", "activation_function"),
        *("module_input_name", "module_output_name", "use_residual"),
    ),
    "Normalize": ("module_input_name", "module_output_name"),
    "LayerNorm": ("dimension",),
    "Dropout": ("dropout",),
}
"""Modules of the library that may follow a transformer, with the keys of their configs, which their
code reads. Other modules need more than token states (WordWeights, LSTM, WeightedLayerPooling),
depend on padding (CNN), or belong to another kind of model."""


def transformer_config(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the path and config of a checkpoint's transformer module, with current key names.

    Without such a file, the config is empty, and the path is the library's first choice.
    """
    subfolder = transformer_folder(folder)
    for path in (subfolder / name for name in TRANSFORMER_CONFIGS):
        if config := read_json_object(path):
            renamed = {new: config.pop(old) for old, new in OLD_NAMES.items() if old in config}
            return path, config | renamed
    return subfolder / TRANSFORMER_CONFIGS[0], {}


def refuse_other_tokenizer(folder: Path) -> None:
    """Raise InputError if a checkpoint names a tokenizer elsewhere, whose version is not fixed."""
    path, config = transformer_config(folder)
    if (name := config.get("tokenizer_name_or_path")) is not None:
        raise InputError(
            f"{path}: tokenizer_name_or_path {shown(name)} is not supported; save that tokenizer "
            "in the checkpoint's folder and remove the key"
        )


def check_requirements(folder: Path) -> None:
    """Raise ImportError if the checkpoint requires package versions that are not installed."""
    from sentence_transformers.util.environment import check_version_requirements

    check_version_requirements(
        read_json_object(folder / USES).get("requirements"), source=str(folder)
    )


def refuse_unknown_modules(folder: Path) -> None:
    """Refuse modules after the transformer that psibench would not run as the library does.

    Raises
    ------
    InputError
        If two modules have one name, a module depends on the text's role, or a module of the
        library is none of `MODULES_BEHIND`.
    """
    path, modules = folder / "modules.json", read_modules(folder)
    names = [module.get("name") for module in modules]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: the modules are named {names}; expected different names")
    for module in modules:
        if "task" in (module.get("kwargs") or ()):
            raise InputError(
                f"{path}: the module {module['type']} treats queries and documents differently "
                f"(kwargs: {module['kwargs']}), which is not supported; give another checkpoint"
            )
    for module in modules[1:]:
        kind = module["type"].rpartition(".")[2]
        if module["type"].startswith("sentence_transformers.") and kind not in MODULES_BEHIND:
            raise InputError(
                f"{path}: the module {module['type']} after the transformer is not supported; "
                f"supported: {', '.join(MODULES_BEHIND)}"
            )


def refuse_unread(first: Any, checkpoint: str, *, lengths: bool = True) -> None:
    """Refuse a transformer module that prepares texts differently from psibench.

    Parameters
    ----------
    lengths
        Also refuse settings that apply only to queries or only to documents.

    Raises
    ------
    InputError
        If the module uses a chat template or further tokenizer options, or sets a length for one
        role.
    """
    unsupported: dict[str, Any] = {}
    if "message" in getattr(first, "modality_config", {}):
        unsupported["modality_config"] = "message, texts in the tokenizer's chat template"
    given = getattr(first, "processing_kwargs", None) or {}
    if options := {key: given[key] for key in ("text", "common") if given.get(key)}:
        unsupported["processing_kwargs"] = options
    for key in ("query_length", "document_length", "query_expansion") if lengths else ():
        if (value := getattr(first, key, None)) is not None:
            unsupported[key] = value
    for key, value in unsupported.items():
        raise InputError(
            f"checkpoint {checkpoint!r}: {TRANSFORMER_CONFIGS[0]} has {key} {shown(value)}, which "
            "is not supported: psibench would read texts differently from sentence-transformers. "
            "If you accept that, remove the key in a copy of the checkpoint (max_tokens of the "
            "model's entry sets its longest input)"
        )


OLD_ACTIVATION = "sbert_ce_default_activation_function"
ACTIVATIONS = (
    *("torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"),
    *("torch.nn.Identity", "torch.nn.Sigmoid"),
)
"""Functions of a logit that keep the order of its sigmoid and the score's meaning."""


def refuse_other_classifier(folder: Path) -> None:
    """Refuse a classifier whose inputs or logits psibench would use differently.

    psibench's score is the sigmoid of the logit of a query and a text.

    Raises
    ------
    InputError
        If a default prompt is put before queries, the logit goes through a function other than the
        sigmoid, or `refuse_unknown_modules` refuses a module.
    """
    refuse_unknown_modules(folder)
    uses, prompts = declared_prompts(folder) if read_modules(folder) else ({}, {})
    name = uses.get("default_prompt_name")
    if isinstance(name, str) and prompts.get(name):
        raise InputError(
            f"{folder / USES}: default_prompt_name {shown(name)} puts {shown(prompts[name])} "
            "before each query, which is not supported for rerankers; to read queries without it, "
            "remove the key in a copy of the checkpoint"
        )
    path = transformer_folder(folder) / "config.json"
    config = read_json_object(path)
    own = config.get("sentence_transformers")
    declared = {
        f"{folder / USES}: activation_fn": uses.get("activation_fn"),
        f"{path}: sentence_transformers.activation_fn": (own or {}).get("activation_fn"),
        f"{path}: {OLD_ACTIVATION}": config.get(OLD_ACTIVATION),
    }
    where, function = next(((key, name) for key, name in declared.items() if name), ("", None))
    if function and function not in ACTIVATIONS:
        raise InputError(
            f"{where} is {shown(function)}; supported: {', '.join(ACTIVATIONS)}, because the "
            "score is the sigmoid of the model's output"
        )


def refuse_for_port(folder: Path) -> None:
    """Raise InputError for settings of a transformer module that a port would ignore.

    Ignored settings of its network are only logged: the port's architecture decides what it
    computes.
    """
    path, config = transformer_config(folder)
    for key in ("do_lower_case", "processor_kwargs", "processing_kwargs", "query_expansion"):
        value = config.get(key)
        if key == "processor_kwargs" and isinstance(value, dict):  # compared, or the entry's
            names = value.keys() - {"model_max_length", "trust_remote_code"}
            value = {name: value[name] for name in names}
        if value:
            raise InputError(
                f"{path}: {key} {shown(value)} is not supported with `architecture` in the "
                "model's entry"
            )
    for key in ("model_kwargs", "config_kwargs"):
        if config.get(key):
            logger.warning("%s: `architecture` ignores %s %s", path, key, config[key])
