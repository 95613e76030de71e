"""What a checkpoint's own files say of its use, and where a registry entry says otherwise.

Read are sentence-transformers' files (modules.json, config_sentence_transformers.json,
sentence_bert_config.json, the pooling's config.json), those of Stanford's and PyLate's ColBERT, and
the tokenizer's. What they leave open is not compared. An entry may depart on purpose, as papers do:
`psibench models --check` tells by its exit code, loading by a warning, and the entry's is used.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from psibench.config.encoders import (
    ColbertModel,
    FlagEmbeddingModel,
    SentenceTransformerModel,
    VllmModel,
)
from psibench.config.model_base import ModelBase
from psibench.errors import InputError
from psibench.models.hub import read_json
from psibench.models.module_list import read_layout
from psibench.models.positions import declared_positions

logger = logging.getLogger("psibench")

Compared = SentenceTransformerModel | FlagEmbeddingModel | ColbertModel | VllmModel
"""Backends that use a checkpoint as its maker meant it."""

USES = "config_sentence_transformers.json"
ROLE_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names of prompts that sentence-transformers takes for a role; the first there is."""
UNLIMITED = 10**9
"""Tokens; tokenizers without a limit of their own write a number far beyond."""
STANFORD_KEYS = {
    "query_token_id": "query_marker",
    "doc_token_id": "document_marker",
    "query_maxlen": "query_tokens",
    "doc_maxlen": "max_tokens",
    "attend_to_mask_tokens": "attend_to_expansion",
    "mask_punctuation": "skip_punctuation",
}
"""Keys of artifact.metadata, and the entry's."""
PYLATE_KEYS = {
    "query_prefix": "query_marker",
    "document_prefix": "document_marker",
    "query_length": "query_tokens",
    "document_length": "max_tokens",
    "do_query_expansion": "expand_queries",
    "attend_to_expansion_tokens": "attend_to_expansion",
}
"""Keys of PyLate's config_sentence_transformers.json, and the entry's."""


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
        the similarity, and what a late-interaction checkpoint says of queries and documents.

    Raises
    ------
    InputError
        If a file is damaged.
    """
    if not isinstance(entry, Compared):
        return []
    try:
        if isinstance(entry, ColbertModel):
            return [*_late(entry, folder), *_length(entry, folder), *_similarity(entry, folder)]
        parts = (_prompts, _pooling, _ending, _length, _similarity)
        return [comparison for part in parts for comparison in part(entry, folder)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(
            f"{folder}: one of its JSON files is damaged, so that the entry cannot be compared "
            f"with it ({type(error).__name__}: {error})"
        ) from error


def warn_of_departures(entry: ModelBase, checkpoint: str, folder: Path) -> None:
    """Log where an entry departs from its checkpoint."""
    try:
        found = compare_with_checkpoint(entry, folder)
    except InputError as error:
        logger.warning("%s", error)
        return
    for comparison in found:
        if not comparison.agrees:
            logger.warning("checkpoint %r: %s: the entry's is used", checkpoint, comparison)


def late_settings(folder: Path) -> dict[str, tuple[Any, str]]:
    """Read what a ColBERT checkpoint declares, by the entry's keys, each with its file."""
    found: dict[str, tuple[Any, str]] = {}
    for name, keys in (("artifact.metadata", STANFORD_KEYS), (USES, PYLATE_KEYS)):
        declared = read_json(folder / name)
        found |= {ours: (declared[key], name) for key, ours in keys.items() if key in declared}
        if "skiplist_words" in declared:
            found["skip_punctuation"] = (bool(declared["skiplist_words"]), name)
    name = "sentence_bert_config.json"
    own = read_json(folder / name)
    expansion = own.get("query_expansion") or {}
    native = {
        "query_tokens": expansion.get("length", own.get("query_length")),
        "max_tokens": own.get("document_length"),
        "expand_queries": bool(expansion) if "query_expansion" in own else None,
        "attend_to_expansion": expansion.get("attend"),
    }
    found |= {key: (value, name) for key, value in native.items() if value is not None}
    return {key: pair for key, pair in found.items() if pair[0] is not None}


def _late(entry: ColbertModel, folder: Path) -> Iterator[Comparison]:
    """Compare what the entry sets of queries and documents; what is null is as declared."""
    for key, (declared, source) in late_settings(folder).items():
        given = getattr(entry, key)
        if given is not None and key != "max_tokens":
            same = str(given).strip() == str(declared).strip()
            yield Comparison(key, given, declared, source, same)


