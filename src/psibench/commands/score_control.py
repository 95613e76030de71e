"""The built-in control of `psibench score`: its run on the documents of --corpus."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.beir import DOCUMENT_ID_NAMES, QUERY_ID_NAMES
from psibench.formats.runs import RunFile
from psibench.formats.tabular import TEXT, read_typed_columns
from psibench.metrics.chunks import document_metrics
from psibench.metrics.query_scores import name_some
from psibench.metrics.ranking import parse_metrics
from psibench.publish.control import BUILTIN, CONTROL_MODEL, search_blind, searched_text

LEAST_DEPTH = 100
"""Documents per query, unless a metric counts more."""


def wants_builtin(args: argparse.Namespace) -> bool:
    """Return whether the options ask for the built-in control.

    --control builtin asks for it, or --corpus without another use: no --control, no --max-tokens.
    Raises InputError if --control builtin lacks the corpus.
    """
    if args.control == BUILTIN and args.corpus is None:
        raise InputError(
            f"--control {BUILTIN} needs --corpus: the documents that the runs searched"
        )
    is_only_for_it = args.corpus is not None and args.control is None and not args.max_tokens
    return args.control == BUILTIN or is_only_for_it


def control_run(
    args: argparse.Namespace,
    queries: pl.DataFrame,
    found: Iterable[pl.Series],
    metrics: Sequence[str],
    *,
    of_chunks: bool,
) -> tuple[RunFile, str]:
    """Search --corpus with the built-in control.

    Parameters
    ----------
    queries
        The queries that are scored (``_id``).
    found
        Ids of documents that the corpus must have: those of the runs and of the qrels.
    metrics
        The deepest one decides how many documents are returned.
    of_chunks
        Whether each document is a chunk in the run, because the other runs have chunks.

    Returns
    -------
    The run, and a sentence on what was searched.

    Raises
    ------
    InputError
        If a query or document has no text, two documents have one id, or the corpus lacks documents
        of the runs or the qrels.
    """
    texts = _query_texts(args.queries).filter(pl.col("_id").is_in(queries["_id"].implode()))
    documents, n_titles = _documents(args.corpus)
    files = _names(args.corpus)
    wanted = pl.concat([one.unique() for one in found]).unique().sort()
    lacking = wanted.filter(~wanted.is_in(documents["_id"].implode()))
    if len(lacking):
        raise InputError(
            f"{files}: lacks {len(lacking)} of {len(wanted)} documents that the runs or the qrels "
            f"have: {name_some(lacking)}; the control must search the documents that the runs "
            "searched. Give all of them, or another control (--control MODEL)"
        )
    of_documents = document_metrics(metrics)
    deepest = max(one.k for one in parse_metrics(of_documents)) if of_documents else 0
    depth = max(LEAST_DEPTH, deepest)
    run = search_blind(texts, documents, k=depth + 1)  # one may be removed: the query's own id
    if of_chunks:
        lengths = documents.select(doc_id="_id", end=pl.col("text").str.len_chars().cast(pl.Int64))
        run = run.join(lengths, on="doc_id", maintain_order="left").select(
            "query_id", "doc_id", "score", chunk_id="doc_id", start=pl.lit(0, pl.Int64), end="end"
        )
    titles = f" Titles ({n_titles:,} documents) were not searched." if n_titles else ""
    return RunFile(run, CONTROL_MODEL), searched_text(documents.height, files) + titles


def _query_texts(paths: Sequence[Path]) -> pl.DataFrame:
    hint = f"; --control {BUILTIN} searches with the texts of the queries"
    columns, also = {"_id": TEXT, "text": TEXT}, {"_id": QUERY_ID_NAMES}
    texts = pl.concat(
        read_typed_columns(path, columns, further={}, also=also, hint=hint) for path in paths
    )
    _refuse_empty(texts, paths, "queries")
    return texts


def _documents(paths: Sequence[Path]) -> tuple[pl.DataFrame, int]:
    """Return the documents, and the number of those with a title."""
    columns, also = {"_id": TEXT, "text": TEXT}, {"_id": DOCUMENT_ID_NAMES}
    frames = [
        read_typed_columns(path, columns, further={"title": TEXT}, also=also) for path in paths
    ]
    every = pl.concat(frames, how="diagonal")
    documents = every.select("_id", "text").unique(maintain_order=True)
    twice = documents.filter(pl.col("_id").is_duplicated())["_id"].unique(maintain_order=True)
    if len(twice):
        raise InputError(f"{_names(paths)}: documents with two texts: {name_some(twice)}")
    _refuse_empty(documents, paths, "documents")
    if "title" not in every.columns:
        return documents, 0
    return documents, every.filter(pl.col("title").str.strip_chars().str.len_chars() > 0).height


def _refuse_empty(texts: pl.DataFrame, paths: Sequence[Path], what: str) -> None:
    missing = texts.filter(pl.col("_id").is_null() | pl.col("text").is_null())["_id"]
    if len(missing):
        raise InputError(f"{_names(paths)}: {what} without id or text: {name_some(missing)}")


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)
