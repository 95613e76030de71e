"""Reading the model registry."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from psibench.config.base import Id
from psibench.config.files import read_entries, validated
from psibench.config.models import Model
from psibench.config.paths import REGISTRY


def load_registry(
    entries: Mapping[str, Any] | None = None, where: str = "config key registry"
) -> dict[str, Model]:
    """Read the shipped models, id -> entry; ``entries``, found ``where``, take their place."""
    kind = TypeAdapter(dict[Id, Model])
    return read_entries(REGISTRY, kind) | validated(entries or {}, kind, where)


def parse_model(entry: Mapping[str, Any]) -> Model:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: Model = TypeAdapter(Model).validate_python(entry)
    return parsed
