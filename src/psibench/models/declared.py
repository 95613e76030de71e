"""What a checkpoint's own files say of its use, and where a registry entry says otherwise.

Read are sentence-transformers' files (modules.json, config_sentence_transformers.json,
sentence_bert_config.json, the pooling's config.json) and the tokenizer's. What they leave open is
not compared. An entry may depart on purpose, as papers do: `psibench models --check` tells by its
exit code, loading by a warning, and the entry's is used.
"""

import logging
from collections.abc import Iterator
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
    read_json,
    read_modules,
    refuse_code_of_elsewhere,
    transformer_folder,
)
from psibench.models.library_keys import transformer_config
from psibench.reading import shown

logger = logging.getLogger("psibench")

TEXT_INPUT = {"method": "forward", "method_output_name": "last_hidden_state"}

Compared = SentenceTransformerModel | FlagEmbeddingModel
"""Backends that use a checkpoint as its maker meant it."""

ROLE_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names of prompts that sentence-transformers takes for a role; the first there is."""
POSITIONS = "max_position_embeddings"
UNLIMITED = 10**9
"""Tokens; tokenizers without a limit of their own write a number far beyond."""


def declared_number(
    path: Path, key: str, *, unit: str = "tokens", of: str | None = None
) -> float | None:
    """Return a number of tokens, say, that a JSON file has under a key; None if it has none.

    With ``of``, the key is in the object under that one. Raises InputError if it has anything else
    there.
    """
    config = read_json(path)
    found = config.get(key) if of is None else (config.get(of) or {}).get(key)
    if found is None:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not (is_number and 1 <= found < inf):
        raise InputError(f"{path}: {key} is {shown(found)}, expected a number of {unit} from 1 on")
    number: float = found
    return number


def declared_pooling(folder: Path) -> str:
    """Read what a checkpoint pools token states by, results of several modes joined by a plus.

    In sentence-transformers' words. Without modules.json it is what that library makes of a plain
    transformer: the mean, or the last token of a causal language model. Empty if its modules do not
    pool, or several do.
    """
    modules = read_modules(folder)
    if not modules:
        config = read_json(folder / "config.json")
        is_decoder = (config.get("architectures") or [""])[0].endswith("ForCausalLM")
        return "lasttoken" if is_decoder and config.get("is_causal", True) else "mean"
    paths = [m["path"] for m in modules if m["type"].rpartition(".")[2] == "Pooling"]
    if len(paths) != 1:
        return ""
    from sentence_transformers.sentence_transformer.modules import Pooling

    modes = Pooling.load_config(str(folder), subfolder=paths[0]).get("pooling_mode", "mean")
    return modes if isinstance(modes, str) else "+".join(modes)


class Comparison(NamedTuple):
    """One setting of an entry, beside what a file of its checkpoint says."""

    key: str
    """Of the entry."""
    given: Any
    declared: Any
    source: str
    """File that declares it."""
    agrees: bool

    def __str__(self) -> str:
        return f"{self.key}: the entry has {self.given!r}, {self.source} {self.declared!r}"


def compare_with_checkpoint(entry: ModelBase, folder: Path) -> list[Comparison]:
    """Compare an entry with what the checkpoint's files declare.

    Parameters
    ----------
    folder
        The checkpoint's; its weights are not read.

    Returns
    -------
    list
        Every setting that both decide: prompts, pooling, the token at the end, the longest input,
        the dimensions, the similarity.

    Raises
    ------
    InputError
        If a file is damaged, or the checkpoint's code is elsewhere.
    """
    if not isinstance(entry, Compared):
        return []
    refuse_code_of_elsewhere(entry, folder)
    try:
        entry = with_declared_prompts(entry, folder)
        parts = (_prompts, _pooling, _ending, _length, _dimensions, _similarity)
        return [comparison for part in parts for comparison in part(entry, folder)]
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(
            f"{folder}: one of its JSON files is damaged, so that the entry cannot be compared "
            f"with it ({type(error).__name__}: {error})"
        ) from error


def warn_of_departures(entry: EncoderModel, folder: Path) -> None:
    """Log where an entry departs from its checkpoint."""
    try:
        found = compare_with_checkpoint(entry, folder)
    except InputError as error:
        logger.warning("%s", error)
        return
    for comparison in found:
        if not comparison.agrees:
            logger.warning("checkpoint %r: %s: the entry's is used", entry.checkpoint, comparison)


def with_declared_prompts(entry: EncoderModel, folder: Path) -> EncoderModel:
    """Return an entry whose null prompts are those that its checkpoint declares for the roles.

    Prompts that are named by task are not chosen from; other backends read them themselves.
    """
    if not isinstance(entry, Compared | StaticModel):
        return entry
    uses, prompts = _uses(folder)
    found = {f"{role}_prompt": _prompt_of(role, uses, prompts) or "" for role in ROLE_NAMES}
    open_ones = {key: text for key, text in found.items() if getattr(entry, key) is None}
    return entry.model_copy(update=open_ones)


def _uses(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what `USES` has, and its prompts; nothing where sentence-transformers ignores it.

    That is a checkpoint without modules.json, or one of another class (sparse, late interaction).
    """
    uses, prompts = declared_prompts(folder)
    is_read = bool(read_modules(folder)) and is_dense(uses)
    return (uses, prompts) if is_read else ({}, {})


