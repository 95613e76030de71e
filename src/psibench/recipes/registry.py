"""Dispatch of benchmark sections to sources and recipes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.build.passages import cut_into_passages
from psibench.config.benchmarks import Benchmark, KnownItem, PosirRelease, SquadPosq
from psibench.config.places import places_of
from psibench.config.sources import HubSource, SquadSource
from psibench.errors import InputError
from psibench.formats.posir import dataset_files
from psibench.recipes.base import Build, complete_build
from psibench.recipes.known_item import simulate_known_items
from psibench.recipes.posir_release import build_posir_release
from psibench.recipes.squad_posq import build_squad_posq
from psibench.sources.documents import read_documents
from psibench.sources.hub import read_hub_questions
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.squad import read_squad_files
from psibench.text.lengths import TokenCounter


def build_benchmark(section: Benchmark, *, count_tokens: TokenCounter) -> Build:
    """Read a benchmark's source and run its recipe."""
    return RECIPES[section.recipe](section, count_tokens)


def source_files(section: Benchmark) -> list[str]:
    """List the local files a benchmark is read from, in order; none for a name on the hub."""
    if isinstance(section, PosirRelease):
        return [path for at in places_of(section) for path in dataset_files(section.source, at)]
    assert section.source is not None
    return local_files(section.source)


def queries_by_of(section: Benchmark) -> str | None:
    """Say who wrote the queries of a benchmark that asks no language model."""
    if isinstance(section, KnownItem):
        return "simulation"
    assert isinstance(section, SquadPosq | PosirRelease)
    return section.queries_by


def revisions_of(section: Benchmark) -> dict[str, str]:
    """Return the pinned revision of what is read from the hub, as provenance records it."""
    if not isinstance(section, PosirRelease):
        assert section.source is not None
        return dataset_revisions(section.source)
    source = section.source
    is_local = Path(source.path).is_dir()
    return {} if is_local else {f"dataset:{source.path}": source.revision or "not pinned"}


def _build_squad_posq(section: Any, count_tokens: TokenCounter) -> Build:
    assert isinstance(section, SquadPosq)
    assert section.source is not None
    return build_squad_posq(
        _read_questions(section.source),
        labels=section.labels,
        subset=section.subset,
        count_tokens=count_tokens,
    )


def _build_known_item(section: Any, count_tokens: TokenCounter) -> Build:
    assert isinstance(section, KnownItem)
    assert section.source is not None
    source = read_documents(section.source)
    documents, left_out = pl.concat(source.batches), source.dropped
    if section.passages is not None:
        documents, too_short = cut_into_passages(documents, section.passages)
        left_out = pl.concat([left_out, too_short])
    simulated = simulate_known_items(
        documents,
        seed=section.seed,
        n_terms=section.n_terms,
        queries_per_third=section.queries_per_third,
    )
    if simulated.queries.is_empty():
        raise InputError(_no_queries(documents, simulated.dropped))
    return complete_build(
        documents,
        simulated.queries,
        simulated.qrels,
        pl.concat([left_out, simulated.dropped]),
        count_tokens=count_tokens,
    )


def _build_posir_release(section: Any, count_tokens: TokenCounter) -> Build:
    assert isinstance(section, PosirRelease)
    return build_posir_release(
        section.source,
        language=section.language,
        domain=section.domain,
        prefix_ids=section.prefix_ids,
        count_tokens=count_tokens,
    )


def _no_queries(documents: pl.DataFrame, dropped: pl.DataFrame) -> str:
    """Say why no query could be made, and what would help."""
    reasons = dropped.group_by("reason").len().sort("len", descending=True).iter_rows()
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons) or "none planned"
    return (
        f"known_item made no query from {documents.height} documents; planned queries dropped: "
        f"{counts}. It needs some dozens of documents of a hundred words or more that share a "
        "vocabulary: add documents, cut long ones (`passages: {}`), or lower n_terms."
    )


def _read_questions(source: SquadSource | HubSource) -> pl.DataFrame:
    if isinstance(source, SquadSource):
        return read_squad_files(source.paths)
    return read_hub_questions(
        source.name,
        splits=source.splits,
        config=source.config,
        revision=source.revision,
        streaming=source.streaming,
        max_documents=source.max_documents,
        where=source.where,
    )


RECIPES: Mapping[str, Callable[[Any, TokenCounter], Build]] = {
    "squad_posq": _build_squad_posq,
    "known_item": _build_known_item,
    "posir_release": _build_posir_release,
}
