"""Read and count the texts of a benchmark in local files, for `check` and `plan`."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.config.sources import FilesSource, PythonDocsSource, SquadSource
from psibench.errors import InputError, MissingError
from psibench.formats.posir import count_dataset
from psibench.generate.base import GeneratedBenchmark
from psibench.generate.benchmarks import (
    Benchmark,
    DocumentsBenchmark,
    KnownItem,
    Place,
    PosirRelease,
    section_at,
)
from psibench.generate.loaders import Loader, NothingLeftError
from psibench.generate.loaders.known_item import simulate_known_items, why_no_query
from psibench.generate.sampling import Sampled, draw, length_measure, read_candidates
from psibench.models.checkpoints import local_folder
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.texts import Texts, queries_per_document, release_texts, tokens_per_unit
from psibench.sources.checks import refuse_repeated
from psibench.sources.documents import read_documents
from psibench.text.lengths import count_whitespace_tokens
from psibench.text.passages import cut_documents
from psibench.text.segments import POSITIONS

MOST_SIMULATED = 200
"""Largest number of documents whose known-item queries are simulated to count them."""
MOST_DOCUMENTS = 10_000
"""Largest number of documents read from a source, enough to estimate lengths; only the run reads
the rest."""


def first_documents(place: Place) -> pl.DataFrame:
    """Read the first `MOST_DOCUMENTS` documents of a source.

    Raises InputError if the source cannot be read, or an id occurs twice.
    """
    frames, n_rows = [], 0
    for batch in read_documents(place.source).batches:  # type: ignore[arg-type]
        frames.append(batch)
        n_rows += batch.height
        if n_rows >= MOST_DOCUMENTS:
            break
    documents = pl.concat(frames, how="diagonal").head(MOST_DOCUMENTS)
    refuse_repeated(documents, where="source")
    return documents


def local_sample(
    documents: pl.DataFrame, section: GeneratedBenchmark, place: Place, *, length_tokenizer: str
) -> Sampled | None:
    """Sample from all documents (or passages) of a place.

    None if lengths need a tokenizer that is not on this machine. Raises InputError if no document
    has a length in the sample's range.
    """
    unit = section.sample.unit
    if unit == "tokens" and local_folder(length_tokenizer) is None:
        return None
    measure = length_measure(unit, length_tokenizer)
    candidates = read_candidates([documents], section.sample, measure)
    return draw(candidates, where=f"sample of {place.language}, {place.domain}")


@dataclass(frozen=True)
class QueryCount:
    """The number of known-item queries that documents give.

    ``n_simulated`` is the number of documents that were simulated; if it is below ``n_documents``,
    ``n_queries`` is extrapolated. ``problem`` is the reason if there is no query, as a clause.
    """

    n_queries: int
    n_planned: int
    n_documents: int
    n_simulated: int
    problem: str | None

    def __str__(self) -> str:
        is_whole = self.n_simulated == self.n_documents
        about = "" if is_whole else "about "
        by = (
            ""
            if is_whole
            else f" (simulated for {self.n_simulated:,} of {self.n_documents:,} texts)"
        )
        return f"known-item queries: {about}{self.n_queries:,} of {self.n_planned:,} planned{by}"


def known_item_count(section: KnownItem, documents: pl.DataFrame) -> QueryCount:
    """Count the known-item queries of documents (or passages) by the simulation of a run.

    Simulates the queries of at most `MOST_SIMULATED` documents, evenly spaced.
    """
    every = max(1, -(-documents.height // MOST_SIMULATED))
    queries, dropped = simulate_known_items(
        documents,
        seed=section.seed,
        n_terms=section.n_terms,
        queries_per_third=section.queries_per_third,
        every=every,
    )
    n_simulated = len(range(0, documents.height, every))
    n_queries = round(queries.height * documents.height / max(1, n_simulated))
    planned = len(POSITIONS) * section.queries_per_third * documents.height
    problem = why_no_query(documents, dropped).removesuffix(".") if queries.is_empty() else None
    return QueryCount(n_queries, planned, documents.height, n_simulated, problem)


def local_texts(planned: PlannedBenchmark, language: str, *, length_tokenizer: str) -> Texts | None:
    """Count the texts of a native language if all are in local files.

    Estimates lengths from characters. For a generated benchmark, counts the sampled documents. None
    if files are missing or cannot be read, if a source is on the hub or has at least
    `MOST_DOCUMENTS` documents, or if the sample comes from Python's documentation.
    """
    lengths, n_queries = Counter[float](), 0.0
    places = [place for place in planned.places if place.language == language]
    for place in places:
        found = _local_texts(planned.section, place, length_tokenizer)
        if found is None:
            return None
        for length, n in found.lengths:
            lengths[length] += n  # type: ignore[assignment]
        n_queries += found.n_queries
    by_length = tuple(sorted(lengths.items()))
    return Texts(by_length, n_queries, basis="source") if places else None


def _local_texts(section: Benchmark, place: Place, length_tokenizer: str) -> Texts | None:
    if isinstance(section, GeneratedBenchmark) and isinstance(place.source, PythonDocsSource):
        return None  # takes seconds to read, and the planned counts of shipped samples fit
    try:
        if isinstance(section, PosirRelease):
            if not Path(section.source.path).is_dir():
                return None
            path = section.source.path
            counts = count_dataset(path, language=place.language, domain=place.domain)
            return release_texts(place.language, counts.documents, counts.answerable)
        if not isinstance(place.source, FilesSource | SquadSource | PythonDocsSource):
            return None
        if isinstance(section, KnownItem | DocumentsBenchmark | GeneratedBenchmark):
            read = _read_whole(section, place, length_tokenizer)
            if read is None:
                return None
            documents = read
            n_queries = _n_queries(section, documents)
        else:
            loader = section_at(section, place)
            assert isinstance(loader, Loader)
            built = loader.build(count_whitespace_tokens)
            documents, n_queries = built.corpus, built.queries.height
    except NothingLeftError as error:
        documents, n_queries = error.build.corpus, 0
    except (InputError, MissingError):
        return None  # `check` reports the error
    per_char = tokens_per_unit("chars", place.language)
    counts_of = Counter((documents["text"].str.len_chars() * per_char).round().to_list())
    return Texts(tuple(sorted((float(t), float(n)) for t, n in counts_of.items())), n_queries)


def _n_queries(
    section: KnownItem | DocumentsBenchmark | GeneratedBenchmark, documents: pl.DataFrame
) -> int:
    if isinstance(section, KnownItem):
        return known_item_count(section, documents).n_queries
    if isinstance(section, GeneratedBenchmark):
        return round(documents.height * queries_per_document(section))
    return 0


def _read_whole(
    section: KnownItem | DocumentsBenchmark | GeneratedBenchmark,
    place: Place,
    length_tokenizer: str,
) -> pl.DataFrame | None:
    """Read, cut and sample a place's documents; None if there are too many or no tokenizer."""
    documents = first_documents(place)
    if documents.height == MOST_DOCUMENTS:
        return None
    if place.passages is not None:
        documents, _ = cut_documents(documents, **place.passages.model_dump())
    if not isinstance(section, GeneratedBenchmark):
        return documents
    sampled = local_sample(documents, section, place, length_tokenizer=length_tokenizer)
    return None if sampled is None else sampled.documents
