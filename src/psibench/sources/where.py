"""Which records of a source are read: conditions on their columns."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from psibench.config.sources import Condition
from psibench.errors import InputError

logger = logging.getLogger("psibench")

N_VALUES = 5
"""So many different values of a column are named where no record is left."""
Row = TypeVar("Row", bound=tuple[Any, ...])


def keep_records(
    rows: Iterable[Row], conditions: Sequence[Condition], *, place: str
) -> Iterator[Row]:
    """Yield the rows (origin, record, ...) whose record meets all conditions; a null meets none.

    How many were left out is logged at the end; ``place`` names the source in messages.

    Raises InputError if a record lacks a column, or holds what cannot be compared; if none is kept,
    naming values that were found instead.
    """
    if not conditions:
        yield from rows
        return
    n_read = n_left_out = 0
    seen: dict[str, dict[str, None]] = {}
    for row in rows:
        n_read += 1
        for condition in conditions:
            value = column_value(row[1], condition.column, origin=row[0])
            if not meets(value, condition, origin=row[0]):
                n_left_out += 1
                own = seen.setdefault(condition.column, {})
                if len(own) < N_VALUES:
                    own[repr(value)] = None
                break
        else:
            yield row
    if n_read and n_left_out == n_read:
        values = (f"{column}: {', '.join(found)}" for column, found in seen.items())
        raise InputError(
            f"{place}: `where` left out all {n_read} records. Among the values found: "
            f"{'; '.join(values)}. Change the conditions."
        )
    logger.info("%s: `where` left out %d of %d records", place, n_left_out, n_read)


def column_value(record: Mapping[str, Any], column: str, *, origin: str) -> Any:
    """Return what stands in a column; ``a.b`` is column b inside column a, null if a is.

    Raises InputError if there is no such column.
    """
    if column in record:
        return record[column]
    value: Any = record
    for name in column.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping) or name not in value:
            raise InputError(
                f"{origin}: no column {column!r}; found {', '.join(_columns(record)) or 'none'}. "
                "Mend `where`."
            )
        value = value[name]
    return value


def meets(value: Any, condition: Condition, *, origin: str) -> bool:
    """Say whether a value meets a condition; a null does not.

    Text, numbers and truth values are compared within their kind: ``1``, ``"1"`` and ``true`` are
    three values.

    Raises InputError if the value is of another kind, or is to be compared with a border and is no
    number.
    """
    if value is None:
        return False
    if not isinstance(value, str | int | float):
        raise InputError(
            f"{origin}: column {condition.column!r} is {type(value).__name__}; `where` compares "
            "text, numbers and true or false"
        )
    if condition.equals is not None:
        return _same(value, condition.equals)
    if condition.any_of is not None:
        return any(_same(value, allowed) for allowed in condition.any_of)
    if isinstance(value, str | bool):
        raise InputError(
            f"{origin}: column {condition.column!r} is {value!r}; at_least and at_most compare "
            "numbers"
        )
    above = condition.at_least is None or value >= condition.at_least
    return above and (condition.at_most is None or value <= condition.at_most)


def _same(value: object, wanted: object) -> bool:
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _columns(record: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _columns(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
