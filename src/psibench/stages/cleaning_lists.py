"""The lists of prefixes and of refusals: data files, read, checked and compiled."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from psibench.build.translation.refusals import RefusalPhrases, compile_refusals
from psibench.config.base import Language, Section
from psibench.config.load import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.errors import InputError
from psibench.text.prefixes import Label, PrefixList, compile_prefixes

PREFIXES = CONFIG_FOLDER / "cleaning" / "prefixes.yaml"
REFUSALS = CONFIG_FOLDER / "cleaning" / "refusals.yaml"


class _Label(Section):
    phrase: str
    words_of: list[str] = Field(default_factory=list)


class _Prefixes(Section):
    slots: dict[str, str]
    openings: list[str] = Field(min_length=1)
    statements: list[str] = Field(min_length=1)
    labels: list[_Label]
    remarks: list[str] = Field(min_length=1)


class _Refusals(Section):
    slots: dict[str, str] = Field(default_factory=dict)
    phrases: list[str] = Field(min_length=1)


def read_prefixes(language: str, path: str | Path = PREFIXES) -> PrefixList:
    """Read the list of prefixes, for texts translated to a language.

    Raises
    ------
    InputError
        If the file cannot be read or is not such a list.
    """
    found: _Prefixes = _validated(TypeAdapter(_Prefixes), path)
    labels = [Label(label.phrase, label.words_of) for label in found.labels]
    try:
        return compile_prefixes(
            language,
            slots=found.slots,
            openings=found.openings,
            statements=found.statements,
            labels=labels,
            remarks=found.remarks,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_refusals(path: str | Path = REFUSALS) -> list[re.Pattern[str]]:
    """Read the lists of refusals of all languages.

    Raises
    ------
    InputError
        If the file cannot be read or is not such a list.
    """
    found: Mapping[str, _Refusals] = _validated(TypeAdapter(dict[Language, _Refusals]), path)
    try:
        return compile_refusals(
            {name: RefusalPhrases(entry.phrases, entry.slots) for name, entry in found.items()}
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _validated(adapter: TypeAdapter[Any], path: str | Path) -> Any:
    try:
        return adapter.validate_python(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path}: {place}: {first['msg']}; see the list that is shipped"
        ) from error
