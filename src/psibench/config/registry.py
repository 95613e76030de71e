"""Reading the model registry, and any other YAML of names."""

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from psibench.config.base import Id
from psibench.config.explain import explain
from psibench.config.models import Model
from psibench.errors import InputError
from psibench.reading import parse_yaml, read_text_file, shown


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises
    ------
    InputError
        If the file is missing, not YAML (see `parse_yaml`), or not a mapping of names.
    """
    loaded = deepcopy(_parsed(read_text_file(path, expected="a YAML file"), str(path)))
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: found a {type(loaded).__name__}, expected a mapping of sections")
    if odd := [name for name in loaded if not isinstance(name, str)]:
        raise InputError(f"{path}: the key {shown(odd[0])} is no text; sections have names")
    return loaded


_parsed = lru_cache(maxsize=16)(lambda text, where: parse_yaml(text, where=where))
"""The registries are asked for several times in a command, and parsing them takes longest."""


def load_registry(path: str | Path) -> dict[str, Model]:
    """Read a model registry file: model id -> entry."""
    return validate_registry(read_yaml(path), str(path))


def validate_registry(raw: Mapping[str, Any], where: str) -> dict[str, Model]:
    """Validate registry entries; ``where`` names them in messages."""
    try:
        return TypeAdapter(dict[Id, Model]).validate_python(raw)
    except ValidationError as error:
        raise InputError(explain(error, where, raw)) from error


def parse_model(entry: Mapping[str, Any]) -> Model:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: Model = TypeAdapter(Model).validate_python(entry)
    return parsed
