"""Any retriever, asked by a function call: its rankings, scored as `psibench score` does.

`psibench.evaluate(search, "results/python-docs")` asks a Python function every query of a built
benchmark, domain by domain as psibench's own models are asked, and returns the result tables.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import polars as pl

from psibench.errors import InputError
from psibench.formats.built import Dataset, find_datasets
from psibench.formats.checks import IdenticalIds, identical_ids_removed
from psibench.formats.runs import rank_file, read_results
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import edges_of, fitting_schemes
from psibench.metrics.chunks import (
    SPAN_KINDS,
    SPAN_METRICS,
    score_queries,
)
from psibench.metrics.ranking import HEADLINE_METRICS, parse_metrics
from psibench.tables.derived import queries_by
from psibench.tables.ranking import removed_text

logger = logging.getLogger("psibench")

KIND = "run"
CONTROL = "control"

Chunk = tuple[str, int, int]  # document id, start and end: characters of its text, end exclusive
Results = Mapping[str, Mapping[str | Chunk, float]]
"""Scores by document id or chunk, by query id; a larger score is better."""


@dataclass(frozen=True)
class Corpus:
    """The documents that a call searches: those of one language and domain."""

    benchmark: str
    language: str
    domain: str
    dataset: Dataset

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of every document, by id, in the order of the table."""
        return dict(self.dataset.read("corpus", ["_id", "text"]).iter_rows())


class Search(Protocol):
    """A retriever: a function of some queries and the corpus they search."""

    def __call__(self, queries: Mapping[str, str], corpus: Corpus, /, *, k: int) -> Results:
        """Score `k` documents for each query, text by query id; of more the best are taken."""


@dataclass(frozen=True)
class Evaluation:
    """What came of asking a retriever: the tables of `psibench score`, docs/tables.md.

    `psi` has the columns of psi_table, `buckets` of bucket_scores, `comparisons` of comparisons
    (with the control, if one was given), `scores` of query_scores with `model` in front, and `run`
    of run, with `model`, `language` and `domain` in front.
    """

    psi: pl.DataFrame
    buckets: pl.DataFrame
    comparisons: pl.DataFrame
    scores: pl.DataFrame
    run: pl.DataFrame


def evaluate(
    search: Search,
    benchmark: str | Path,
    *,
    model: str = "retriever",
    control: Search | None = None,
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
    """Ask a retriever every query of a benchmark and measure how it depends on position.

    Parameters
    ----------
    search
        The retriever, called once for each language and domain.
    benchmark
        The folder of a built benchmark, as `results/python-docs`.
    model
        What the tables call it.
    control
        A retriever that knows no position: without one the tables cannot say that a position
        effect is the retriever's and not the questions'.
    k
        Documents, or chunks, to ask for; at least as many as the deepest metric counts.
    chunks
        Whether the retriever scores chunks, as `psibench.metrics.chunks` has them: in place of a
        document id stands (document id, start, end). An id alone is a whole document's.
    languages, domains
        Only these; all when None.
    metrics, buckets
        As of `psibench score`; all schemes that fit the evidence when `buckets` is None.
    by_domain
        Also rows for each domain.
    length_buckets
        Also rows for each length of the positives; edges in tokens in place of PosIR's.
    identical_ids
        Whether rankings are without the document that has the query's own id, as of `psibench
        score`; None: as the benchmark was built. Where they are, one document more is asked for.

    Raises
    ------
    InputError
        If the benchmark is not built, `k` is less than a metric counts, or what a call returned is
        refused by the checks of `psibench score`: no results at all, an unknown query or document,
        a chunk that is not in its document, a score that is no number. The logger `psibench` warns
        of what that command warns of, such as queries without results, which score 0.
    """
    if metrics is None:
        metrics = [*HEADLINE_METRICS, *(SPAN_METRICS if chunks else ())]
    deepest = max(parse_metrics(metrics, also=SPAN_KINDS), key=lambda metric: metric.k)
    if k < deepest.k:
        raise InputError(
            f"k={k}: {deepest.name} counts {deepest.k} results; ask for as many, or name metrics "
            "of fewer"
        )
    edges = edges_of(length_buckets)
    root = Path(benchmark)
    datasets = find_datasets(root, languages=languages, domains=domains)
    retrievers = {model: search} | ({CONTROL: control} if control else {})
    if control and model == CONTROL:
        raise InputError(f"model {model!r} is the name of the control's rows; give another one")
    made: dict[str, list[pl.DataFrame]] = {}
    for language in dict.fromkeys(one.language for one in datasets):
        group = [one for one in datasets if one.language == language]
        asked = [
            _ask(retrievers, one, root.resolve().name, k, chunks, metrics, identical_ids, edges)
            for one in group
        ]
        scores = pl.concat(frame for frame, _ in asked)
        spans = pl.concat(one.read("queries").select("pos_char_span") for one in group)
        tables = result_tables(
            [
                Evaluated(name, KIND, scores.filter(model=name).drop("model"), reading_known=False)
                for name in retrievers
            ],
            labels=RowLabels(
                root.resolve().name,
                language,
                language,
                ", ".join(sorted({queries_by(one.path("queries")) for one in group})),
            ),
            metrics=metrics,
            schemes=buckets or fitting_schemes(spans.to_series()),
            length_buckets=length_buckets is not False,
            domains=by_domain,
            control=CONTROL if control else None,
        )
        for name, frame in (
            ("psi", tables.psi),
            ("buckets", tables.buckets),
            ("comparisons", tables.comparisons),
            ("scores", scores),
            ("run", pl.concat(frame for _, frame in asked)),
        ):
            made.setdefault(name, []).append(frame)
    return Evaluation(**{name: pl.concat(frames) for name, frames in made.items()})


def _ask(
    retrievers: Mapping[str, Search],
    dataset: Dataset,
    benchmark: str,
    k: int,
    chunks: bool,
    metrics: Sequence[str],
    identical_ids: IdenticalIds | None,
    length_edges: Sequence[int],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Let each retriever search a dataset: per-query scores and rankings, `model` in front."""
    queries, qrels = dataset.read("queries"), dataset.read("qrels")
    corpus = Corpus(benchmark, dataset.language, dataset.domain, dataset)
    texts = dict(queries.select("_id", "text").iter_rows())
    documents = dataset.read("corpus", ["_id", "char_length"])
    documents = documents.select(doc_id="_id", length="char_length")
    relevant = qrels.filter(pl.col("score") > 0).select(query_id="query-id", doc_id="corpus-id")
    setting = identical_ids or dataset.identical_ids
    is_removed = identical_ids_removed(setting, qrels)
    is_removed &= queries["_id"].is_in(documents["doc_id"].implode()).any()
    scores, runs = [], []
    for name, search in retrievers.items():
        source = f"{name}, {dataset.language}/{dataset.domain}"
        results = search(texts, corpus, k=k + is_removed)
        ranked = rank_file(
            read_results(results, source=source, chunks=chunks),
            queries,
            relevant,
            source=source,
            lengths=documents,
            documents=documents.get_column("doc_id"),
            top_k=k,
            remove_identical_ids=is_removed,
            remedy="return the ids that were given",
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
            metrics=metrics,
            domain=dataset.domain,
            length_edges=length_edges,
        )
        scores.append(scored.select(pl.lit(name).alias("model"), pl.all()))
        where = {"model": name, "language": dataset.language, "domain": dataset.domain}
        runs.append(ranked.run.select(*(pl.lit(v).alias(c) for c, v in where.items()), pl.all()))
    return pl.concat(scores), pl.concat(runs)
