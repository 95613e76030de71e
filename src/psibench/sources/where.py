"""Which records of a source are read: conditions on their columns."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from psibench.config.sources import Condition
from psibench.errors import InputError

logger = logging.getLogger("psibench")

N_VALUES = 5
"""So many different values of a column are named where no record is left."""
Row = TypeVar("Row", bound=tuple[Any, ...])


@dataclass
class Chosen:
    """How many records of a source met its conditions, and what the others held.

    Counted file by file, and put together by `add`.
    """

    n_read: int = 0
    n_kept: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Values that met no condition, some of each column."""

    def keep(
        self,
        rows: Iterable[Row],
        conditions: Sequence[Condition],
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> Iterator[Row]:
        """Yield the rows (origin, record, ...) whose record meets all conditions.

        A null meets none. Of those that do, the ones from ``start`` up to ``stop`` are yielded and
        counted; no row is read after the last of them.

        Raises InputError if a record lacks a column, or holds what cannot be compared.
        """
        n_met = 0
        for row in rows:
            unmet = _first_unmet(row, conditions)
            if n_met >= start:
                self.n_read += 1
                if unmet is not None:
                    self._remember(*unmet)
            if unmet is not None:
                continue
            n_met += 1
            if n_met > start:
                self.n_kept += 1
                yield row
            if n_met == stop:
                return

    def add(self, other: "Chosen") -> None:
        """Count what was counted of another file."""
        self.n_read += other.n_read
        self.n_kept += other.n_kept
        for column, values in other.refused.items():
            for value in values:
                self._remember(column, value)

    def tell(self, place: str) -> None:
        """Log how many records were left out; ``place`` names the source.

        Raises InputError if none was kept, naming values that were found instead.
        """
        n_left_out = self.n_read - self.n_kept
        if n_left_out and not self.n_kept:
            values = (f"{column}: {', '.join(found)}" for column, found in self.refused.items())
            raise InputError(
                f"{place}: `where` left out all {n_left_out} records. Among the values found: "
                f"{'; '.join(values)}. Change the conditions."
            )
        if n_left_out:
            logger.info("%s: `where` left out %d of %d records", place, n_left_out, self.n_read)

    def _remember(self, column: str, value: str) -> None:
        values = self.refused.setdefault(column, [])
        if len(values) < N_VALUES and value not in values:
            values.append(value)


def _first_unmet(row: Row, conditions: Sequence[Condition]) -> tuple[str, str] | None:
    """Return column and value of the first condition that a row does not meet."""
    for condition in conditions:
        value = column_value(row[1], condition.column, origin=row[0])
        if not meets(value, condition, origin=row[0]):
            return condition.column, repr(value)
    return None


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
