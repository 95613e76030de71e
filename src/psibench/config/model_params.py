"""What of a registry entry decides its results."""

from collections.abc import Mapping
from typing import Any

from psibench.config.model_base import ModelBase
from psibench.config.models import Model
from psibench.config.registry import load_registry
from psibench.errors import InputError

FIELDS_WITHOUT_EFFECT = frozenset(
    {
        # What is shown of a model.
        "description",
        "licence",
        "control",
        "kind",
        "mitigates",
        # How the work is cut and paid for.
        "parameters_m",
        "embedding_parameters_m",
        "tokens_per_batch",
        "key_env",
        "texts_per_request",
        "tokens_per_request",
        "concurrency",
        "timeout_s",
        "max_attempts",
        "price",
        "budget_usd",
    }
)
"""Entries differ in these without their vectors or scores differing."""


def retrieval_params(entry: ModelBase) -> dict[str, Any]:
    """Return what of a registry entry decides its results: the parameters of its rules."""
    return entry.model_dump(mode="json", exclude=set(FIELDS_WITHOUT_EFFECT))


def registry_entry(config: Mapping[str, Any], model: str) -> Model:
    """Return the whole entry of a model: where a job needs what decides no result, too.

    ``config`` is the user's, as Snakemake read it.

    Raises
    ------
    InputError
        If there is no such model.
    """
    known = load_registry(config.get("registry"))
    if model not in known:
        raise InputError(f"unknown model {model!r}. Supported: {', '.join(sorted(known))}")
    return known[model]
