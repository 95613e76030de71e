"""Ports of checkpoints with custom code, into classes of transformers 5.

A module has ``load`` for an encoder or ``load_classifier`` for a reranker, or both.
"""

from importlib import import_module
from typing import Any


def port(architecture: str) -> Any:
    """Return the module of an architecture, by its name in a registry entry."""
    return import_module(f"{__name__}.{architecture.replace('-', '_')}")
