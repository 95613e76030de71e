"""A typical reply to a prompt, as long as an item wants it: what an estimate counts with.

A template's header may give a reply (``reply_example``) and say how its fields grow with the
item's variables (``reply_size``). Neither is ever sent to a model.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from psibench.llm.replies import MisfitError, fit
from psibench.llm.request import ResponseSchema

KEYS = frozenset({"reply_example", "reply_size"})
_SIZE_KEYS = {"of", "share", "at_most"}
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


class ExampleError(ValueError):
    """A header's example is of no use; the text says why."""


@dataclass(frozen=True)
class Size:
    """Length of a field: ``share`` of a variable's size, rounded up, ``at_most`` another's.

    The size of a number is the number, of a text its words (a Chinese or Japanese character is
    one), of a list its entries.
    """

    of: str
    share: float = 1.0
    at_most: str | None = None

    def count(self, values: Mapping[str, Any]) -> int:
        """Return how many words or entries the field gets for an item's values, at least 1."""
        wanted = math.ceil(self.share * _measure(values[self.of]))
        if self.at_most is not None:
            wanted = min(wanted, _measure(values[self.at_most]))
        return max(1, wanted)


@dataclass(frozen=True)
class ReplyExample:
    """A reply that fits the response schema, and how its fields grow.

    Attributes
    ----------
    value
        The reply.
    sizes
        Field -> its length; fields not named stay as they are.
    fixed
        Fields of a list's entries that hold one of a few values, and so are never varied.
    """

    value: Mapping[str, Any]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    fixed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def for_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to one item.

        A text is cut, or repeated, to so many words. Of a list the first entries are taken; where
        there are too few they are repeated, their texts numbered so that no two are the same.
        """
        reply = dict(self.value)
        for name, size in self.sizes.items():
            count, given = size.count(values), reply[name]
            if isinstance(given, str):
                reply[name] = " ".join(islice(cycle(given.split()), count))
            else:
                fixed = self.fixed.get(name, frozenset())
                reply[name] = [_entry(given, number, fixed) for number in range(count)]
        return reply


def read_example(
    header: Mapping[str, Any], response: ResponseSchema | None, variables: tuple[str, ...]
) -> ReplyExample | None:
    """Read and check the example of a template's header; None without one.

    Raises
    ------
    ExampleError
        If the example does not fit the response schema word for word, or a size names a field or
        a variable that is not there.
    """
    value = header.get("reply_example")
    sizes = header.get("reply_size") or {}
    if value is None:
        if sizes:
            raise ExampleError("reply_size without reply_example")
        return None
    if response is None or not isinstance(value, dict):
        raise ExampleError("reply_example is a mapping that fits the response schema; found none")
    try:
        fitted = fit(value, response.schema)
    except MisfitError as error:
        raise ExampleError(f"reply_example does not fit the response schema: {error}") from error
    if fitted != value:
        raise ExampleError(f"reply_example fits the response schema only as {fitted!r}")
    if not isinstance(sizes, dict):
        raise ExampleError("reply_size is a mapping from fields to variables")
    read = {name: _size(name, given, value, variables) for name, given in sizes.items()}
    return ReplyExample(value, read, {name: _fixed(response, name) for name in read})


def _size(name: str, given: Any, value: Mapping[str, Any], variables: tuple[str, ...]) -> Size:
    if isinstance(given, str):
        given = {"of": given}
    if not isinstance(given, dict) or not {"of"} <= set(given) <= _SIZE_KEYS:
        raise ExampleError(f"reply_size.{name}: give a variable, or of, share and at_most")
    example = value.get(name)
    if not isinstance(example, str | list) or not example:
        raise ExampleError(f"reply_size.{name}: reply_example has no text or list of this name")
    size = Size(**given)
    unknown = [n for n in (size.of, size.at_most) if n is not None and n not in variables]
    if unknown:
        raise ExampleError(
            f"reply_size.{name}: no variable {unknown[0]!r}; there are {', '.join(variables)}"
        )
    if isinstance(size.share, bool) or not isinstance(size.share, int | float) or size.share <= 0:
        raise ExampleError(f"reply_size.{name}: share is {size.share!r}; give a number above 0")
    return size


def _fixed(response: ResponseSchema, name: str) -> frozenset[str]:
    entries = response.schema.get("properties", {}).get(name, {}).get("items", {})
    properties = entries.get("properties", {})
    return frozenset(key for key, inner in properties.items() if "enum" in inner)


def _entry(entries: list[Any], number: int, fixed: frozenset[str]) -> Any:
    """Return an entry of a list that goes on for ever: numbered from its second round on."""
    turn, place = divmod(number, len(entries))
    entry = entries[place]
    if not turn:
        return entry
    if isinstance(entry, dict):
        return {
            key: f"{text} ({turn + 1})" if isinstance(text, str) and key not in fixed else text
            for key, text in entry.items()
        }
    return f"{entry} ({turn + 1})" if isinstance(entry, str) else entry


def _measure(value: Any) -> int:
    if isinstance(value, str):
        return len(_WORD.findall(value))
    return int(value) if isinstance(value, int | float) else len(value)
