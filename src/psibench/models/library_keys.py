"""Keys that sentence-transformers reads in a checkpoint's files, and refusals of unsupported ones.

psibench tokenizes and batches texts itself and runs the library's modules on the states of its
transformer. Each key is followed (the library's code reads it), compared with the entry, or
refused; none is ignored silently. A test compares the tables with the library's source.
"""

import logging
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.models.checkpoints import (
    USES,
    declared_prompts,
    read_json,
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
"""Further keys of config_sentence_transformers.json that `CrossEncoder` reads. Of the other keys, a
default prompt is refused; prompts without a default have no effect, as in `predict`."""

NETWORK_KEYS = {
    "sentence_transformers": "its activation_fn, as above",
    "sbert_ce_default_activation_function": "as activation_fn",
}
"""Keys of a classifier's config.json that `CrossEncoder` reads besides transformers."""

TRANSFORMER_KEYS = {
    "max_seq_length": "compared",
    "do_lower_case": "followed",
    "model_kwargs": "followed, but for the number format, which is the entry's",
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
"""Of keys of sentence_bert_config.json; the library lets the old name win."""

TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""Names of the file with `TRANSFORMER_KEYS`; the library takes the first that is not empty."""

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
"""The library's modules that may come behind a transformer, with the keys of their configs, which
their own code reads. Others need more than token states (WordWeights, LSTM, WeightedLayerPooling),
depend on padding (CNN), or are of another kind of model."""


def transformer_config(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Read the config of a checkpoint's transformer module, under today's names of its keys.

    Also returns its path; the library's first choice, with nothing in it, if there is none.
    """
    place = transformer_folder(folder)
    for path in (place / name for name in TRANSFORMER_CONFIGS):
        if config := read_json(path):
            renamed = {new: config.pop(old) for old, new in OLD_NAMES.items() if old in config}
            return path, config | renamed
    return place / TRANSFORMER_CONFIGS[0], {}


def refuse_other_tokenizer(folder: Path) -> None:
    """Raise InputError if a checkpoint's tokenizer is elsewhere: nothing pins what is there."""
    path, config = transformer_config(folder)
    if (name := config.get("tokenizer_name_or_path")) is not None:
        raise InputError(
            f"{path}: tokenizer_name_or_path {shown(name)} is not supported; save that tokenizer "
            "in the checkpoint's folder and take the key out"
        )


def check_requirements(folder: Path) -> None:
    """Raise ImportError if a checkpoint needs other versions of packages than there are."""
    from sentence_transformers.util.environment import check_version_requirements

    check_version_requirements(read_json(folder / USES).get("requirements"), source=str(folder))


def refuse_unknown_modules(folder: Path) -> None:
    """Refuse modules behind a transformer whose output would not be the library's.

    Raises
    ------
    InputError
        If two have one name, one is told what a text is, or is none of `MODULES_BEHIND` though the
        library's.
    """
    path, modules = folder / "modules.json", read_modules(folder)
    names = [module.get("name") for module in modules]
    if len(set(names)) < len(names):
        raise InputError(f"{path}: the names of modules are {names}; expected one name each")
    for module in modules:
        if "task" in (module.get("kwargs") or ()):
            raise InputError(
                f"{path}: the module {module['type']} is told whether a text is a query or a "
                f"document (kwargs: {module['kwargs']}), which is not supported"
            )
    for module in modules[1:]:
        kind = module["type"].rpartition(".")[2]
        if module["type"].startswith("sentence_transformers.") and kind not in MODULES_BEHIND:
            raise InputError(
                f"{path}: the module {module['type']} behind the transformer is not supported; "
                f"supported: {', '.join(MODULES_BEHIND)}"
            )


def refuse_unread(first: Any, checkpoint: str, *, lengths: bool = True) -> None:
    """Refuse a transformer module that prepares texts in another way than psibench does.

    Parameters
    ----------
    lengths
        Refuse settings for queries or documents only, too.

    Raises
    ------
    InputError
        If texts get a chat template, the tokenizer further options, or one role its own length.
    """
    found: dict[str, Any] = {}
    if "message" in getattr(first, "modality_config", {}):
        found["modality_config"] = "message, texts in the tokenizer's chat template"
    given = getattr(first, "processing_kwargs", None) or {}
    if options := {key: given[key] for key in ("text", "common") if given.get(key)}:
        found["processing_kwargs"] = options
    for key in ("query_length", "document_length", "query_expansion") if lengths else ():
        if (value := getattr(first, key, None)) is not None:
            found[key] = value
    for key, value in found.items():
        raise InputError(
            f"checkpoint {checkpoint!r}: {TRANSFORMER_CONFIGS[0]} has {key} {shown(value)}, which "
            "is not supported: texts would be read otherwise than by sentence-transformers. Take "
            "the key out of a copy of the checkpoint if that is meant (max_tokens of the model's "
            "entry is its longest input)"
        )


OLD_ACTIVATION = "sbert_ce_default_activation_function"
ACTIVATIONS = (
    *("torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"),
    *("torch.nn.Identity", "torch.nn.Sigmoid"),
)
"""Functions of a logit after which its sigmoid orders texts and means the same."""


def refuse_other_classifier(folder: Path) -> None:
    """Refuse a classifier whose pairs are read, or whose logits are used, as psibench does not.

    psibench's score is the sigmoid of the logit of a query and a text.

    Raises
    ------
    InputError
        If a default prompt is put before queries, the logit goes through another function than the
        sigmoid, or, as `refuse_unknown_modules`, of the modules behind the transformer.
    """
    refuse_unknown_modules(folder)
    uses, prompts = declared_prompts(folder) if read_modules(folder) else ({}, {})
    name = uses.get("default_prompt_name")
    if isinstance(name, str) and prompts.get(name):
        raise InputError(
            f"{folder / USES}: default_prompt_name {shown(name)} puts {shown(prompts[name])} "
            "before each query, which is not supported for rerankers; take the key out of a copy "
            "of the checkpoint if queries are meant to be read without it"
        )
    path = transformer_folder(folder) / "config.json"
    config = read_json(path)
    own = config.get("sentence_transformers")
    declared = {
        f"{folder / USES}: activation_fn": uses.get("activation_fn"),
        f"{path}: sentence_transformers.activation_fn": (own or {}).get("activation_fn"),
        f"{path}: {OLD_ACTIVATION}": config.get(OLD_ACTIVATION),
    }
    where, function = next(((key, one) for key, one in declared.items() if one), ("", None))
    if function and function not in ACTIVATIONS:
        raise InputError(
            f"{where} is {shown(function)}; supported: {', '.join(ACTIVATIONS)}, as the score is "
            "the sigmoid of the model's output"
        )


def refuse_for_port(folder: Path) -> None:
    """Refuse settings of a transformer module that a port, which loads none, would leave out.

    Those of its network are logged: what the port computes is known by its architecture.

    Raises InputError.
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
            logger.warning("%s: %s %s is left out by `architecture`", path, key, config[key])