def is_dense(uses: dict[str, Any]) -> bool:
    """Say whether a checkpoint's modules are for SentenceTransformer, by what `USES` has."""
    return bool(uses.get("model_type", "SentenceTransformer") == "SentenceTransformer")


def _prompt_of(role: str, uses: dict[str, Any], prompts: dict[str, str]) -> str | None:
    names = (*ROLE_NAMES[role], uses.get("default_prompt_name"))
    return next((prompts[name] for name in names if name in prompts), None)


def _prompts(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare prompts; empty ones alone declare nothing, since the library writes them itself."""
    uses, prompts = _uses(folder)
    if not any(prompts.values()):
        return
    for role in ROLE_NAMES:
        key, declared = f"{role}_prompt", _prompt_of(role, uses, prompts)
        given = getattr(entry, key)
        if declared is not None:
            yield Comparison(key, given, declared, USES, given == declared)
        elif role == "query":  # named by task: one of them
            yield Comparison(key, given, prompts, USES, given in prompts.values())


def _pooling(entry: Any, folder: Path) -> Iterator[Comparison]:
    given = _pooling_of(entry)
    if given is None or not read_modules(folder) or not (declared := declared_pooling(folder)):
        return
    source = next(m["path"] for m in read_modules(folder) if m["type"].endswith("Pooling"))
    agrees = given in ("checkpoint", declared)
    yield Comparison("pooling", given, declared, f"{source}/config.json", agrees)


def _pooling_of(entry: Any) -> str | None:
    """Return how an entry pools tokens; None if it does not, or leaves it to another library."""
    is_pooled = isinstance(entry, SentenceTransformerModel) and entry.scoring == "cosine"
    return entry.pooling if is_pooled else None


def _ending(entry: Any, folder: Path) -> Iterator[Comparison]:
    """See that a text ends with a token, where the checkpoint adds it or pools it."""
    given = getattr(entry, "append", None)
    if given is None:
        return
    source = "tokenizer_config.json"
    config = read_json(transformer_folder(folder) / source)
    pooled = _pooling_of(entry)
    if pooled in (None, "checkpoint"):
        pooled = declared_pooling(folder)
    if not config.get("add_eos_token") and pooled != "lasttoken":
        return
    last = config.get("eos_token") or config.get("pad_token")
    declared = last.get("content") if isinstance(last, dict) else last
    yield Comparison("append", given, declared, source, bool(given or _is_ended(entry, folder)))


def _is_ended(entry: Any, folder: Path) -> bool:
    """Say whether the tokenizer puts a token behind a text itself."""
    from psibench.models.tokenizing import load_tokenizer

    tokenizer = load_tokenizer(
        transformer_folder(folder),
        trust_remote_code=entry.trust_remote_code,
        as_stored=getattr(entry, "architecture", "auto") != "auto",
    )
    whole, bare = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False)
    )
    return bool(whole[-len(bare) :] != bare)


def declared_length(entry: Any, folder: Path) -> int | None:
    """Return the longest input that a checkpoint's files name; None if they name none.

    It is what sentence-transformers cuts at unless told otherwise: its own file's max_seq_length,
    else the lesser of the tokenizer's and the network's.
    """
    return min((int(one.declared) for one in _length(entry, folder)), default=None)


def _length(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the longest input: another than that of its training, or longer than it can be.

    RoBERTa's kind has two positions fewer than its config.json says: the job that loads it knows.
    """
    given, place = entry.max_tokens, transformer_folder(folder)
    path, _ = transformer_config(folder)
    of_processor = (
        declared_number(path, "model_max_length", of=name)
        for name in ("tokenizer_args", "processor_kwargs")  # the old name wins
    )
    declared = next((found for found in of_processor if found is not None), None)
    declared = declared or declared_number(path, "max_seq_length")
    if declared is not None:
        chosen = entry.control == "truncating" or getattr(entry, "windows", None) is not None
        fits = given <= declared if chosen else given == declared
        yield Comparison("max_tokens", given, declared, path.name, fits)
        return
    limits = (("tokenizer_config.json", "model_max_length"), ("config.json", POSITIONS))
    for source, key in limits:
        limit = declared_number(place / source, key)
        if limit is not None and limit < UNLIMITED:
            yield Comparison("max_tokens", given, limit, source, given <= limit)


def kept_dimensions(entry: Any, folder: Path) -> int | None:
    """Return how many of a vector's dimensions are kept: as the entry says, else its checkpoint.

    None: all of them.
    """
    if not isinstance(entry, SentenceTransformerModel) or entry.scoring != "cosine":
        return None
    return entry.dimensions or _declared_dimensions(folder)


def _declared_dimensions(folder: Path) -> int | None:
    if not _uses(folder)[0]:
        return None
    found = declared_number(folder / USES, "truncate_dim", unit="dimensions")
    return None if found is None else int(found)


def _dimensions(entry: Any, folder: Path) -> Iterator[Comparison]:
    kept, declared = kept_dimensions(entry, folder), _declared_dimensions(folder)
    if kept is not None and declared is not None:
        yield Comparison("dimensions", kept, declared, USES, kept == declared)


def network_dimensions(folder: Path) -> int | None:
    """Return the dimensions of a vector that a checkpoint's files describe; None if they do not.

    Those of its last dense layer, else those of its pooling.
    """
    for module in reversed(read_modules(folder)):
        config = read_json(folder / module["path"] / "config.json")
        match module["type"].rpartition(".")[2]:
            case "Dense":
                return config.get("out_features")
            case "Pooling":
                width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
                modes = declared_pooling(folder).split("+")
                return width * len(modes) if isinstance(width, int) else None
    return read_json(transformer_folder(folder) / "config.json").get("hidden_size")


def _similarity(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the similarity; products and distances of unit vectors rank as cosines do.

    Vectors that were cut are not of unit length.
    """
    declared = _uses(folder)[0].get("similarity_fn_name")
    if declared is None or not isinstance(entry, SentenceTransformerModel):
        return
    modules = read_modules(folder)
    is_unit = bool(modules) and modules[-1]["type"].endswith("Normalize")
    is_unit = is_unit and kept_dimensions(entry, folder) is None
    same = {"cosine", "dot", "euclidean"} if is_unit else {"cosine"}
    agrees = str(declared) in (same if entry.scoring == "cosine" else {entry.scoring})
    yield Comparison("scoring", entry.scoring, declared, USES, agrees)
