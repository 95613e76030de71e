"""Prepare items in a thread while earlier ones are used."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def prefetched(items: Iterator[_T]) -> Iterator[_T]:
    """Yield items while a thread prepares the next one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
