"""Imports of large libraries without looks for garbage, which take a third of their time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import within this: what is made stays until the process ends, and is looked at no more.

    Python's collector counts new objects, and looks through all of them again and again: of
    sentence-transformers, 9 CPU-seconds become 5.5, the end of the process among them. Everything
    that exists at the end of the block is left out for good: keep it to imports.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
