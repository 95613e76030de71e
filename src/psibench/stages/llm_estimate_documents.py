"""The documents an estimate goes through: the benchmark's own, its source's, or stand-in texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from psibench.build.stand_in_documents import stand_in_documents
from psibench.config.benchmarks import Controlled, GeneratedBenchmark
from psibench.config.places import Place
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE
from psibench.stages.llm_estimate_personas import estimate_personas
from psibench.stages.llm_estimate_sizes import (
    documents_asked,
    few_of,
    share_asked,
    share_of_place,
    unbounded,
)
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.sample import is_current
from psibench.tables import read_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.schemas import DOCUMENTS

Placed = tuple[Place, GeneratedBenchmark]
"""A place, and its benchmark's section as if that place were all of it."""

CHARS = pl.col("text").str.len_chars()
MADE_UP = "stand-in texts, documentation of more tokens per word than most prose"


@dataclass(frozen=True)
class EstimateTables:
    """Tables of some documents, and what they stand for.

    Attributes
    ----------
    tables
        ``documents``, and ``persona_candidates`` where the recipe reads them.
    n_documents
        Documents the benchmark has or will have; those in the tables if nobody can tell.
    n_asked
        Those of them that are asked about: the tables hold no others.
    origin
        Where the documents come from, for people.
    personas
        Where the persona candidates come from; "" without any.
    is_made
        Whether they are the benchmark's own, of an earlier run whose sample is the same.
    places
        The places that they are of, or stand for.
    """

    tables: dict[str, pl.DataFrame]
    n_documents: int
    n_asked: int
    origin: str
    personas: str
    is_made: bool
    places: tuple[Place, ...] = ()

    @property
    def documents(self) -> pl.DataFrame:
        """The documents."""
        return self.tables[DOCUMENTS_TABLE]

    @property
    def scale(self) -> float:
        """Documents asked about per document in the tables."""
        return self.n_asked / max(1, self.documents.height)


def estimate_places(
    placed: Sequence[Placed], build: Path, *, most: int, reading: Reading
) -> list[EstimateTables]:
    """Find documents for each of a benchmark's places; those out of reach share one estimate.

    In this order: the table that an earlier run made; the source, if it can be read here, of a
    large one or one on the hub the first records; texts made up of the interpreter's documentation,
    with lengths drawn evenly within the sample's bins.

    Parameters
    ----------
    placed
        The places, each with the benchmark's section as if it were all of it.
    build
        Folder of the benchmark's build tables; a place has LANGUAGE/DOMAIN below it.
    most
        Documents in the estimate, shared out among the places, 0 for all; see `share_of_place`.
        Of more, every so-manieth by length is taken.

    Raises
    ------
    InputError
        If a table or a local source is there and cannot be read.
    """
    share = share_of_place(placed[0][1].sample, most, len(placed))
    found: list[EstimateTables] = []
    beyond: list[Placed] = []
    for place, section in placed:
        tables = _readable(section, build / place.language / place.domain, share, reading)
        if tables is None:
            beyond.append((place, section))
        else:
            found.append(replace(tables, places=(place,)))
    if beyond:
        fair = max(share, most * len(beyond) // len(placed)) if most else 0
        found.append(_made_up(beyond, build, fair, reading))
    return found


def estimate_tables(
    section: GeneratedBenchmark, folder: Path, *, most: int, length_tokenizer: str
) -> EstimateTables:
    """Find documents for a benchmark of one place, whose build tables lie in ``folder``, or will.

    As `estimate_places`.
    """
    assert section.source is not None
    reading = Reading(length_tokenizer)
    place = Place(section.language, section.domain, section.source, section.passages, "source")
    found = _readable(section, folder, most, reading)
    return found or _made_up([(place, section)], folder.parent.parent, most, reading)


def _readable(
    section: GeneratedBenchmark, folder: Path, most: int, reading: Reading
) -> EstimateTables | None:
    """Return documents of an earlier run or of the source; None if it is out of reach."""
    source, sample = section.source, section.sample
    assert source is not None
    path = folder / f"{DOCUMENTS_TABLE}.parquet"
    if path.is_file() and is_current(
        path, source, section.passages, sample, length_tokenizer=reading.wanted
    ):
        whole = read_table(path, DOCUMENTS)
        asked = documents_asked(section, whole)
        counts = (whole.height, asked.height)
        return _chosen(section, folder, asked, counts, f"documents of {path}", most, is_made=True)
    drawn = reading.draw(section, most)
    if drawn is None:
        return None
    counts = (drawn.n_documents, round(drawn.n_documents * share_asked(section)))
    origin = drawn.origin + reading.note(sample)
    return _chosen(section, folder, drawn.documents, counts, origin, most)


def _made_up(placed: Sequence[Placed], build: Path, most: int, reading: Reading) -> EstimateTables:
    """Return texts that stand for the documents of places out of reach, whose samples are alike."""
    place, section = placed[0]
    sample, n = section.sample, few_of(section, most)
    documents = stand_in_documents(sample, n, reading.measure(sample))
    wanted = len(placed) * sample.n_documents if sample.n_documents else n
    counts = (wanted, round(wanted * share_asked(section)))
    names = list(dict.fromkeys(getattr(one.source, "name", one.key) for one, _ in placed))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    origin = f"{MADE_UP} ({names[0]}{more} cannot be read here){unbounded(sample)}"
    folder = build / place.language / place.domain
    made = _chosen(section, folder, documents, counts, origin + reading.note(sample), most)
    return replace(made, places=tuple(one for one, _ in placed))


def _chosen(
    section: GeneratedBenchmark,
    folder: Path,
    documents: pl.DataFrame,
    counts: tuple[int, int],
    origin: str,
    most: int,
    *,
    is_made: bool = False,
) -> EstimateTables:
    """Take some of the documents, and add the other tables that the first task reads."""
    n_documents, n_asked = counts
    few = spread(documents, most) if most else documents
    tables, about = {DOCUMENTS_TABLE: few}, ""
    if isinstance(section, Controlled):
        personas, about = estimate_personas(section.personas, folder, few)
        tables[PERSONA_CANDIDATES.name] = personas
    return EstimateTables(tables, n_documents, n_asked, origin, about, is_made)


def spread(documents: pl.DataFrame, n: int, length: pl.Expr = CHARS) -> pl.DataFrame:
    """Take ``n`` documents at even distances in the order of their lengths; their order stays."""
    if documents.height <= n:
        return documents
    by_length = documents.select(length.arg_sort()).to_series()
    places = [(2 * i + 1) * documents.height // (2 * n) for i in range(n)]
    return documents[sorted(by_length.gather(places).to_list())]
