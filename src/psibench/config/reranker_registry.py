"""The registry of rerankers: the shipped entries and the config's own."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from psibench.config.base import Id
from psibench.config.explain import explain
from psibench.config.models import Model, RerankModel, SentenceTransformerModel
from psibench.config.paths import RERANKERS
from psibench.config.registry import read_yaml
from psibench.config.rerankers import BiEncoderReranker, CheckpointReranker, RerankerModel
from psibench.errors import InputError

if TYPE_CHECKING:
    from psibench.config.settings import Config

# Entries differ in these without their scores differing.
PRESENTATION_FIELDS = frozenset({"description", "tokens_per_batch"})


def load_rerankers(
    path: str | Path = RERANKERS, own: Mapping[str, RerankerModel] | None = None
) -> dict[str, RerankerModel]:
    """Read a reranker registry file, id -> entry; ``own`` entries take their place.

    Raises
    ------
    InputError
        If the file cannot be read or an entry is not valid.
    """
    raw = read_yaml(path)
    try:
        known = TypeAdapter(dict[Id, RerankerModel]).validate_python(raw)
    except ValidationError as error:
        raise InputError(explain(error, str(path), raw)) from error
    return known | dict(own or {})


def resolve_rerankers(config: "Config", models: Mapping[str, Model]) -> dict[str, RerankerModel]:
    """Return the rerankers that benchmarks and ``models`` name, by id, in order of first use."""
    named = [name for _, name in named_rerankers(config, models)]
    known = load_rerankers(own=config.rerankers) if named else {}
    return {name: known[name] for name in named}


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


def named_rerankers(config: "Config", models: Mapping[str, Model]) -> Iterator[tuple[str, str]]:
    """Yield (config key, id) of every reranker that a benchmark or one of ``models`` names."""
    from psibench.config.benchmarks import GeneratedBenchmark

    for benchmark, section in config.benchmarks.items():
        if not isinstance(section, GeneratedBenchmark):
            continue
        for key in ("verify", "false_negatives"):
            filtering = getattr(section, key)
            for name in filtering.rerankers if filtering is not None else ():
                yield f"benchmarks.{benchmark}.{key}.rerankers", name
    for model, entry in models.items():
        if isinstance(entry, RerankModel):
            yield f"registry.{model}.reranker", entry.reranker
