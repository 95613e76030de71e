"""Read, merge and validate configs; every problem becomes one readable InputError."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from psibench.config.base import Id
from psibench.config.explain import explain
from psibench.config.llms import LlmSettings, Price, price_of
from psibench.config.models import Model
from psibench.config.paths import LLMS, PRICES
from psibench.config.registry import load_registry, read_yaml
from psibench.config.reranker_registry import load_rerankers, named_rerankers
from psibench.config.secrets import refuse_secrets
from psibench.config.settings import Config
from psibench.errors import InputError, refuse, supported
from psibench.filters.negatives import FinewebNegatives
from psibench.llm.tasks import LlmTaskSection
from psibench.translate.steps import Translate

REPLACED_WHOLE = ("benchmarks", "models")

_Entry = TypeVar("_Entry", LlmSettings, Price)


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
        On unknown keys, values out of range and secrets; on unknown ids of models, language models
        and rerankers, all of them at once; and on a language model with a budget and no price.
    """
    raw = merge(read_yaml(default), override or {})
    refuse_secrets(raw)
    config = validate(raw)
    known = load_registry(registry) | config.registry
    refuse(_problems(config, known))
    _check_budgets(config)
    return config, {name: known[name] for name in config.models}


def validate(raw: Mapping[str, Any]) -> Config:
    """Validate a merged config."""
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise InputError(explain(error, "config", raw)) from error


def load_llms(
    path: str | Path = LLMS, own: Mapping[str, LlmSettings] | None = None
) -> dict[str, LlmSettings]:
    """Read a file of language models, id -> settings; ``own`` entries take their place."""
    return _read_entries(path, TypeAdapter(dict[Id, LlmSettings])) | dict(own or {})


def load_prices(
    path: str | Path = PRICES, own: Mapping[str, Price] | None = None
) -> dict[str, Price]:
    """Read a price table, model name -> price; ``own`` entries take their place."""
    return _read_entries(path, TypeAdapter(dict[str, Price])) | dict(own or {})


def resolve_llms(config: Config) -> dict[str, LlmSettings]:
    """Return the language models that the benchmarks name, by id, in order of first use."""
    known = load_llms(own=config.llms)
    return {llm: known[llm] for _, llm in _named_llms(config)}


def resolve_prices(config: Config) -> dict[str, Price]:
    """Return all prices: the shipped ones and, in place of them, the config's own."""
    return load_prices(own=config.prices)


def _read_entries(path: str | Path, kind: TypeAdapter[dict[str, _Entry]]) -> dict[str, _Entry]:
    raw = read_yaml(path)
    refuse_secrets(raw)
    try:
        return kind.validate_python(raw)
    except ValidationError as error:
        raise InputError(explain(error, str(path), raw)) from error


def _problems(config: Config, models: Mapping[str, Model]) -> Iterator[str]:
    """Say which ids that a config names there are not, and which models it names twice."""
    unknown = [name for name in config.models if name not in models]
    if unknown:
        yield (
            f"config key models: unknown model {', '.join(map(repr, unknown))}. "
            f"Supported: {supported(unknown[0], models)}; `psibench models` lists all. Add an "
            "entry under `registry:` for your own."
        )
    repeated = sorted({name for name in config.models if config.models.count(name) > 1})
    if repeated:
        yield f"config key models: named more than once: {', '.join(repeated)}"
    evaluated = {name: models[name] for name in config.models if name in models}
    llms, rerankers = list(_named_llms(config)), list(named_rerankers(config, evaluated))
    known_llms = load_llms(own=config.llms) if llms else {}
    known_rerankers = load_rerankers(own=config.rerankers) if rerankers else {}
    for what, section, known, named in (
        ("language model", "llms", known_llms, llms),
        ("reranker", "rerankers", known_rerankers, rerankers),
    ):
        advice = f"Add an entry under `{section}:` for your own."
        for place, name in named:
            if name not in known:
                listed = f" Supported: {supported(name, known)}. {advice}" if advice else ""
                yield f"config key {place}: unknown {what} {name!r}.{listed}"
                advice = ""  # once


def _named_llms(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (config key, id) of every language model that a task of a benchmark names."""
    for name, section in config.benchmarks.items():
        for key in type(section).model_fields:
            value = getattr(section, key)
            if isinstance(value, LlmTaskSection):
                yield f"benchmarks.{name}.{key}.llm", value.llm
            if isinstance(value, Translate):
                yield from _translating(f"benchmarks.{name}.{key}", value)
            elif isinstance(value, FinewebNegatives):
                for number, judge in enumerate(value.judges):
                    yield f"benchmarks.{name}.{key}.judges.{number}", judge


def _translating(key: str, section: Translate) -> Iterator[tuple[str, str]]:
    """Yield those who clean, find again and grade translations."""
    if section.clean.refusals is not None:
        yield f"{key}.clean.refusals.llm", section.clean.refusals.llm
    if section.relocate is not None and section.relocate.llm is not None:
        yield f"{key}.relocate.llm", section.relocate.llm
    if section.quality is not None:
        yield f"{key}.quality.llm", section.quality.llm
        for name, one in (section.quality.translators or {}).items():
            yield f"{key}.quality.translators.{name}.llm", one.llm


def _check_budgets(config: Config) -> None:
    for llm, settings in resolve_llms(config).items():
        if settings.budget_usd is None:
            continue
        try:
            price_of(settings.model, resolve_prices(config))
        except InputError as error:
            raise InputError(f"config key llms.{llm}.budget_usd: {error}") from error
