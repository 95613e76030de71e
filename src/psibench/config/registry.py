"""Reading the model registry."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from psibench.config.base import Id
from psibench.config.files import read_entries, validated
from psibench.config.models import Model
from psibench.config.paths import REGISTRY


def load_registry(path: str | Path = REGISTRY) -> dict[str, Model]:
    """Read a model registry file: model id -> entry."""
    return read_entries(path, TypeAdapter(dict[Id, Model]))


def validate_registry(raw: Mapping[str, Any], where: str) -> dict[str, Model]:
    """Validate registry entries; ``where`` names them in messages."""
    return validated(raw, TypeAdapter(dict[Id, Model]), where)


def parse_model(entry: Mapping[str, Any]) -> Model:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: Model = TypeAdapter(Model).validate_python(entry)
    return parsed
