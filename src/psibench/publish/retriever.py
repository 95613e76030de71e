"""Evaluation of any retriever that is a Python function, with the scores of `psibench score`.

`psibench.evaluate(search, "results/python-docs")` calls the function with the queries of a built
benchmark, once per language and domain, and returns the result tables.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import polars as pl

from psibench.errors import InputError
from psibench.formats.built import Dataset, find_datasets
from psibench.formats.checks import IdenticalIds, identical_ids_removed
from psibench.formats.runs import rank_file, read_results
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import edges_of, fitting_schemes
from psibench.metrics.chunks import SPAN_KINDS, SPAN_METRICS, score_queries
from psibench.metrics.ranking import HEADLINE_METRICS, parse_metrics
from psibench.metrics.sections import with_sections
from psibench.publish.control import BUILTIN, builtin_search, searched_text
from psibench.report.glance_html import glance_html
from psibench.report.psi_text import glance_text
from psibench.report.views import author_texts
from psibench.tables.derived import queries_by
from psibench.tables.ranking import removed_text

logger = logging.getLogger("psibench")

KIND = "run"
CONTROL = "control"
FRAMES = ("psi", "buckets", "comparisons", "scores", "run")
"""Names of the frames of an `Evaluation`."""

Chunk = tuple[str, int, int]  # document id, start and end: characters of its text, end exclusive
Results = Mapping[str, Mapping[str | Chunk, float]]
"""Scores by document id or chunk, by query id; a larger score is better."""


@dataclass(frozen=True)
class Corpus:
    """The documents that a call searches, of one language and domain."""

    benchmark: str
    language: str
    domain: str
    dataset: Dataset

    @cached_property
    def texts(self) -> dict[str, str]:
        """Id -> text of every document, in the order of the table."""
        return dict(self.dataset.read("corpus", ["_id", "text"]).iter_rows())


class Search(Protocol):
    """A retriever: a function that searches a corpus with some queries."""

    def __call__(self, queries: Mapping[str, str], corpus: Corpus, /, *, k: int) -> Results:
        """Score `k` documents for each query (id -> text); psibench keeps only the best `k`."""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Results of a retriever: the tables of `psibench score`, see docs/tables.md.

    Printed, it is the table of PSI and the verdicts; in a notebook also the means by position.

    Columns: `psi` as psi_table; `buckets` as bucket_scores; `comparisons` as comparisons (with the
    control, if given); `scores` as query_scores, after `model`; `run` as run, after `model`,
    `language` and `domain`. `notes` are sentences on the built-in control.
    """

    psi: pl.DataFrame
    buckets: pl.DataFrame
    comparisons: pl.DataFrame
    scores: pl.DataFrame
    run: pl.DataFrame
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        frames = [f"{name} ({getattr(self, name).height:,} rows)" for name in FRAMES]
        return "\n".join(
            [glance_text(self.psi), "", *self._sentences(), f"Frames: {', '.join(frames)}"]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the tables and verdicts as HTML, for notebooks."""
        return glance_html(self.psi, self.buckets, self._sentences())

    def _sentences(self) -> list[str]:
        authors = ", ".join(self.psi["queries_by"].unique(maintain_order=True))
        return [*author_texts(authors).values(), *self.notes]


def evaluate(
    search: Search,
    benchmark: str | Path,
    *,
    model: str = "retriever",
    control: Search | Literal["builtin"] | None = None,
    k: int = 100,
    chunks: bool = False,
    languages: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    buckets: Sequence[str] | None = None,
    by_domain: bool = False,
    length_buckets: bool | Sequence[int] = True,
    identical_ids: IdenticalIds | None = None,
) -> Evaluation:
    """Run a retriever on every query of a benchmark and measure its position bias.

    Parameters
    ----------
    search
        The retriever, called once for each language and domain.
    benchmark
        The folder of a built benchmark, e.g. `results/python-docs`.
    model
        Name of the retriever in the tables.
    control
        A retriever that ignores positions; `"builtin"`: the mean of static word embeddings, which
        needs psibench-ir[models]. Without it the tables cannot show whether the retriever or the
        questions cause a position effect.
    k
        Documents or chunks to request; at least as many as the deepest metric counts.
    chunks
        Whether the retriever scores chunks: (document id, start, end) instead of a document id, see
        `psibench.metrics.chunks`. A plain id means the whole document.
    languages, domains
        Restrict the evaluation to these; None: all.
    metrics, buckets
        As in `psibench score`; `buckets` None: all schemes that fit the evidence.
    by_domain
        Also return rows for each domain.
    length_buckets
        Also return rows for each length of the positives; a list gives edges in tokens instead of
        PosIR's.
    identical_ids
        Whether rankings exclude the document with the query's id, as in `psibench score`; None: the
        benchmark's setting. If they do, each call requests one more document.

    Raises
    ------
    InputError
        If the benchmark is not built, `control` is a text other than `"builtin"`, `k` is too small
        for a metric, or the checks of `psibench score` refuse a call's results: no results at all,
        an unknown query or document, a chunk outside its document, a score that is not a number.
        The logger `psibench` has the same warnings as that command, e.g. about queries without
        results, which score 0.
    """
    metrics = _chosen_metrics(metrics, k, chunks)
    edges = edges_of(length_buckets)
    root = Path(benchmark)
    datasets = find_datasets(root, languages=languages, domains=domains)
    notes: tuple[str, ...] = ()
    blind: Search | None = builtin_search if isinstance(control, str) else control
    if isinstance(control, str):
        if control != BUILTIN:
            raise InputError(f"control={control!r}: give a function, or {BUILTIN!r}")
        notes = tuple(_searched(datasets))
    retrievers = {model: search} | ({CONTROL: blind} if blind else {})
    if control and model == CONTROL:
        raise InputError(f"model {model!r} is reserved for the control; use another name")
    calls = _Calls(retrievers, root.resolve().name, k, chunks, metrics, identical_ids, edges)
    made: list[tuple[pl.DataFrame, ...]] = []
    for language in dict.fromkeys(one.language for one in datasets):
        group = [one for one in datasets if one.language == language]
        of_datasets = zip(*(calls.scored(one) for one in group), strict=True)
        of_all, runs = (pl.concat(frames) for frames in of_datasets)
        queries = pl.concat((one.read("queries") for one in group), how="diagonal_relaxed")
        parts = [with_sections(of_all.filter(model=name), queries) for name in retrievers]
        scores = pl.concat(parts)
        authors = ", ".join(sorted({queries_by(one.path("queries")) for one in group}))
        tables = result_tables(
            [
                Evaluated(name, KIND, part.drop("model"), reading_known=False)
                for name, part in zip(retrievers, parts, strict=True)
            ],
            labels=RowLabels(calls.benchmark, language, language, authors),
            metrics=metrics,
            schemes=buckets or fitting_schemes(queries["pos_char_span"]),
            length_buckets=length_buckets is not False,
            domains=by_domain,
            control=CONTROL if control else None,
        )
        made.append((tables.psi, tables.buckets, tables.comparisons, scores, runs))
    psi, by_bucket, comparisons, scores, runs = map(pl.concat, zip(*made, strict=True))
    return Evaluation(psi, by_bucket, comparisons, scores, runs, notes)


def _chosen_metrics(metrics: Sequence[str] | None, k: int, chunks: bool) -> Sequence[str]:
    """Return the metrics, by default those of chunks or documents; refuse k below a cut-off."""
    if metrics is None:
        metrics = [*(SPAN_METRICS if chunks else ()), *HEADLINE_METRICS]
    parsed = parse_metrics(metrics, also=SPAN_KINDS)
    deepest = max((one for one in parsed if not one.unit), key=lambda one: one.k, default=None)
    if deepest is not None and k < deepest.k:
        raise InputError(
            f"k={k}: {deepest.name} counts {deepest.k} results; use k={deepest.k} or more, or "
            "metrics with a smaller k"
        )
    return metrics


def _searched(datasets: Sequence[Dataset]) -> Iterator[str]:
    """Yield a sentence per language on the documents that the built-in control searched."""
    for language in dict.fromkeys(one.language for one in datasets):
        sizes = [one.read("corpus", ["_id"]).height for one in datasets if one.language == language]
        yield searched_text(sum(sizes), language, n_domains=len(sizes))


@dataclass(frozen=True)
class _Calls:
    """Calls of the retrievers, by name; fields as the arguments of `evaluate`."""

    retrievers: Mapping[str, Search]
    benchmark: str
    k: int
    chunks: bool
    metrics: Sequence[str]
    identical_ids: IdenticalIds | None
    length_edges: Sequence[int]

    def scored(self, dataset: Dataset) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Run each retriever on a dataset; returns per-query scores and rankings, `model` first."""
        queries, qrels = dataset.read("queries"), dataset.read("qrels")
        corpus = Corpus(self.benchmark, dataset.language, dataset.domain, dataset)
        texts = dict(queries.select("_id", "text").iter_rows())
        documents = dataset.read("corpus", ["_id", "char_length"])
        documents = documents.select(doc_id="_id", length="char_length")
        relevant = qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")
        is_removed = identical_ids_removed(self.identical_ids or dataset.identical_ids, qrels)
        is_removed &= queries["_id"].is_in(documents["doc_id"].implode()).any()
        scores, runs = [], []
        for name, search in self.retrievers.items():
            source = f"{name}, {dataset.name}"
            results = search(texts, corpus, k=self.k + is_removed)
            ranked = rank_file(
                read_results(results, source=source, chunks=self.chunks),
                queries,
                relevant,
                source=source,
                lengths=documents,
                documents=documents.get_column("doc_id"),
                top_k=self.k,
                remove_identical_ids=is_removed,
                remedy="return only the query ids given",
                of_distances="return distances with the sign changed",
            )
            for warning in ranked.warnings:
                logger.warning("%s: %s", source, warning)
            if is_removed:
                logger.info("%s: %s", source, removed_text(ranked.n_removed))
            scored = score_queries(
                ranked.run,
                ranked.chunks,
                queries,
                qrels,
                metrics=self.metrics,
                domain=dataset.domain,
                length_edges=self.length_edges,
            )
            scores.append(scored.select(pl.lit(name).alias("model"), pl.all()))
            where = {"model": name, "language": dataset.language, "domain": dataset.domain}
            labels = (pl.lit(value).alias(column) for column, value in where.items())
            runs.append(ranked.run.select(*labels, pl.all()))
        return pl.concat(scores), pl.concat(runs)
