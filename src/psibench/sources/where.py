"""Which records of a source are read: conditions on their columns."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psibench.config.sources import Condition
from psibench.errors import InputError

logger = logging.getLogger("psibench")

LEFT_OUT = "%s: `where` left out %d of %d records"
N_VALUES = 5
"""So many different values of a column are named where no record is left."""


class RecordFilter:
    """The conditions of one source, all of which a record has to meet.

    Attributes
    ----------
    n_read, n_left_out
        Records looked at so far, and those of them that do not meet the conditions.
    """

    def __init__(self, conditions: Sequence[Condition], *, place: str) -> None:
        """Keep every record if there is no condition; ``place`` names the source in messages."""
        self.conditions = tuple(conditions)
        self.place = place
        self.n_read = 0
        self.n_left_out = 0
        self._seen: dict[str, dict[str, None]] = {}

    def keeps(self, record: Mapping[str, Any], *, origin: str) -> bool:
        """Say whether a record meets all conditions; a null meets none.

        Raises
        ------
        InputError
            If the record lacks a column, or holds what cannot be compared.
        """
        self.n_read += 1
        for condition in self.conditions:
            value = column_value(record, condition.column, origin=origin)
            if not meets(value, condition, origin=origin):
                self.n_left_out += 1
                seen = self._seen.setdefault(condition.column, {})
                if len(seen) < N_VALUES:
                    seen[repr(value)] = None
                return False
        return True

    def finish(self) -> None:
        """Log how many records were left out, once all are read; nothing without conditions.

        Raises
        ------
        InputError
            If no record was kept, naming values that were found instead.
        """
        if not self.conditions:
            return
        if self.n_read and self.n_left_out == self.n_read:
            values = (f"{column}: {', '.join(seen)}" for column, seen in self._seen.items())
            raise InputError(
                f"{self.place}: `where` left out all {self.n_read} records. Among the values "
                f"found: {'; '.join(values)}. Change the conditions."
            )
        logger.info(LEFT_OUT, self.place, self.n_left_out, self.n_read)


def column_value(record: Mapping[str, Any], column: str, *, origin: str) -> Any:
    """Return what stands in a column; ``a.b`` is column b inside column a, null if a is.

    Raises
    ------
    InputError
        If there is no such column.
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

    Raises
    ------
    InputError
        If the value is of another kind, or is to be compared with a border and is no number.
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
