"""The built-in control of `psibench score`: its run on the documents of --corpus."""

import argparse
import sys
from collections.abc import Sequence
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
    runs: Sequence[pl.DataFrame],
    positives: pl.Series,
    evidence: pl.DataFrame,
    metrics: Sequence[str],
    *,
    of_chunks: bool,
) -> tuple[RunFile, str]:
    """Search --corpus with the built-in control.

    Parameters
    ----------
    queries
        The queries that are scored (``_id``).
    runs, positives
        The other runs (query_id, doc_id), and the relevant documents: the corpus must have all
        their documents. If queries and documents have a domain, and the runs find only documents of
        the query's domain, each query searches its domain.
    evidence
        query_id, document_id and length (of the document, by the query; null: unknown).
    metrics
        The deepest one decides how many documents are returned.
    of_chunks
        Whether each document is a chunk in the run, because the other runs have chunks.

    Returns
    -------
    The run, and a sentence on the searched documents.

    Raises
    ------
    InputError
        If a query or document has no text, two documents have one id, or the corpus lacks documents
        of the runs or the qrels.
    """
    texts = _query_texts(args.queries).filter(pl.col("_id").is_in(queries["_id"].implode()))
    documents, n_titles = _documents(args.corpus)
    files = _names(args.corpus)
    _warn_of_lengths(evidence, documents, files)
    wanted = pl.concat([positives, *(one["doc_id"].unique() for one in runs)]).unique().sort()
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
    domains = _domains(texts, documents, runs)
    parts = [(texts.filter(domain=one), documents.filter(domain=one)) for one in domains]
    run = pl.concat(  # one more document, because the one with the query's id may be removed
        search_blind(*part, k=depth + 1) for part in parts or [(texts, documents)]
    )
    if of_chunks:
        lengths = documents.select(doc_id="_id", end=pl.col("text").str.len_chars().cast(pl.Int64))
        run = run.join(lengths, on="doc_id", maintain_order="left").select(
            "query_id", "doc_id", "score", chunk_id="doc_id", start=pl.lit(0, pl.Int64), end="end"
        )
    titles = f" Titles ({n_titles:,} documents) were not searched." if n_titles else ""
    return RunFile(run, CONTROL_MODEL), searched_text(
        documents.height, files, n_domains=max(1, len(domains))
    ) + titles


def _warn_of_lengths(evidence: pl.DataFrame, documents: pl.DataFrame, files: str) -> None:
    """Warn if queries state other lengths of their documents than these have."""
    lengths = documents.select(document_id="_id", found=pl.col("text").str.len_chars())
    joined = evidence.join(lengths, on="document_id").sort("query_id")
    odd = joined.filter(pl.col("found") != pl.col("length"))
    for query_id, document_id, length, found in odd.head(1).iter_rows():
        print(
            f"warning: {files}: document {document_id!r} has {found} characters, but "
            f"pos_char_length of query {query_id!r} is {length} ({odd.height} of {evidence.height} "
            "queries): their spans refer to another text, e.g. with a title or other line ends, or "
            "count bytes. Positions are wrong unless this corpus is a translation",
            file=sys.stderr,
        )


def _domains(
    texts: pl.DataFrame, documents: pl.DataFrame, runs: Sequence[pl.DataFrame]
) -> list[str]:
    """Return the domains if every run searches each query's domain only; else an empty list."""
    if texts["domain"].null_count() or documents["domain"].null_count():
        return []
    known = documents.select("domain", doc_id="_id")
    asked = texts.select("domain", query_id="_id")
    for run in runs:
        both = run.join(asked, on="query_id").join(known, on="doc_id", suffix="_found")
        if (both["domain"] != both["domain_found"]).any():
            return []
    return texts["domain"].unique(maintain_order=True).to_list()


def _query_texts(paths: Sequence[Path]) -> pl.DataFrame:
    hint = f"; --control {BUILTIN} searches with the texts of the queries"
    columns, also = {"_id": TEXT, "text": TEXT}, {"_id": QUERY_ID_NAMES}
    texts = pl.concat(
        (
            read_typed_columns(path, columns, further={"domain": TEXT}, also=also, hint=hint)
            for path in paths
        ),
        how="diagonal",
    )
    texts = _with_domain(texts)
    _refuse_empty(texts, paths, "queries")
    return texts


def _documents(paths: Sequence[Path]) -> tuple[pl.DataFrame, int]:
    """Return the documents, and how many have a title."""
    columns, also = {"_id": TEXT, "text": TEXT}, {"_id": DOCUMENT_ID_NAMES}
    further = {"title": TEXT, "domain": TEXT}
    frames = [read_typed_columns(path, columns, further=further, also=also) for path in paths]
    every = _with_domain(pl.concat(frames, how="diagonal"))
    documents = every.select("_id", "text", "domain").unique(maintain_order=True)
    twice = documents.filter(pl.col("_id").is_duplicated())["_id"].unique(maintain_order=True)
    if len(twice):
        raise InputError(f"{_names(paths)}: documents with two texts: {name_some(twice)}")
    _refuse_empty(documents, paths, "documents")
    if "title" not in every.columns:
        return documents, 0
    return documents, every.filter(pl.col("title").str.strip_chars().str.len_chars() > 0).height


def _with_domain(texts: pl.DataFrame) -> pl.DataFrame:
    return texts if "domain" in texts.columns else texts.with_columns(domain=pl.lit(None, TEXT))


def _refuse_empty(texts: pl.DataFrame, paths: Sequence[Path], what: str) -> None:
    missing = texts.filter(pl.col("_id").is_null() | pl.col("text").is_null())["_id"]
    if len(missing):
        raise InputError(f"{_names(paths)}: {what} without id or text: {name_some(missing)}")


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)
