"""Encoders from registry entries."""

from typing import Any

from psibench.config.models import (
    EncoderModel,
    ModelBase,
    SentenceTransformerModel,
    StaticModel,
)
from psibench.models.protocols import Encoder
from psibench.models.static import load_static
from psibench.models.transformer import load_transformer

# Entries differ in these without their vectors or scores differing.
PRESENTATION_FIELDS = frozenset({"description", "control", "kind"})


def retrieval_params(entry: ModelBase) -> dict[str, Any]:
    """Return what of a registry entry decides its results: the parameters of its rules."""
    return entry.model_dump(mode="json", exclude=set(PRESENTATION_FIELDS))


def load_encoder(entry: EncoderModel, *, device: str) -> Encoder:
    """Load an encoder in float32."""
    if isinstance(entry, StaticModel):
        return load_static(entry)
    assert isinstance(entry, SentenceTransformerModel)
    return load_transformer(entry, device=device, dtype="float32")
