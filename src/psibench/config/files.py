"""Config files: read, laid over each other, validated; every problem becomes one InputError."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from psibench.config.paths import CONFIG_FOLDER, DEFAULT_CONFIG
from psibench.config.secrets import refuse_secrets, without_secrets
from psibench.errors import InputError, nearest, supported
from psibench.reading import parse_number, read_text_file, refuse_aliases, shown

REPLACED_WHOLE = ("benchmarks", "models")

_Valid = TypeVar("_Valid")


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises
    ------
    InputError
        If the file is missing, not YAML (see `parse_yaml`), or not a mapping of names.
    """
    expected, folder = "a YAML file", Path(path).parent
    if CONFIG_FOLDER in folder.parents and folder.is_dir() and not Path(path).exists():
        expected = f"one of {', '.join(sorted(one.name for one in folder.glob('*.yaml')))}"
    loaded = deepcopy(_parsed(read_text_file(path, expected=expected), str(path)))
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: found a {type(loaded).__name__}, expected a mapping of sections")
    if odd := [name for name in loaded if not isinstance(name, str)]:
        raise InputError(f"{path}: the key {shown(odd[0])} is no text; section names are texts")
    return loaded


@lru_cache(maxsize=16)  # registries are read several times, and parsing is slow
def _parsed(text: str, where: str) -> Any:
    from psibench.plain_yaml import parse_yaml

    return parse_yaml(text, where=where)


def laid_over(
    under: Mapping[str, Any], over: Mapping[str, Any], *, replaced: Sequence[str] = ()
) -> dict[str, Any]:
    """Override a config by another one; merges mappings by key, except the keys ``replaced``."""
    laid = dict(under)
    for key, value in over.items():
        below = laid.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping) and key not in replaced
        laid[key] = laid_over(below, value, replaced=replaced) if both else value  # type: ignore[arg-type]
    return laid


