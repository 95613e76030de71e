"""How long a checkpoint's input may be, by its config.json alone: before a model is loaded."""

from psibench.config.encoders import ColbertModel
from psibench.config.model_base import ModelBase
from psibench.errors import InputError
from psibench.models.declared import Positioned, declared_positions


def refuse_beyond_positions(entry: ModelBase) -> None:
    """Refuse lengths of an entry beyond what its checkpoint's config.json declares.

    Only of a checkpoint that is a folder here and a transformer whose class is not chosen by the
    entry: of any other the job that loads it says so, which asks the network itself
    (`networks.usable_positions`).

    Raises
    ------
    InputError
        If one is more than the checkpoint's positions.
    """
    if not isinstance(entry, Positioned):
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
