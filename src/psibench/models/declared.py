"""Compare a registry entry with the settings that its checkpoint's files declare.

The files belong to sentence-transformers (modules.json, config_sentence_transformers.json,
sentence_bert_config.json, the pooling's config.json) and to the tokenizer. Settings that they leave
open are not compared. An entry may depart on purpose, as in papers: `psibench models --check`
reports it by its exit code, loading logs a warning, and the entry's setting is used.
"""

import logging
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from psibench.config.encoders import (
    FlagEmbeddingModel,
    SentenceTransformerModel,
    StaticModel,
)
from psibench.config.model_base import EncoderModel, ModelBase
from psibench.errors import InputError
from psibench.models.checkpoints import (
    USES,
    declared_prompts,
    is_static,
    read_json_object,
    read_modules,
    refuse_foreign_code,
    refuse_static,
    transformer_folder,
)
from psibench.models.library_keys import transformer_config
from psibench.reading import shown

logger = logging.getLogger("psibench")

TEXT_INPUT = {"method": "forward", "method_output_name": "last_hidden_state"}

Compared = SentenceTransformerModel | FlagEmbeddingModel | StaticModel
"""Backends whose entries are compared with checkpoints."""

ROLE_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Prompt names that sentence-transformers accepts for a role; the first that exists is used."""
POSITIONS_KEY = "max_position_embeddings"
STATIC_TABLES = ("embedding.weight", "embeddings")
"""Names of the table of static embeddings: sentence-transformers', model2vec's."""
UNLIMITED = 10**9
"""Tokens; tokenizers without a limit store a number far above this."""


def declared_number(
    path: Path, key: str, *, unit: str = "tokens", of: str | None = None
) -> float | None:
    """Return a number from a JSON file; None if it does not have the key.

    With ``of``, the key is looked up in the object under that key. ``unit`` is for the message.

    Raises InputError if the value is no number from 1 on.
    """
    config = read_json_object(path)
    value = config.get(key) if of is None else (config.get(of) or {}).get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 1 <= value < inf):
        raise InputError(f"{path}: {key} is {shown(value)}, expected a number of {unit} from 1 on")
    number: float = value
    return number


def declared_pooling(folder: Path) -> str:
    """Return a checkpoint's pooling mode; several modes are joined by a plus.

    Modes have sentence-transformers' names. Without modules.json, the result is that library's
    default for a plain transformer: the mean, or the last token of a causal language model. The
    result is empty if no module pools, or several do.
    """
    modules = read_modules(folder)
    if not modules:
        config = read_json_object(folder / "config.json")
        is_decoder = (config.get("architectures") or [""])[0].endswith("ForCausalLM")
        return "lasttoken" if is_decoder and config.get("is_causal", True) else "mean"
    paths = [m["path"] for m in modules if m["type"].rpartition(".")[2] == "Pooling"]
    if len(paths) != 1:
        return ""
    config = read_json_object(folder / paths[0] / "config.json")
    keys = [key for key, value in config.items() if key.startswith("pooling_mode") and value]
    if keys == ["pooling_mode_mean_tokens"]:  # the usual case, without a long import
        return "mean"
    from sentence_transformers.sentence_transformer.modules import Pooling

    modes = Pooling.load_config(str(folder), subfolder=paths[0]).get("pooling_mode", "mean")
    return modes if isinstance(modes, str) else "+".join(modes)


class Comparison(NamedTuple):
    """One setting of an entry, and the value that a file of its checkpoint declares."""

    key: str
    """Key of the registry entry."""
    given: Any
    declared: Any
    source: str
    """File with the declared value."""
    agrees: bool

    def __str__(self) -> str:
        return f"{self.key}: the entry has {self.given!r}, {self.source} {self.declared!r}"


def compare_with_checkpoint(entry: ModelBase, folder: Path) -> list[Comparison]:
    """Compare an entry with the settings that the checkpoint's files declare.

    Parameters
    ----------
    folder
        Folder of the checkpoint; its weights are not read.

    Returns
    -------
    list
        Every setting that both decide: prompts, pooling, the token at the end, the longest input,
        the dimensions, the similarity.

    Raises
    ------
    InputError
        If a file is damaged, the checkpoint's code is in another repository, or it has static
        embeddings and the entry another backend.
    """
    if not isinstance(entry, Compared):
        return []
    refuse_foreign_code(entry, folder)
    refuse_static(entry, folder)
    try:
        entry = with_declared_prompts(entry, folder)
        checks: tuple[Callable[[Any, Path], Iterator[Comparison]], ...]
        checks = (_prompts, _pooling, _ending, _length, _dimensions, _similarity)
        if isinstance(entry, StaticModel):
            # The word embeddings of a transformer are not used as its authors intended.
            checks = (_prompts, _dimensions, _similarity) if is_static(folder) else ()
        return [comparison for check in checks for comparison in check(entry, folder)]
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(
            f"{folder}: a JSON file is damaged, so the entry cannot be compared with the "
            f"checkpoint ({type(error).__name__}: {error})"
        ) from error


def warn_of_departures(entry: EncoderModel, folder: Path) -> None:
    """Log each setting of an entry that differs from its checkpoint's."""
    try:
        comparisons = compare_with_checkpoint(entry, folder)
    except InputError as error:
        logger.warning("%s", error)
        return
    for comparison in comparisons:
        if not comparison.agrees:
            logger.warning(
                "checkpoint %r: %s; the entry's value is used", entry.checkpoint, comparison
            )