def _prompts(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare prompts; empty ones alone declare nothing, since the library writes them itself."""
    uses = read_json(folder / USES)
    prompts = {name: text or "" for name, text in (uses.get("prompts") or {}).items()}
    if not any(prompts.values()):
        return
    for role, names in ROLE_NAMES.items():
        given = getattr(entry, f"{role}_prompt")
        name = next((n for n in (*names, uses.get("default_prompt_name")) if n in prompts), None)
        if name is not None:
            declared: Any = prompts[name]
            yield Comparison(f"{role}_prompt", given, declared, USES, given == declared)
        elif role == "query":  # named by task: one of them
            yield Comparison(f"{role}_prompt", given, prompts, USES, given in prompts.values())


def _pooling(entry: Any, folder: Path) -> Iterator[Comparison]:
    layout = read_layout(folder)
    given = _pooling_of(entry)
    if given is None or layout is None or not (folder / "modules.json").is_file():
        return
    declared = "+".join(layout.pooling)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    source = next(m["path"] for m in modules if m["type"].endswith("Pooling")) + "/config.json"
    yield Comparison("pooling", given, declared, source, given in ("checkpoint", declared))


def _pooling_of(entry: Any) -> str | None:
    """Return how an entry pools tokens; None if it does not, or leaves it to another library."""
    if isinstance(entry, FlagEmbeddingModel):
        return "cls" if entry.vectors == "dense" else None
    is_pooled = isinstance(entry, SentenceTransformerModel) and entry.scoring == "cosine"
    return entry.pooling if is_pooled else None


def _ending(entry: Any, folder: Path) -> Iterator[Comparison]:
    """See that a text ends with a token, where the checkpoint adds it or pools it."""
    given = getattr(entry, "append", None)
    if given is None:
        return
    source = "tokenizer_config.json"
    config = read_json(folder / source)
    layout = read_layout(folder)
    pooled = _pooling_of(entry)
    if pooled in (None, "checkpoint"):
        pooled = "+".join(layout.pooling) if layout else None
    if not config.get("add_eos_token") and pooled != "lasttoken":
        return
    last = config.get("eos_token") or config.get("pad_token")
    declared = last.get("content") if isinstance(last, dict) else last
    yield Comparison("append", given, declared, source, bool(given or _is_ended(entry, folder)))


def _is_ended(entry: Any, folder: Path) -> bool:
    """Say whether the tokenizer puts a token behind a text itself."""
    from transformers import AutoTokenizer

    from psibench.models.networks import load_tokenizer

    native = isinstance(entry, SentenceTransformerModel)
    tokenizer = load_tokenizer(entry, folder) if native else AutoTokenizer.from_pretrained(folder)
    whole, bare = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False)
    )
    return bool(whole[-len(bare) :] != bare)


def _length(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the longest input: another than that of its training, or longer than it can be."""
    given = entry.max_tokens
    if isinstance(entry, ColbertModel):
        declared, source = late_settings(folder).get("max_tokens", (None, ""))
    else:
        layout = read_layout(folder)
        inner = folder / (layout.transformer if layout else "")
        path = next(iter(sorted(inner.glob("sentence_*_config.json"))), None)
        declared = read_json(path).get("max_seq_length") if path else None
        source = path.name if path else ""
    if declared is not None:
        chosen = entry.control == "truncating" or getattr(entry, "windows", None) is not None
        fits = given <= declared if chosen else given == declared
        yield Comparison("max_tokens", given, declared, source, fits)
        return
    limits = {
        "tokenizer_config.json": read_json(folder / "tokenizer_config.json").get(
            "model_max_length"
        ),
        "config.json": None if isinstance(entry, VllmModel) else declared_positions(entry),
    }
    for source, limit in limits.items():
        if limit is not None and limit < UNLIMITED:
            yield Comparison("max_tokens", given, limit, source, given <= limit)


def _similarity(entry: Any, folder: Path) -> Iterator[Comparison]:
    """Compare the similarity; products and distances of unit vectors rank as cosines do."""
    declared = read_json(folder / USES).get("similarity_fn_name")
    if declared is None:
        return
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    is_unit = bool(modules) and modules[-1]["type"].endswith("Normalize")
    same = {
        "cosine": {"cosine", *(("dot", "euclidean") if is_unit else ())},
        "maxsim": {"maxsim"},
        "mean-maxsim": {"meanmaxsim"},
    }
    agrees = declared.lower() in same[entry.scores_by]
    yield Comparison("similarity", entry.scores_by, declared, USES, agrees)
