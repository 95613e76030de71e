"""A slice of work that several jobs share: of domains, of documents, of queries, of texts."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")

SLICE = r"[0-9]+-of-[0-9]+"
"""How paths write a slice, as a regular expression."""


@dataclass(frozen=True)
class Slice:
    """Slice ``number`` of ``of`` slices, counted from 1; in a path ``2-of-8``."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, name: str) -> "Slice":
        """Read ``2-of-8`` or ``/2-of-8``; ``""`` is the only slice there is."""
        return cls(*map(int, name.removeprefix("/").split("-of-"))) if name else cls()

    @classmethod
    def every(cls, of: int) -> list["Slice"]:
        """List all slices, in order."""
        return [cls(number, of) for number in range(1, of + 1)]

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"

    @property
    def folder(self) -> str:
        """What a path has for it: ``/2-of-8``, nothing for the only slice."""
        return f"/{self}" if self.of > 1 else ""

    def has(self, key: str | bytes) -> bool:
        """Say whether an id or an address belongs to it.

        That depends on the id and the number of slices alone: other ids move none of them.
        """
        data = key.encode() if isinstance(key, str) else key
        return zlib.crc32(data) % self.of == self.number - 1

    def bounds(self, n: int) -> tuple[int, int]:
        """Return where its run of ``n`` items begins and ends; runs differ by one item at most."""
        return (self.number - 1) * n // self.of, self.number * n // self.of

    def cut(self, items: Sequence[Item]) -> list[Item]:
        """Return its run of consecutive items."""
        low, high = self.bounds(len(items))
        return list(items[low:high])
