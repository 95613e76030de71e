"""Fields of registry entries that decide results."""

from collections.abc import Mapping
from typing import Any

from psibench.config.model_base import ModelBase
from psibench.config.models import Model
from psibench.config.registry import parse_model

FIELDS_WITHOUT_EFFECT = frozenset(
    {
        # What is shown of a model.
        "description",
        "licence",
        "control",
        "kind",
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
"""Fields that change no vectors and no scores."""


def retrieval_params(entry: ModelBase) -> dict[str, Any]:
    """Return the fields of a registry entry that decide its results: its rules' parameters."""
    return entry.model_dump(mode="json", exclude=set(FIELDS_WITHOUT_EFFECT))


def registry_entry(config: Mapping[str, Any], model: str) -> Model:
    """Return the whole entry of a model from a job's config, which has all that it names."""
    return parse_model(config["registry"][model])
