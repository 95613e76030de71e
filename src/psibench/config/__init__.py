"""Sections of the config and the registries: the low layer that a job may read without the rest.

A section stands beside the code that reads it or here; `psibench.plan` composes them. A name is
imported when it is asked for, so that whoever imports one section need not import the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psibench.config.registry import parse_model
    from psibench.config.sections import Encoding, Uncertainty

_PLACES = {"Encoding": "sections", "Uncertainty": "sections", "parse_model": "registry"}

__all__ = ["Encoding", "Uncertainty", "parse_model"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
