"""Checks that all sources share."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from psibench.errors import InputError
from psibench.reading import utf8


def require_text(value: object, field: str, *, origin: str) -> str:
    """Return a record's value if it is a text that UTF-8 can encode.

    Raises InputError if it is not a string, or contains half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise InputError(
            f"{origin}: field {field!r} is {'null' if value is None else type(value).__name__}, "
            "expected text"
        )
    return utf8(value, where=origin, column=field)


def require_id(value: object, field: str, *, origin: str) -> str:
    """Return a record's id as text; raise InputError unless it is a text or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return require_text(value, field, origin=origin)


def refuse_repeated(frame: pl.DataFrame, *, where: str) -> None:
    """Raise InputError if a non-null ``_id`` occurs twice; the message names the first."""
    ids = pl.col("_id")
    repeated = frame.filter(ids.is_not_null()).filter(ids.is_duplicated())
    if repeated.is_empty():
        return
    first = repeated["_id"][0]
    origins = repeated.filter(ids == first)["origin"].to_list()
    raise InputError(
        f"{where}: id {first!r} occurs {len(origins)} times ({'; '.join(origins[:3])}); "
        f"{repeated['_id'].n_unique()} ids are repeated. Ids must be unique."
    )


def require_columns(record: Mapping[str, Any], columns: Sequence[str], origin: str) -> None:
    """Raise InputError unless a record has all of these columns."""
    missing = [column for column in columns if column not in record]
    if missing:
        raise InputError(
            f"{origin}: missing column {', '.join(missing)}; found {', '.join(record)}"
        )