def with_declared_prompts(entry: EncoderModel, folder: Path) -> EncoderModel:
    """Return an entry with null prompts replaced by the checkpoint's prompts for the roles.

    Prompts named by task are not used. Encoders of other backends read their prompts themselves.
    """
    if not isinstance(entry, Compared):
        return entry
    uses, prompts = _uses(folder)
    declared = {f"{role}_prompt": _prompt_of(role, uses, prompts) or "" for role in ROLE_NAMES}
    unset = {key: text for key, text in declared.items() if getattr(entry, key) is None}
    return entry.model_copy(update=unset)


def _uses(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings in `USES` and its prompts; empty if sentence-transformers ignores it.

    It ignores the file in a checkpoint without modules.json, or of another class (sparse, late
    interaction).
    """
    uses, prompts = declared_prompts(folder)
    is_read = bool(read_modules(folder)) and is_dense(uses)
    return (uses, prompts) if is_read else ({}, {})


def is_dense(uses: dict[str, Any]) -> bool:
    """Return whether a checkpoint's modules are for SentenceTransformer, by the keys of `USES`."""
    return bool(uses.get("model_type", "SentenceTransformer") == "SentenceTransformer")


def _prompt_of(role: str, uses: dict[str, Any], prompts: dict[str, str]) -> str | None:
    names = (*ROLE_NAMES[role], uses.get("default_prompt_name"))
    return next((prompts[name] for name in names if name in prompts), None)


def _prompts(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare prompts; skip if all are empty, because the library writes empty ones itself."""
    uses, prompts = _uses(folder)
    if not any(prompts.values()):
        return
    for role in ROLE_NAMES:
        key, declared = f"{role}_prompt", _prompt_of(role, uses, prompts)
        given = getattr(entry, key)
        if declared is not None:
            yield Comparison(key, given, declared, USES, given == declared)
        elif role == "query":  # prompts named by task: the entry's must be one of them
            yield Comparison(key, given, prompts, USES, given in prompts.values())


def _pooling(entry: Any, folder: Path) -> Iterator[Comparison]:
    given = _pooling_of(entry)
    if given is None or not read_modules(folder) or not (declared := declared_pooling(folder)):
        return
    source = next(m["path"] for m in read_modules(folder) if m["type"].endswith("Pooling"))
    agrees = given in ("checkpoint", declared)
    yield Comparison("pooling", given, declared, f"{source}/config.json", agrees)


def _pooling_of(entry: Any) -> str | None:
    """Return how an entry pools tokens; None if it does not, or another library decides."""
    is_pooled = isinstance(entry, SentenceTransformerModel) and entry.scoring == "cosine"
    return entry.pooling if is_pooled else None


def _ending(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the token at a text's end, if the checkpoint adds it or pools it."""
    given = getattr(entry, "append", None)
    if given is None:
        return
    source = "tokenizer_config.json"
    config = read_json_object(transformer_folder(folder) / source)
    pooled = _pooling_of(entry)
    if pooled in (None, "checkpoint"):
        pooled = declared_pooling(folder)
    if not config.get("add_eos_token") and pooled != "lasttoken":
        return
    last = config.get("eos_token") or config.get("pad_token")
    declared = last.get("content") if isinstance(last, dict) else last
    yield Comparison("append", given, declared, source, bool(given or _is_ended(entry, folder)))


def _is_ended(entry: Any, folder: Path) -> bool:
    """Return whether the tokenizer itself adds a token after a text."""
    from psibench.models.tokenizing import load_checkpoint_tokenizer

    tokenizer = load_checkpoint_tokenizer(
        transformer_folder(folder),
        trust_remote_code=entry.trust_remote_code,
        as_stored=getattr(entry, "architecture", "auto") != "auto",
    )
    whole, bare = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False)
    )
    return bool(whole[-len(bare) :] != bare)


