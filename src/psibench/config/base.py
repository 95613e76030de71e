"""Base class of config sections, which refuses unknown keys, and types of ids and paths."""

import re
from itertools import pairwise
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

ID_PATTERN = r"^[a-z0-9][a-z0-9._-]*$"
LANGUAGE_PATTERN = r"^[a-z]{3}-[A-Z][a-z]{3}$"
COMMIT_PATTERN = r"^[0-9a-f]{40}$"

Id = Annotated[str, StringConstraints(pattern=ID_PATTERN, max_length=80)]
Language = Annotated[str, StringConstraints(pattern=LANGUAGE_PATTERN)]


def _replaceable(kind: str) -> AfterValidator:
    """Return a validator that replaces ids by the context of the validation, if it has one.

    `psibench.plan.stand_ins` makes the context. Ids of a list that become equal are merged.
    """

    def replaced(value: Any, info: ValidationInfo) -> Any:
        ids = (info.context or {}).get(kind, {})
        if isinstance(value, list):
            return list(dict.fromkeys(ids.get(one, one) for one in value)) if ids else value
        return ids.get(value, value)

    return AfterValidator(replaced)


ModelId = Annotated[Id, _replaceable("models")]
ModelIds = Annotated[list[Id], _replaceable("models")]
RerankerId = Annotated[Id, _replaceable("rerankers")]
LlmId = Annotated[Id, _replaceable("llms")]
TranslatorId = Annotated[Id, _replaceable("translators")]


def _shipped_if_replaced(path: str | None, info: ValidationInfo) -> str | None:
    return None if info.context else path


Template = Annotated[str | None, AfterValidator(_shipped_if_replaced)]
"""Path of the user's template; ignored with stand-ins, which know only shipped templates."""


def _refuse_no_commit(value: str) -> str:
    if not re.fullmatch(COMMIT_PATTERN, value):
        raise ValueError(
            "A commit has 40 digits of 0-9 and a-f (branches and tags may change): copy it from "
            "the repository's history on the hub, or remove the key to use the default branch"
        )
    return value


Commit = Annotated[
    str,
    AfterValidator(_refuse_no_commit),
    WithJsonSchema({"type": "string", "pattern": COMMIT_PATTERN}),
]
"""A commit of a checkpoint's repository on the hub."""

Named = TypeVar("Named", str, int)
Number = TypeVar("Number", int, float)


def refuse_repeats(values: list[Named]) -> list[Named]:
    """Raise ValueError if a list names something twice: it would be computed and keyed twice."""
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"named more than once: {', '.join(map(str, repeated))}")
    return values


def refuse_falling(values: list[Number]) -> list[Number]:
    """Raise ValueError if a list of numbers does not rise."""
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError(f"{values} do not rise")
    return values


def refuse_reserved(values: list[str]) -> list[str]:
    """Raise ValueError if a scorer is called like a row of the tables about scorers."""
    reserved = [value for value in values if value in ("all", "none")]
    if reserved:
        raise ValueError(f"{reserved[0]!r} means something else in the tables; use another id")
    return values


class Section(BaseModel):
    """A config section: frozen, unknown keys forbidden, numbers not taken from strings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
