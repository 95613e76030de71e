"""The config's JSON schema, generated from the typed sections."""

import json
from pathlib import Path
from typing import Any

from psibench.config.settings import Config
from psibench.tables.atomic import write_text


def config_schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a whole config."""
    schema = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "psibench config"
    # A user's file may name only what it changes.
    schema.pop("required", None)
    return schema


def schema_text() -> str:
    """Return the schema as it is committed: two spaces, keys sorted, one final newline."""
    return json.dumps(config_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_schema(path: str | Path) -> None:
    """Write the schema file."""
    write_text(schema_text(), path)