def declared_length(entry: Any, folder: Path) -> int | None:
    """Return the longest input in tokens that a checkpoint's files declare; None if none does.

    This is sentence-transformers' default: max_seq_length of its file, else the lesser of the
    tokenizer's and the network's limit.
    """
    return min((int(one.declared) for one in _length(entry, folder)), default=None)


def _length(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the longest input: it differs from training, or is more than the network takes.

    RoBERTa-like models have two positions fewer than config.json declares; loading checks that.
    """
    given = entry.max_tokens
    path, _ = transformer_config(folder)
    of_processor = (
        declared_number(path, "model_max_length", of=name)
        for name in ("tokenizer_args", "processor_kwargs")  # the old name wins
    )
    declared = next((number for number in of_processor if number is not None), None)
    declared = declared or declared_number(path, "max_seq_length")
    if declared is not None:
        chosen = entry.control == "truncating" or getattr(entry, "windows", None) is not None
        fits = given <= declared if chosen else given == declared
        yield Comparison("max_tokens", given, declared, path.name, fits)
        return
    limits = (("tokenizer_config.json", "model_max_length"), ("config.json", POSITIONS_KEY))
    for source, key in limits:
        limit = declared_number(transformer_folder(folder) / source, key)
        if limit is not None and limit < UNLIMITED:
            yield Comparison("max_tokens", given, limit, source, given <= limit)


def kept_dimensions(entry: Any, folder: Path) -> int | None:
    """Return to how many dimensions vectors are cut, by entry or checkpoint; None: uncut.

    The word embeddings of a transformer are not cut.
    """
    is_cut = isinstance(entry, SentenceTransformerModel) and entry.scoring == "cosine"
    if not is_cut and not (isinstance(entry, StaticModel) and is_static(folder)):
        return None
    return entry.dimensions or _declared_dimensions(folder)


def _declared_dimensions(folder: Path) -> int | None:
    if not _uses(folder)[0]:
        return None
    declared = declared_number(folder / USES, "truncate_dim", unit="dimensions")
    return None if declared is None else int(declared)


def _dimensions(entry: Any, folder: Path) -> Iterator[Comparison]:
    cut, declared = kept_dimensions(entry, folder), _declared_dimensions(folder)
    if cut is not None and declared is not None:
        yield Comparison("dimensions", cut, declared, USES, cut == declared)


def network_dimensions(folder: Path) -> int | None:
    """Return the dimensions of a checkpoint's vectors by its files; None if undeclared.

    The last Dense module decides, else the Pooling module, else the transformer's hidden size. For
    static embeddings, the width of their table decides, if the weights are in the folder.
    """
    for module in reversed(read_modules(folder)):
        config = read_json_object(folder / module["path"] / "config.json")
        match module["type"].rpartition(".")[2]:
            case "Dense":
                return config.get("out_features")
            case "Pooling":
                width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
                modes = declared_pooling(folder).split("+")
                return width * len(modes) if isinstance(width, int) else None
            case "StaticEmbedding":
                return _table_width(folder / module["path"])
    if is_static(folder):
        return _table_width(folder)
    return read_json_object(transformer_folder(folder) / "config.json").get("hidden_size")


def _table_width(folder: Path) -> int | None:
    from safetensors import safe_open

    if not (path := folder / "model.safetensors").is_file():
        return None
    with safe_open(path, framework="numpy") as file:
        tables = [name for name in STATIC_TABLES if name in file.keys()]  # noqa: SIM118
        return int(file.get_slice(tables[0]).get_shape()[1]) if tables else None


def _similarity(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the similarity; on unit vectors dot product and distance rank as the cosine does.

    Vectors that were cut are not of unit length.
    """
    declared = _uses(folder)[0].get("similarity_fn_name")
    if declared is None or not isinstance(entry, SentenceTransformerModel | StaticModel):
        return
    modules = read_modules(folder)
    is_unit = bool(modules) and modules[-1]["type"].endswith("Normalize")
    is_unit = is_unit and kept_dimensions(entry, folder) is None
    same = {"cosine", "dot", "euclidean"} if is_unit else {"cosine"}
    given = entry.scores_by
    agrees = str(declared) in (same if given == "cosine" else {given})
    yield Comparison("scoring", given, declared, USES, agrees)
