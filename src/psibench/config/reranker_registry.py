"""The registry of rerankers: the shipped entries and the config's own."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from psibench.config.base import Id
from psibench.config.files import read_entries
from psibench.config.models import SentenceTransformerModel
from psibench.config.paths import RERANKERS
from psibench.config.rerankers import BiEncoderReranker, CheckpointReranker, RerankerModel

# Entries differ in these without their scores differing.
PRESENTATION_FIELDS = frozenset({"description", "tokens_per_batch"})


def load_rerankers(own: Mapping[str, RerankerModel] | None = None) -> dict[str, RerankerModel]:
    """Read the shipped registry of rerankers, id -> entry; ``own`` entries take their place.

    Raises
    ------
    InputError
        If the file cannot be read or an entry is not valid.
    """
    return read_entries(RERANKERS, TypeAdapter(dict[Id, RerankerModel])) | dict(own or {})


def parse_reranker(entry: Mapping[str, Any]) -> RerankerModel:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: RerankerModel = TypeAdapter(RerankerModel).validate_python(entry)
    return parsed


def reranker_params(entry: RerankerModel) -> dict[str, Any]:
    """Return what of a registry entry decides its scores: parameters of its rule."""
    return entry.model_dump(mode="json", exclude=set(PRESENTATION_FIELDS))


def checkpoint_of(entry: RerankerModel) -> tuple[str, str | None]:
    """Return what a reranker is made of, and its revision: a checkpoint, or BM25's vocabulary."""
    if isinstance(entry, CheckpointReranker):
        return entry.checkpoint, entry.revision
    if isinstance(entry, BiEncoderReranker):
        encoder: SentenceTransformerModel = entry.encoder
        return encoder.checkpoint, encoder.revision
    return entry.vocabulary, None
