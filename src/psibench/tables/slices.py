"""Slices of work for several jobs: of domains, documents, queries or texts."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")

SLICE = r"[0-9]+-of-[0-9]+"
"""Regular expression of a slice in a path."""


@dataclass(frozen=True)
class Slice:
    """Slice ``number`` of ``of`` slices, counted from 1; in a path ``2-of-8``."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, name: str) -> "Slice":
        """Read ``2-of-8`` or ``/2-of-8``; ``""`` means everything."""
        return cls(*map(int, name.removeprefix("/").split("-of-"))) if name else cls()

    @classmethod
    def every(cls, of: int) -> list["Slice"]:
        """List all slices, in order."""
        return [cls(number, of) for number in range(1, of + 1)]

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"

    @property
    def folder(self) -> str:
        """Its part of a path: ``/2-of-8``, or nothing if there is only one slice."""
        return f"/{self}" if self.of > 1 else ""

    def has(self, key: str | bytes) -> bool:
        """Return whether an id or an address belongs to the slice.

        This depends only on the id and the number of slices, not on other ids.
        """
        data = key.encode() if isinstance(key, str) else key
        return zlib.crc32(data) % self.of == self.number - 1

    def bounds(self, n: int) -> tuple[int, int]:
        """Return start and end of the slice in ``n`` items; sizes differ by at most one item."""
        return (self.number - 1) * n // self.of, self.number * n // self.of

    def cut(self, items: Sequence[Item]) -> list[Item]:
        """Return the consecutive items of the slice."""
        low, high = self.bounds(len(items))
        return list(items[low:high])
