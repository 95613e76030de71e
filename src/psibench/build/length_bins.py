"""Length bins of a sample: their quotas, and the documents each holds while a source is read."""

import hashlib
import heapq
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from psibench.config.generation import Sample

OUTSIDE = "outside"


class Held(NamedTuple):
    """A document that may be drawn.

    Attributes
    ----------
    order
        The negated priority: the larger, the sooner it is drawn.
    place
        Number of the document in the source, from 0.
    packed
        The text, UTF-8 and compressed: a third of its size.
    """

    order: int
    place: int
    doc_id: str
    packed: bytes
    origin: str
    length: int

    @property
    def text(self) -> str:
        """The text as it was read."""
        return zlib.decompress(self.packed).decode()


@dataclass
class LengthBin:
    """One length bin, or what lies outside of all.

    Attributes
    ----------
    low, high
        Borders; null for what lies outside.
    wanted
        Documents to draw; None for all.
    capacity
        Documents to hold, some more than wanted; None for all.
    n_seen
        Documents of this length in the source.
    held
        Of them those of the best priorities. Where there is a capacity it is a heap: first comes
        what goes next.
    """

    label: str
    low: int | None
    high: int | None
    wanted: int | None
    capacity: int | None
    n_seen: int = 0
    held: list[Held] = field(default_factory=list)

    def offer(self, order: int, place: int, row: tuple[str, str, str], length: int) -> None:
        """Count a document ``(id, text, origin)``, and hold it if its priority is good enough."""
        self.n_seen += 1
        is_full = self.capacity is not None and len(self.held) >= self.capacity
        if is_full and (not self.held or (order, place) < self.held[0][:2]):
            return
        doc_id, text, origin = row
        entry = Held(order, place, doc_id, zlib.compress(text.encode(), level=1), origin, length)
        if self.capacity is None:
            self.held.append(entry)
        elif is_full:
            heapq.heapreplace(self.held, entry)
        else:
            heapq.heappush(self.held, entry)


def empty_bins(sample: Sample) -> list[LengthBin]:
    """Make the bins in order; what lies outside is the last, where the number -1 finds it."""
    borders = list(pairwise(sample.edges))
    wanted: list[int | None] = [None] * len(borders)
    if sample.n_documents is not None:
        wanted = [*quotas(sample.n_documents, sample.shares or [1] * len(borders))]
    more = 0.0 if sample.deduplicate == "none" else sample.reserve
    bins = [
        LengthBin(
            f"{low}-{high}", low, high, part, None if part is None else part + ceil(part * more)
        )
        for (low, high), part in zip(borders, wanted, strict=True)
    ]
    return [*bins, LengthBin(OUTSIDE, None, None, 0, 0)]


def priority(seed: int, doc_id: str) -> int:
    """Return a document's priority, of 128 bits: the smallest are drawn first."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\x1f{doc_id}".encode(), digest_size=16).digest())


def quotas(n_documents: int, shares: Sequence[int]) -> list[int]:
    """Share out a number of documents by largest remainder, so that the parts sum to it.

    Of equal remainders, the bin of shorter documents comes first.
    """
    total = sum(shares)
    parts = [n_documents * share // total for share in shares]
    remainders = [n_documents * share % total for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (-remainders[i], i))
    for i in by_remainder[: n_documents - sum(parts)]:
        parts[i] += 1
    return parts


def bin_numbers(lengths: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    """Return each length's bin, (n,) int64 from 0, or -1 outside.

    A bin has its lower border and not its upper one; the last bin has both (PosQ, section 3.2:
    500 to 1,024 words).
    """
    numbers = np.searchsorted(edges, lengths, side="right") - 1
    numbers[lengths == edges[-1]] = len(edges) - 2
    numbers[lengths > edges[-1]] = -1
    return numbers
