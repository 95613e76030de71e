"""The documents and texts an estimate counts: an earlier run's, the source's, or stand-in texts.

Whatever is here of a place (one domain in one language) is used, in that order; a source that is
large or on the hub is read from its first records alone.
"""

import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.generate.benchmarks import (
    Beir,
    Benchmark,
    Controlled,
    FinewebPosqRelease,
    GeneratedBenchmark,
    Place,
    Posir,
    PosirRelease,
    SquadPosq,
    places_of,
    section_at,
)
from psibench.generate.loaders import Loader
from psibench.generate.personas import PERSONAS_SCHEMA, Personas
from psibench.generate.posir import is_drawn
from psibench.generate.recipes import build_params
from psibench.generate.sampling import (
    SAMPLED_SCHEMA,
    Measure,
    Sample,
    cut_into_passages,
    is_current,
    length_measure,
    quotas,
    sample_documents,
)
from psibench.llm.expected import count_tokens_or_embedded
from psibench.llm.tasks import DOCUMENTS_TABLE
from psibench.sources import reach
from psibench.sources.documents import read_documents
from psibench.sources.local import local_files
from psibench.sources.python_docs import python_pages
from psibench.tables import content_hash, read_provenance, read_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.columns import read_columns
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import CORPUS, DOCUMENTS, QUERIES
from psibench.text.lengths import TokenCounter, count_words, with_lengths

LARGE_MIB = 256
"""Local files of more than this are not read whole, if the sample has a number of documents."""
PATIENCE_S = 60.0
"""Reading from the hub begins no more once it took this long in all."""
RECORDS_PER_DOCUMENT, RECORDS_WITH_CONDITIONS = 25, 200
"""Records of such a source looked at per document of the estimate."""
LEAST_PER_PLACE = 20
"""Documents of each of several places, where as many are asked for in all: so that rounding to the
sample's bins does not change their shares."""
ENOUGH_WORDS = 60_000
"""Words of the interpreter's documentation that stand-in texts are cut from."""
PLACEHOLDER = (
    "A retired engineer who restores old water mills and writes a newsletter about the history of "
    "small industries in her region, number {}"
)
"""About as long as a persona of PersonaHub."""
QUERY_COLUMNS = ("_id", "text", "pos_corpus_id", "pos_char_span", "target_position")
CORPUS_COLUMNS = ("_id", "text", "token_length")

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Documents:
    """Tables of some documents of one place, or of several out of reach, and what they stand for.

    ``tables`` are ``documents``, and ``persona_candidates`` where the recipe reads them. Of
    ``n_documents`` there are or will be, ``n_asked`` are asked about; the tables hold no others.
    ``origin`` says where they come from, for people; ``is_made``: an earlier run drew them.
    """

    places: tuple[Place, ...]
    tables: dict[str, pl.DataFrame]
    n_documents: int
    n_asked: int
    origin: str
    is_made: bool = False

    @property
    def n_here(self) -> int:
        """Documents in the tables."""
        return self.tables[DOCUMENTS_TABLE].height

    @property
    def scale(self) -> float:
        """Documents asked about per document in the tables."""
        return self.n_asked / max(1, self.n_here)


@dataclass(frozen=True)
class Texts:
    """Some documents (CORPUS_COLUMNS) and queries (QUERY_COLUMNS) of one place or more.

    ``positives`` are the documents of these queries; ``n_documents`` and ``n_queries`` how many
    there are, or will be at most. ``basis`` is ``earlier run``: its tables; ``documents``: built
    here from the source; ``at most``: every document drawn, and every candidate.
    """

    places: tuple[Place, ...]
    corpus: pl.DataFrame
    queries: pl.DataFrame
    positives: pl.DataFrame
    n_documents: int
    n_queries: int
    basis: str


