"""Checkpoints that bring code of their own, read into classes that transformers 5 has.

A module has ``load`` for an encoder or ``load_classifier`` for a reranker, or both.
"""

from importlib import import_module
from typing import Any


def port(architecture: str) -> Any:
    """Return the module of an architecture, by the name that an entry gives it."""
    return import_module(f"{__name__}.{architecture.replace('-', '_')}")
