"""What pydantic finds wrong with a config, in words: where, what was found, what is allowed."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from psibench.config.secrets import without_secrets


def explain(error: ValidationError, where: str, raw: Any) -> str:
    """Turn a validation error into a message; ``where`` names what was read, ``raw`` is it."""
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
            yield f"{key}: found {without_secrets(repr(found))}. {message}"


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
