"""How long a checkpoint's input may be, by its config.json alone: before a model is loaded."""

from pathlib import Path
from typing import Any

from psibench.config.encoders import ColbertModel, FlagEmbeddingModel, SentenceTransformerModel
from psibench.config.model_base import ModelBase
from psibench.errors import InputError
from psibench.models.checkpoints import local_folder
from psibench.models.hub import read_json
from psibench.models.module_list import read_layout

Entry = SentenceTransformerModel | ColbertModel | FlagEmbeddingModel
"""Backends whose jobs refuse more tokens than positions."""

ROBERTA_KIND = frozenset(
    ("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer",
     "data2vec-text", "mpnet", "xmod")
)  # fmt: skip
"""Model types that number positions from pad_token_id + 1 on: see `backbones.first_position`."""
USUAL_PADDING = 1
"""Their pad_token_id where config.json has none."""


def refuse_beyond_positions(entry: ModelBase) -> None:
    """Refuse lengths of an entry beyond what its checkpoint's config.json declares.

    Only of a checkpoint that is a folder here and a transformer whose class is not chosen by the
    entry: of any other the job that loads it says so, which asks the network itself
    (`backbones.usable_positions`).

    Raises
    ------
    InputError
        If one is more than the checkpoint's positions.
    """
    if not isinstance(entry, Entry):
        return
    positions = declared_positions(entry)
    refuse_more(positions, entry.checkpoint, "max_tokens", entry.max_tokens)
    if isinstance(entry, ColbertModel) and entry.query_tokens is not None:
        refuse_more(positions, entry.checkpoint, "query_tokens", entry.query_tokens)


def refuse_more(positions: int | None, checkpoint: str, key: str, tokens: int) -> None:
    """Refuse a length that is more than a transformer's positions; None is no limit.

    Parameters
    ----------
    key
        Key of the entry that has this number of tokens.

    Raises
    ------
    InputError
        Naming both.
    """
    if positions is not None and tokens > positions:
        raise InputError(
            f"checkpoint {checkpoint!r}: {key} {tokens} is more than its {positions} positions; "
            f"lower {key}"
        )


def declared_positions(entry: Entry) -> int | None:
    """Return the longest input that config.json declares; None if it cannot be told from it.

    The same as `backbones.usable_positions` of the loaded network, where it is a number.
    """
    folder = local_folder(entry.checkpoint)
    if (
        folder is None
        or entry.trust_remote_code
        or getattr(entry, "architecture", "auto") != "auto"
    ):
        return None
    try:
        config = _transformer_config(entry, folder)
        declared = config.get("max_position_embeddings")
        if config.get("is_encoder_decoder") or not isinstance(declared, int):
            return None
        return declared - _first_position(config)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None  # a damaged file: the job that loads it says what is wrong


def _transformer_config(entry: Entry, folder: Path) -> dict[str, Any]:
    """Read the config.json of a checkpoint's transformer; empty where modules hide it."""
    if not isinstance(entry, SentenceTransformerModel):
        return read_json(folder / "config.json")
    layout = read_layout(folder)
    return {} if layout is None else read_json(folder / layout.transformer / "config.json")


def _first_position(config: dict[str, Any]) -> int:
    if config.get("model_type") not in ROBERTA_KIND:
        return 0
    padding = config.get("pad_token_id", USUAL_PADDING)
    return 0 if padding is None else int(padding) + 1
