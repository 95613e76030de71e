"""Files of a late-interaction checkpoint: its transformer, its tokenizer, what it declares."""

import logging
from pathlib import Path
from typing import Any

from psibench.config.encoders import ColbertModel, FlagEmbeddingModel
from psibench.models.backbones import quiet, usable_positions
from psibench.models.hub import read_json
from psibench.models.positions import refuse_more
from psibench.models.weights import check_network, check_tokenizer

logger = logging.getLogger("psibench")

Entry = ColbertModel | FlagEmbeddingModel

# Key of the checkpoint's declaration -> key of the entry.
STANFORD = {
    "query_token_id": "query_marker",
    "doc_token_id": "document_marker",
    "query_maxlen": "query_tokens",
    "attend_to_mask_tokens": "attend_to_expansion",
    "mask_punctuation": "skip_punctuation",
}
PYLATE = {
    "query_prefix": "query_marker",
    "document_prefix": "document_marker",
    "query_length": "query_tokens",
    "attend_to_expansion_tokens": "attend_to_expansion",
    "do_query_expansion": "expand_queries",
}


def weights_format(device: str, dtype: str) -> str:
    """Choose the number format of a transformer's weights.

    On a CPU float32, so that another format can be computed in later; on a GPU the one asked for.
    """
    return dtype if device == "cuda" else "float32"


def attention_of(entry: Entry) -> str:
    """Return the implementation of attention: sdpa for auto."""
    return "sdpa" if entry.attention == "auto" else entry.attention


def load_late_backbone(entry: Entry, folder: Path, dtype: str) -> Any:
    """Load a checkpoint's transformer on the CPU, its weights in the number format given.

    Raises
    ------
    InputError
        If weights of it are missing, which transformers would fill in at random, or left over.
    """
    from transformers import AutoModel

    with quiet():
        model, found = AutoModel.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation=attention_of(entry),
            trust_remote_code=entry.trust_remote_code,
            output_loading_info=True,
        )
    check_network(folder, model, found)
    return model


def load_late_tokenizer(entry: Entry, folder: Path) -> Any:
    """Load a checkpoint's tokenizer.

    Where the entry names an architecture, tokenizer.json is taken as it is: the config names code
    of the checkpoint.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_tokenizer(folder)
    if getattr(entry, "architecture", "auto") != "auto":
        return PreTrainedTokenizerFast.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=entry.trust_remote_code)


def refuse_too_long(entry: Entry, model: Any, keys: tuple[str, ...]) -> None:
    """Refuse lengths that a transformer has no positions for.

    Parameters
    ----------
    keys
        Keys of the entry that are numbers of tokens.

    Raises
    ------
    InputError
        If one is more than the transformer's positions.
    """
    positions = usable_positions(model)
    for key in keys:
        refuse_more(positions, entry.checkpoint, key, getattr(entry, key))


def warn_of_other_settings(entry: ColbertModel, folder: Path) -> None:
    """Warn where an entry reads a checkpoint otherwise than the checkpoint declares."""
    for name, keys in (
        ("artifact.metadata", STANFORD),
        ("config_sentence_transformers.json", PYLATE),
    ):
        declared = read_json(folder / name)
        for theirs, ours in keys.items():
            value, chosen = declared.get(theirs), getattr(entry, ours)
            if value is not None and value != chosen:
                logger.warning(
                    "checkpoint %r: %s says %s %r, the entry %s %r: the entry's is used",
                    entry.checkpoint, name, theirs, value, ours, chosen,
                )  # fmt: skip