def composed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the default config, the configs that a user's config extends, and the user's config.

    Later configs override earlier ones. ``benchmarks`` and ``models`` replace the default's as a
    whole, so that a user who names two benchmarks runs two benchmarks.

    Raises
    ------
    InputError
        If ``extends`` is not a list of shipped configs, these extend each other in a circle, or the
        config has aliases that expand to millions of values, which Snakemake accepts.
    """
    try:
        refuse_aliases(config, _inside)
    except (ValueError, RecursionError) as error:
        found = error if isinstance(error, ValueError) else "nested too deep"
        raise InputError(f"config: {found}") from error
    return laid_over(read_yaml(DEFAULT_CONFIG), _extended(config, ()), replaced=REPLACED_WHOLE)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _extended(config: Mapping[str, Any], by: tuple[str, ...]) -> dict[str, Any]:
    named, under = config.get("extends", []), dict[str, Any]()
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InputError(f"config key extends: found {shown(named)}; use a list of names")
    for name in named:
        if name not in (known := _shipped_configs()):
            raise InputError(
                f"config key extends: no shipped config {name!r}. Supported: "
                f"{supported(name, known)}"
            )
        if name in by:
            raise InputError(f"config key extends: {' -> '.join((*by, name))} is a circle")
        under = laid_over(under, _extended(read_yaml(CONFIG_FOLDER / name), (*by, name)))
    return laid_over(under, {key: value for key, value in config.items() if key != "extends"})


def _shipped_configs() -> list[str]:
    found = (
        path for kind in ("presets", "examples") for path in CONFIG_FOLDER.glob(f"{kind}/*.yaml")
    )
    return sorted(path.relative_to(CONFIG_FOLDER).as_posix() for path in found)


def read_entries(path: str | Path, kind: TypeAdapter[dict[str, _Valid]]) -> dict[str, _Valid]:
    """Read a file of entries: id -> entry.

    Raises
    ------
    InputError
        If the file cannot be read, holds a secret, or an entry is not valid.
    """
    raw = read_yaml(path)
    refuse_secrets(raw)
    return validated(raw, kind, str(path))


def validated(raw: Any, kind: TypeAdapter[_Valid], where: str, *, context: Any = None) -> _Valid:
    """Validate plain data; ``where`` names it in messages, ``context`` is for validators.

    Raises
    ------
    InputError
        If it is not valid.
    """
    try:
        return kind.validate_python(raw, context=context)
    except ValidationError as error:
        lines = "\n".join(f"  {line}" for line in _problems(error, raw, kind))
        raise InputError(f"{where} is not valid:\n{lines}") from error


def _problems(error: ValidationError, raw: Any, checked_as: TypeAdapter[Any]) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        kind, found = problem["type"], problem.get("input")
        key = _key_path(problem["loc"], raw, absent=kind == "missing")
        message = problem["msg"].removeprefix("Value error, ")
        if kind == "extra_forbidden":
            near = nearest(str(problem["loc"][-1]), _keys_at(checked_as, problem["loc"][:-1], raw))
            guess = f"Did you mean {' or '.join(near)}? " if near else ""
            yield (
                f"{key}: unknown key. {guess}Check the spelling or remove it; docs/config.md lists "
                "every key of a config."
            )
        elif kind == "missing":
            yield f"{key}: missing; this key is required."
        elif kind.startswith("union_tag"):
            yield _explain_choice(key, problem["ctx"])
        elif isinstance(found, Mapping):
            yield f"{key}: {message}"
        else:
            text = f"{key}: found {without_secrets(repr(found))}. {message}"
            yield text + (_number_hint(found) if kind in ("float_type", "int_type") else "")


def _keys_at(checked_as: TypeAdapter[Any], location: Sequence[int | str], raw: Any) -> set[str]:
    """Return the keys that the mapping at a location of ``raw`` may have.

    Of several kinds of a section, uses those whose fixed values, e.g. the recipe, ``raw`` has.
    """
    schema = checked_as.json_schema()
    definitions: dict[str, Any] = schema.get("$defs", {})

    def mappings(node: Mapping[str, Any], value: Any) -> Iterator[Mapping[str, Any]]:
        if "$ref" in node:
            node = definitions[node["$ref"].rpartition("/")[2]]
        for one in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            yield from mappings(one, value)
        fixed = {k: one["const"] for k, one in node.get("properties", {}).items() if "const" in one}
        given = value if isinstance(value, Mapping) else {}
        if all(given.get(key, one) == one for key, one in fixed.items()):
            yield node

    nodes, value = list(mappings(schema, raw)), raw
    for part in location:
        if isinstance(value, Mapping) and part in value:
            inside = [
                one
                for node in nodes
                for one in (
                    node.get("properties", {}).get(part),
                    node.get("additionalProperties"),
                    *node.get("patternProperties", {}).values(),
                )
            ]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            inside = [node.get("items") for node in nodes]
        else:
            continue  # pydantic's name of a union's member
        value = value[part]
        found = [mappings(node, value) for node in inside if isinstance(node, Mapping)]
        nodes = [node for some in found for node in some]
    return {key for node in nodes for key in node.get("properties", {})}


def _number_hint(found: Any) -> str:
    """Return how to write a number that YAML 1.1 reads as a text, e.g. 5e-2 or +.5."""
    try:
        value = parse_number(found, where="", column="") if isinstance(found, str) else math.nan
    except InputError:
        return ""
    written = repr(value).replace("e", ".0e") if "." not in repr(value) else repr(value)
    return f". YAML reads this as a text; write {written}" if math.isfinite(value) else ""


def _explain_choice(key: str, context: Mapping[str, Any]) -> str:
    """Return a message on the key that selects a section's type, with its allowed values."""
    key = f"{key}.{context['discriminator']}".replace("'", "")
    if "tag" not in context:
        return f"{key}: missing; this key is required. docs/config.md lists its values."
    near = nearest(str(context["tag"]), re.findall(r"'([^']+)'", context["expected_tags"]))
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{key}: found {context['tag']!r}. {guess}Input should be {context['expected_tags']}"


def _key_path(location: tuple[int | str, ...], raw: Any, *, absent: bool) -> str:
    """Return a problem's key path as in the user's file, without the parts that pydantic adds.

    A part that is not in ``raw`` was added by pydantic (the name of a union's member, ``[key]``),
    unless it is the last part and the key is ``absent``.
    """
    parts: list[str] = []
    value = raw
    for index, part in enumerate(location):
        inside = isinstance(value, Mapping) and part in value
        inside |= isinstance(value, list) and isinstance(part, int) and part < len(value)
        if inside:
            value = value[part]
        if inside or (absent and index == len(location) - 1):
            parts.append(str(part))
    return ".".join(parts) or "(top level)"
