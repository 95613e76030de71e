"""The texts that a translation is estimated by: of an earlier run, of the source, or expected."""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.config.benchmarks import Benchmark, PosirRelease, SquadPosq
from psibench.config.places import Place
from psibench.recipes.registry import build_benchmark, source_files
from psibench.sources.reach import hub_is_reachable
from psibench.stages.build import build_params
from psibench.stages.llm_estimate_documents import EstimateTables, spread
from psibench.stages.llm_estimate_sizes import is_remote
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_estimate_task import RequestsBasis
from psibench.tables import content_hash, read_provenance
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_words, with_lengths

QUERY_COLUMNS = ("_id", "text", "pos_corpus_id", "pos_char_span", "target_position")
PLAIN = ("_id", "text", "token_length")


@dataclass(frozen=True)
class Texts:
    """Some texts of one domain, or of several of which nothing more is known.

    Attributes
    ----------
    places
        Those they are of, or stand for.
    corpus
        Documents that stand for all: ``_id, text, token_length``.
    queries
        Queries that stand for all: QUERY_COLUMNS.
    positives
        The documents of these queries, as ``corpus``.
    n_documents, n_queries
        How many there are, or will be at most.
    basis
        What these numbers rest on: ``tables of an earlier run``, ``documents`` (the source's), or
        ``at most`` (every document drawn, and every candidate).
    """

    places: tuple[Place, ...]
    corpus: pl.DataFrame
    queries: pl.DataFrame
    positives: pl.DataFrame
    n_documents: int
    n_queries: int
    basis: RequestsBasis

    @property
    def document_scale(self) -> float:
        """Documents in all for each that is here."""
        return self.n_documents / max(1, self.corpus.height)

    @property
    def query_scale(self) -> float:
        """Queries in all for each that is here."""
        return self.n_queries / max(1, self.queries.height)


def made_texts(data: Path, place: Place, *, most: int) -> Texts | None:
    """Return texts of the tables that an earlier run made; None if there are none.

    Parameters
    ----------
    data
        The domain's folder of data tables.
    most
        Documents, and queries, that stand for all; 0 for all.
    """
    paths = data / "corpus.parquet", data / "queries.parquet"
    if not all(path.is_file() for path in paths):
        return None
    lengths = read_columns(paths[0], CORPUS, ["_id", "char_length"])
    drawn = spread(lengths, most, pl.col("char_length")) if most else lengths
    every = read_columns(paths[1], QUERIES, QUERY_COLUMNS)
    queries = spread(every, most) if most else every
    wanted = pl.concat([drawn["_id"], queries["pos_corpus_id"]]).unique()
    texts = read_columns(paths[0], CORPUS, PLAIN).filter(pl.col("_id").is_in(wanted.implode()))
    corpus = texts.filter(pl.col("_id").is_in(drawn["_id"].implode()))
    positives = texts.filter(pl.col("_id").is_in(queries["pos_corpus_id"].implode()))
    counts = (lengths.height, every.height)
    return Texts((place,), corpus, queries, positives, *counts, "tables of an earlier run")


def built_texts(section: Benchmark, place: Place, *, most: int, reading: Reading) -> Texts | None:
    """Return texts of a benchmark that asks nobody, built here from its source.

    None where the source is a corpus on the hub: it has no end that an estimate could wait for.

    Parameters
    ----------
    section
        The benchmark's as if ``place`` were all of it.

    Raises
    ------
    InputError
        If the source cannot be read.
    """
    if not _is_readable(section):
        return None
    built = build_benchmark(section, count_tokens=count_words)
    queries = spread(built.queries, most) if most else built.queries
    asked = built.corpus.filter(pl.col("_id").is_in(queries["pos_corpus_id"].implode()))
    corpus, positives = (
        with_lengths(frame, count_tokens=reading.count).select(PLAIN)
        for frame in (spread(built.corpus, most) if most else built.corpus, asked)
    )
    counts = (built.corpus.height, built.queries.height)
    return Texts((place,), corpus, queries.select(QUERY_COLUMNS), positives, *counts, "documents")


def expected_texts(
    found: EstimateTables, candidates: pl.DataFrame, language: str, *, most: int, reading: Reading
) -> Texts:
    """Return what may become of the documents of an estimate: all of them, and all candidates.

    Parameters
    ----------
    candidates
        Those of the estimate's documents; see `expected_candidates`.
    language
        The language translated from; of other places nothing is translated.
    """
    places = tuple(place for place in found.places if place.language == language)
    share = len(places) / len(found.places)
    queries = (spread(candidates, most) if most else candidates).select(QUERY_COLUMNS)
    asked = found.documents.filter(pl.col("_id").is_in(queries["pos_corpus_id"].implode()))
    corpus, positives = (
        with_lengths(frame, count_tokens=reading.count).select(PLAIN)
        for frame in (spread(found.documents, most) if most else found.documents, asked)
    )
    n_documents = round(found.n_documents * share)
    n_queries = round(candidates.height * found.scale * share)
    return Texts(places, corpus, queries, positives, n_documents, n_queries, "at most")


def is_current_build(data: Path, section: Benchmark, *, length_tokenizer: str) -> bool:
    """Say whether a benchmark's tables are what its section would be built to now.

    A dataset on the hub counts as the same while its name and revision are.
    """
    path = data / "corpus.parquet"
    if not path.is_file():
        return False
    record = read_provenance(path) or {}
    wanted = json.loads(json.dumps(build_params(section, length_tokenizer=length_tokenizer)))
    return record.get("params") == wanted and record.get("inputs") == {
        path: content_hash(path) for path in source_files(section)
    }


def _is_readable(section: Benchmark) -> bool:
    """Say whether a source is read whole for an estimate: if local, or a set of questions."""
    if isinstance(section, PosirRelease):
        return Path(section.source.path).is_dir()
    if not is_remote(section.source):
        return True
    return isinstance(section, SquadPosq) and hub_is_reachable()