class Reader:
    """Reads documents for estimates, a tokenizer once, and not for ever from the hub."""

    def __init__(self, length_tokenizer: str) -> None:
        self.length_tokenizer = length_tokenizer
        self._patience_s = PATIENCE_S

    @cached_property
    def _loaded(self) -> tuple[TokenCounter, str]:
        return count_tokens_or_embedded(self.length_tokenizer)

    @property
    def count(self) -> TokenCounter:
        """What counts tokens: the embedded tokenizer where the config's cannot be had."""
        return self._loaded[0]

    def documents(self, section: GeneratedBenchmark, build: Path, *, most: int) -> list[Documents]:
        """Find documents for each place of a benchmark; those out of reach share stand-in texts.

        ``build`` is the benchmark's folder of build tables, a folder of each language. ``most``
        documents are shared out among the places, 0 for all; of more, every so-manieth by length
        is taken.

        Raises
        ------
        InputError
            If a table or a local source is there and cannot be read.
        """
        places, own = places_of(section), most  # type: ignore[arg-type]
        if most and len(places) > 1:
            n_bins = len(section.sample.edges) - 1
            own = max(-(-most // len(places)), n_bins, min(most, LEAST_PER_PLACE))
        found: list[Documents] = []
        beyond: list[Place] = []
        for place in places:
            drawn = self._of_place(section, place, build, own)
            found += [] if drawn is None else [drawn]
            beyond += [place] if drawn is None else []
        if beyond:
            n = max(own, most * len(beyond) // len(places))
            found.append(self._made_up(section, beyond, build, n))
        return found

    def _of_place(
        self, section: GeneratedBenchmark, place: Place, build: Path, most: int
    ) -> Documents | None:
        """Return documents of an earlier run or of the source; None if it is out of reach."""
        source: Any = place.source
        sample, few = section.sample, 0
        path = build / place.language / f"{DOCUMENTS_TABLE}.parquet"
        made = OfDomain(str(path), place.domain)
        if is_made := path.is_file() and is_current(
            made, source, place.passages, sample, length_tokenizer=self.length_tokenizer
        ):
            drawn, origin = read_table(made, DOCUMENTS), "documents of an earlier run"
        else:
            if is_remote(source) or bool(sample.n_documents and most and is_large(source)):
                few = _number(section, place, most)
            if (read := self.draw(place, sample, few=few)) is None:
                return None
            drawn, name = read, getattr(source, "name", "the source")
            origin = "documents of " + (f"the first records of {name}" if few else "the source")
        # Of first records all are taken: they stand for those that are asked about.
        asked = drawn if few else _asked(section, drawn)
        n = sample.n_documents or few if few else drawn.height
        n_asked = round(n * _share(section)) if few else asked.height
        tables = self._tables(section, place, build, thinned(asked, most))
        return Documents((place,), tables, n, n_asked, origin + self._note(sample), is_made)

    def _made_up(
        self, section: GeneratedBenchmark, places: Sequence[Place], build: Path, most: int
    ) -> Documents:
        """Return texts that stand for the documents of places out of reach."""
        sample, n = section.sample, _number(section, places[0], most)
        n_documents = len(places) * (sample.n_documents or n)
        names = list(dict.fromkeys(getattr(at.source, "name", at.key) for at in places))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        origin = (
            "stand-in texts, documentation of more tokens per word than most prose "
            f"({names[0]}{more} cannot be read here){self._note(sample)}"
        )
        documents = stand_in_documents(sample, n, self._measure(sample))
        tables = self._tables(section, places[0], build, documents)
        n_asked = round(n_documents * _share(section))
        return Documents(tuple(places), tables, n_documents, n_asked, origin)

    def _tables(
        self, section: GeneratedBenchmark, place: Place, build: Path, documents: pl.DataFrame
    ) -> dict[str, pl.DataFrame]:
        tables = {DOCUMENTS_TABLE: documents}
        if isinstance(section, Controlled):
            path = build / place.language / f"{PERSONA_CANDIDATES.name}.parquet"
            made = OfDomain(str(path), place.domain) if path.is_file() else None
            tables[PERSONA_CANDIDATES.name] = _personas(section.personas, made, documents)
        return tables

    def draw(self, place: Place, sample: Sample, *, few: int = 0) -> pl.DataFrame | None:
        """Draw the sample of a place; with ``few`` so many documents from its first records.

        None if its source is on the hub and out of reach.

        Raises
        ------
        InputError
            If a local source cannot be read.
        """
        source: Any = place.source
        is_chosen = getattr(source, "where", None)
        most = few * (RECORDS_WITH_CONDITIONS if is_chosen else RECORDS_PER_DOCUMENT)
        remote, level, started = is_remote(source), logger.level, time.monotonic()
        if remote:
            if self._patience_s <= 0 or not reach.hub_is_reachable():
                return None
            source = source.model_copy(update={"streaming": True})
        if few:  # that a length bin is not filled says nothing then
            sample = sample.model_copy(update={"n_documents": few})
            logger.setLevel(logging.ERROR)
        try:
            most = min(getattr(source, "max_documents", None) or most, most)
            batches = read_documents(source, first=most or None).batches
            if place.passages is not None:
                cut = place.passages
                batches = (cut_into_passages(batch, cut)[0] for batch in batches)
            measure = self._measure(sample)
            return sample_documents(batches, sample=sample, measure=measure).documents
        except InputError as error:
            if not remote:
                raise
            logger.error("%s", error)
            return None
        finally:
            logger.setLevel(level)
            self._patience_s -= time.monotonic() - started if remote else 0

    def _measure(self, sample: Sample) -> Measure:
        return self.count if sample.unit == "tokens" else length_measure(sample.unit)

    def _note(self, sample: Sample) -> str:
        """Say if lengths are not measured as the run will; else nothing."""
        if sample.unit != "tokens" or self._loaded[1] == self.length_tokenizer:
            return ""
        wanted, used = self.length_tokenizer, self._loaded[1]
        return f"; lengths counted with {used}: {wanted} cannot be loaded here"

    def texts(self, section: Benchmark, place: Place, data: Path, *, most: int) -> Texts | None:
        """Return texts of one place of a benchmark that asks nobody: its tables', or the source's.

        None where there are neither.
        """
        is_made = self.is_current_build(data, section, place)
        made = self.made_texts(data, place, most=most) if is_made else None
        return made or self.built_texts(section, place, most=most)

    def made_texts(self, data: Path, place: Place, *, most: int) -> Texts | None:
        """Return texts of the tables in a folder that an earlier run made; None without any."""
        paths = data / "corpus.parquet", data / "queries.parquet"
        if not all(path.is_file() for path in paths):
            return None
        corpus = read_columns(paths[0], CORPUS, CORPUS_COLUMNS)
        queries = read_columns(paths[1], QUERIES, QUERY_COLUMNS)
        return texts_of((place,), corpus, queries, most=most, basis="earlier run")

    def built_texts(self, section: Benchmark, place: Place, *, most: int) -> Texts | None:
        """Build one place of a benchmark that asks nobody; None where its source is on the hub.

        A set of questions on the hub is read; a corpus there has no end to wait for.

        Raises
        ------
        InputError
            If the source cannot be read.
        """
        alone = section_at(section, place)
        if isinstance(alone, PosirRelease | Beir):
            is_here = Path(alone.source.path).is_dir()
        else:
            has_end = isinstance(alone, SquadPosq | FinewebPosqRelease)
            is_here = not is_remote(alone.source) or (has_end and reach.hub_is_reachable())
        if not is_here:
            return None
        assert isinstance(alone, Loader)
        built = alone.build(count_words)
        return self.with_tokens(
            texts_of((place,), built.corpus, built.queries, most=most, basis="documents")
        )

    def with_tokens(self, texts: Texts) -> Texts:
        """Return texts whose documents have their ``token_length``."""
        corpus, positives = (
            with_lengths(frame, count_tokens=self.count).select(CORPUS_COLUMNS)
            for frame in (texts.corpus, texts.positives)
        )
        return replace(texts, corpus=corpus, positives=positives)

    def is_current_build(self, data: Path, section: Benchmark, place: Place) -> bool:
        """Say whether the tables in a folder are what a section would be built to now.

        A dataset on the hub counts as the same while its name and revision are.
        """
        path, alone = data / "corpus.parquet", section_at(section, place)
        if not path.is_file():
            return False
        record = read_provenance(path) or {}
        params = build_params(alone, length_tokenizer=self.length_tokenizer)
        made = {key: kept for key, kept in record.get("params", {}).items() if key != "id_prefix"}
        return made == json.loads(json.dumps(params)) and record.get("inputs") == {
            path: content_hash(path) for path in alone.files()
        }


def texts_of(
    places: tuple[Place, ...],
    corpus: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    most: int,
    basis: str,
    n_documents: int | None = None,
    n_queries: int | None = None,
) -> Texts:
    """Take some documents and queries, and the documents of these queries; 0 for all."""
    few = thinned(queries, most).select(QUERY_COLUMNS)
    positives = corpus.filter(pl.col("_id").is_in(few["pos_corpus_id"].implode()))
    counts = n_documents or corpus.height, queries.height if n_queries is None else n_queries
    return Texts(places, thinned(corpus, most), few, positives, *counts, basis)


def thinned(rows: pl.DataFrame, n: int) -> pl.DataFrame:
    """Take ``n`` rows at even distances in the order of their texts' lengths; their order stays.

    0 takes all.
    """
    if not n or rows.height <= n:
        return rows
    by_length = rows.select(pl.col("text").str.len_chars().arg_sort()).to_series()
    places = [(2 * i + 1) * rows.height // (2 * n) for i in range(n)]
    return rows[sorted(by_length.gather(places).to_list())]


def is_remote(source: object) -> bool:
    """Say whether a source lies on the hub and not on this machine."""
    return isinstance(source, HubSource) and not Path(source.name).is_dir()


def is_large(source: Any) -> bool:
    """Say whether a local source is too large to be read whole for an estimate."""
    paths = [Path(path) for path in local_files(source)]
    return sum(path.stat().st_size for path in paths if path.is_file()) > LARGE_MIB * 2**20


def stand_in_documents(sample: Sample, n: int, measure: Measure) -> pl.DataFrame:
    """Make up ``n`` documents with a sample's lengths: DOCUMENTS rows with ``length``.

    Lengths are drawn evenly within the bins, bins by their shares; the text is running text of the
    interpreter's documentation from a drawn word on. Lengths in tokens are right within some per
    cent.
    """
    words, rng = _running_words(), np.random.default_rng(sample.seed)
    rows: list[tuple[str, str, str, int, str]] = []
    borders = list(pairwise(sample.edges))
    parts = quotas(n, sample.shares or [1] * len(borders))
    for (low, high), count in zip(borders, parts, strict=True):
        for length in rng.integers(max(low, 1), high, size=count).tolist():
            start = int(rng.integers(len(words)))
            running = [words[(start + i) % len(words)] for i in range(length)]
            text = " ".join(running)
            end = length if sample.unit == "chars" else len(text)
            for _ in range(3 if sample.unit == "tokens" else 0):  # each comes nearer
                end = end * length // max(1, int(measure([text[:end]])[0]))
            text = text[:end]
            rows.append((f"stand-in-{len(rows):06d}", text, "", length, f"{low}-{high}"))
    return pl.DataFrame(rows, schema=SAMPLED_SCHEMA, orient="row")


@cache
def _running_words() -> list[str]:
    """Return words of the interpreter's documentation, with the breaks between paragraphs."""
    paragraphs: list[str] = []
    n_words = 0
    for page in python_pages():
        paragraphs += (paragraph for paragraph in page.paragraphs if paragraph.strip())
        n_words += sum(len(paragraph.split()) for paragraph in page.paragraphs)
        if n_words >= ENOUGH_WORDS:
            break
    return "\n\n".join(paragraphs).split(" ")


def _personas(section: Personas, made: OfDomain | None, documents: pl.DataFrame) -> pl.DataFrame:
    """Return PERSONA_CANDIDATES rows without encoding anything: any will do for their length.

    Those of an earlier run, if it has all the documents; else the first of the source for each
    document, or placeholders.
    """
    from psibench.generate.personas import read_personas

    if made is not None:
        rows = read_table(made, PERSONA_CANDIDATES)
        own = documents.select("_id").join(rows, on="_id", maintain_order="left")
        if own.height == documents.height:
            return own
    n, source = section.n_candidates, section.source
    personas = [PLACEHOLDER.format(number) for number in range(1, n + 1)]
    if not is_remote(source) or reach.hub_is_reachable():
        if isinstance(source, HubSource):
            source = source.model_copy(update={"streaming": True, "max_documents": n})
        with suppress(InputError):
            personas = read_personas(section.model_copy(update={"source": source}))[:n]
    same = {"_id": documents["_id"], "personas": [personas] * documents.height}
    return pl.DataFrame(same, schema=PERSONAS_SCHEMA)


def _number(section: GeneratedBenchmark, place: Place, most: int) -> int:
    """Return how many documents stand for those of a source that is not read whole."""
    wanted = section.sample.n_documents
    if not most and not wanted:
        raise InputError(
            f"{getattr(place.source, 'name', 'the source')}: all documents of a dataset on the hub,"
            " and sample.n_documents is null; give a number of documents"
        )
    return min(most or wanted or 0, wanted or most)


def _share(section: GeneratedBenchmark) -> float:
    return section.propose_questions.share if isinstance(section, Posir) else 1.0


def _asked(section: GeneratedBenchmark, documents: pl.DataFrame) -> pl.DataFrame:
    """Keep the documents that a benchmark asks about."""
    if not isinstance(section, Posir):
        return documents
    share, seed = section.propose_questions.share, section.propose_questions.seed
    drawn = [is_drawn(doc_id, share=share, seed=seed) for doc_id in documents["_id"]]
    return documents.filter(pl.Series(drawn, dtype=pl.Boolean))
