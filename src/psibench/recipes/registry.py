"""Dispatch of benchmark sections to sources and recipes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.benchmarks import Benchmark, KnownItem, SquadPosq
from psibench.config.sources import FilesSource, HubSource, PythonDocsSource, SquadSource
from psibench.errors import InputError
from psibench.recipes.base import Build, complete_build
from psibench.recipes.known_item import simulate_known_items
from psibench.recipes.squad_posq import build_squad_posq
from psibench.sources.files import read_document_files
from psibench.sources.hub import read_hub_documents, read_hub_questions
from psibench.sources.python_docs import collect_python_docs
from psibench.sources.squad import read_squad_files
from psibench.tables.dropped import dropped_frame
from psibench.text.lengths import TokenCounter
from psibench.text.passages import cut_documents

QUERIES_BY = {"squad_posq": "people", "known_item": "simulation"}


def build_benchmark(section: Benchmark, *, count_tokens: TokenCounter) -> Build:
    """Read a benchmark's source and run its recipe."""
    return RECIPES[section.recipe](section, count_tokens)


def source_files(section: Benchmark) -> list[str]:
    """List the local files a benchmark is read from, in order; none for a name on the hub."""
    source = section.source
    if isinstance(source, SquadSource):
        return list(source.paths)
    if isinstance(source, FilesSource):
        from psibench.sources.files import find_files

        return [str(path) for path, _ in find_files(source.paths)]
    if isinstance(source, HubSource) and Path(source.name).is_dir():
        return sorted(str(path) for path in Path(source.name).rglob("*") if path.is_file())
    return []


def _build_squad_posq(section: Any, count_tokens: TokenCounter) -> Build:
    assert isinstance(section, SquadPosq)
    return build_squad_posq(
        _read_questions(section.source),
        labels=section.labels,
        subset=section.subset,
        count_tokens=count_tokens,
    )


def _build_known_item(section: Any, count_tokens: TokenCounter) -> Build:
    assert isinstance(section, KnownItem)
    documents, left_out = _read_documents(section.source)
    if section.passages is not None:
        documents, pieces = cut_documents(documents, **section.passages.model_dump())
        rows = [
            ("cut_documents", doc_id, "passage_too_short", text[:80], None, None, len(text))
            for doc_id, text in pieces
        ]
        left_out = pl.concat([left_out, dropped_frame(rows)])
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
    )


def _read_documents(
    source: SquadSource | HubSource | FilesSource | PythonDocsSource,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read documents, and what the source itself left out."""
    if isinstance(source, PythonDocsSource):
        docs = collect_python_docs(
            min_words=source.min_words, max_words=source.max_words, seed=source.seed
        )
        return docs.documents, docs.dropped
    if isinstance(source, FilesSource):
        documents = read_document_files(
            source.paths, text_column=source.text_column, id_column=source.id_column
        )
    elif isinstance(source, HubSource):
        documents = read_hub_documents(
            source.name,
            splits=source.splits,
            config=source.config,
            revision=source.revision,
            text_column=source.text_column,
            id_column=source.id_column,
            streaming=source.streaming,
            max_documents=source.max_documents,
        )
    else:
        documents = _contexts(read_squad_files(source.paths))
    return documents, dropped_frame()


def _contexts(questions: pl.DataFrame) -> pl.DataFrame:
    """Take the distinct contexts of QUESTIONS rows as documents, in sorted order."""
    distinct = questions.unique("context", keep="first").sort("context")
    return distinct.with_row_index("number").select(
        pl.format("p{}", pl.col("number").cast(pl.String).str.zfill(5)).alias("_id"),
        pl.col("context").str.strip_chars().alias("text"),
        "origin",
    )


RECIPES: Mapping[str, Callable[[Any, TokenCounter], Build]] = {
    "squad_posq": _build_squad_posq,
    "known_item": _build_known_item,
}
