"""Read, merge and validate configs; every problem becomes one readable InputError."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from psibench.config.base import Id
from psibench.config.benchmarks import Benchmark
from psibench.config.models import Model
from psibench.config.secrets import refuse_secrets
from psibench.config.settings import Config
from psibench.errors import InputError

REPLACED_WHOLE = ("benchmarks", "models")


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises
    ------
    InputError
        If the file is missing, not YAML, or not a mapping.
    """
    try:
        loaded = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, impossible dates
        raise InputError(f"{path}: not valid YAML: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: found a {type(loaded).__name__}, expected a mapping of sections")
    return loaded


def merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a user's config over the default one.

    Sections merge key by key; ``benchmarks`` and ``models`` are replaced whole, so that a user
    who names two benchmarks runs two benchmarks.
    """
    merged = dict(base)
    for key, value in override.items():
        if key in REPLACED_WHOLE or not isinstance(value, Mapping):
            merged[key] = value
        else:
            under = merged.get(key)
            merged[key] = merge(under if isinstance(under, Mapping) else {}, value)
    return merged


def load_config(
    default: str | Path, override: Mapping[str, Any] | None = None, *, registry: str | Path
) -> tuple[Config, dict[str, Model]]:
    """Load the default config, lay the user's over it, validate, and resolve the models.

    Parameters
    ----------
    default, registry
        The shipped ``config/config.yaml`` and ``config/models.yaml``.
    override
        The user's config as a mapping (what Snakemake read from ``--configfile``).

    Returns
    -------
    config, models
        The typed config, and the entry of every model it names, in its order.

    Raises
    ------
    InputError
        On unknown keys, values out of range, secrets, unknown model ids.
    """
    raw = merge(read_yaml(default), override or {})
    refuse_secrets(raw)
    config = validate(raw)
    known = load_registry(registry) | config.registry
    unknown = [name for name in config.models if name not in known]
    if unknown:
        raise InputError(
            f"config key models: unknown model {', '.join(map(repr, unknown))}. "
            f"Supported: {', '.join(sorted(known))}. Add an entry under `registry:` for your own."
        )
    repeated = sorted({name for name in config.models if config.models.count(name) > 1})
    if repeated:
        raise InputError(f"config key models: named more than once: {', '.join(repeated)}")
    return config, {name: known[name] for name in config.models}


def validate(raw: Mapping[str, Any]) -> Config:
    """Validate a merged config."""
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise InputError(_explain(error, "config", raw)) from error


def load_registry(path: str | Path) -> dict[str, Model]:
    """Read a model registry file: model id -> entry."""
    return validate_registry(read_yaml(path), str(path))


def validate_registry(raw: Mapping[str, Any], where: str) -> dict[str, Model]:
    """Validate registry entries; ``where`` names them in messages."""
    try:
        return TypeAdapter(dict[Id, Model]).validate_python(raw)
    except ValidationError as error:
        raise InputError(_explain(error, where, raw)) from error


def parse_benchmark(section: Mapping[str, Any]) -> Benchmark:
    """Make a benchmark section from plain data, as a job receives it."""
    parsed: Benchmark = TypeAdapter(Benchmark).validate_python(section)
    return parsed


def parse_model(entry: Mapping[str, Any]) -> Model:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: Model = TypeAdapter(Model).validate_python(entry)
    return parsed


def _explain(error: ValidationError, where: str, raw: Any) -> str:
    return f"{where} is not valid:\n" + "\n".join(f"  {line}" for line in _problems(error, raw))


def _problems(error: ValidationError, raw: Any) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        kind, found = problem["type"], problem.get("input")
        key = _key_path(problem["loc"], raw, absent=kind == "missing")
        message = problem["msg"].removeprefix("Value error, ")
        if kind == "extra_forbidden":
            yield f"{key}: unknown key. Check the spelling; docs/config.md lists every key."
        elif kind == "missing":
            yield f"{key}: missing; it must be given."
        elif kind.startswith("union_tag"):
            yield _explain_choice(key, problem["ctx"])
        elif isinstance(found, Mapping):
            yield f"{key}: {message}"
        else:
            yield f"{key}: found {found!r}. {message}"


def _explain_choice(key: str, context: Mapping[str, Any]) -> str:
    """Say which key decides what a section is, and what it may be."""
    key = f"{key}.{context['discriminator']}".replace("'", "")
    if "tag" not in context:
        return f"{key}: missing; it must be given. docs/config.md lists its values."
    return f"{key}: found {context['tag']!r}. Input should be {context['expected_tags']}"


def _key_path(location: tuple[int | str, ...], raw: Any, *, absent: bool) -> str:
    """Write a problem's place as the user wrote it, without pydantic's own marks.

    What is not in ``raw`` is such a mark (the name of a union's member, ``[key]``), unless it is
    the last part of a place where something is ``absent``.
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
