"""The documents an estimate goes through: the benchmark's own, its source's, or stand-in texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.build.passages import cut_into_passages
from psibench.build.sampling import Measure, length_measure, sample_documents
from psibench.build.stand_in_documents import stand_in_documents
from psibench.config.benchmarks import Controlled, GeneratedBenchmark, Posir
from psibench.config.generation import Sample
from psibench.config.sources import HubSource
from psibench.errors import InputError
from psibench.llm.tokens import count_tokens_or_embedded
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE
from psibench.recipes.posir import is_drawn
from psibench.sources.documents import read_documents
from psibench.sources.reach import hub_is_reachable
from psibench.stages.llm_estimate_personas import estimate_personas
from psibench.stages.sample import is_current
from psibench.tables import read_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.schemas import DOCUMENTS

MADE_UP = "stand-in texts, documentation of more tokens per word than most prose"
RECORDS_PER_DOCUMENT = 25
"""Records of a dataset on the hub looked at per document of the estimate."""


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
    notes
        Where they come from, for people.
    is_made
        Whether they are the benchmark's own, of an earlier run whose sample is the same.
    """

    tables: dict[str, pl.DataFrame]
    n_documents: int
    n_asked: int
    notes: tuple[str, ...]
    is_made: bool

    @property
    def scale(self) -> float:
        """Documents asked about per document in the tables."""
        return self.n_asked / max(1, self.tables[DOCUMENTS_TABLE].height)


def estimate_tables(
    section: GeneratedBenchmark, folder: Path, *, most: int, length_tokenizer: str
) -> EstimateTables:
    """Find documents for an estimate.

    In this order: the table that an earlier run made; the source, if it can be read here, of a
    dataset on the hub the first records; texts made up of the interpreter's documentation, with
    lengths drawn evenly within the sample's bins.

    Parameters
    ----------
    folder
        Where the benchmark's build tables lie, or will.
    most
        Documents in the estimate; 0 for all. Of more, every so-manieth by length is taken.

    Raises
    ------
    InputError
        If a table or a local source is there and cannot be read.
    """
    sample = section.sample
    made = folder / f"{DOCUMENTS_TABLE}.parquet"
    is_made = made.is_file() and is_current(made, section, length_tokenizer=length_tokenizer)
    if is_made:
        whole = read_table(made, DOCUMENTS)
        documents, total, note = _asked(section, whole), whole.height, f"documents of {made}"
        n_asked = documents.height
    else:
        measure, *notes = _measure(sample, length_tokenizer)
        documents, total, note = _from_source(section, measure, most)
        note = "; ".join([note, *notes])
        n_asked = round(total * share_asked(section))
    chosen = spread(documents, most) if most else documents
    tables = {DOCUMENTS_TABLE: chosen}
    if n_asked < total:
        note += f"; {n_asked:,} of all are asked about (propose_questions.share)"
    texts = [f"{chosen.height:,} {note}"]
    if isinstance(section, Controlled):
        personas, about = estimate_personas(section.personas, folder, chosen)
        tables[PERSONA_CANDIDATES.name] = personas
        texts.append(about)
    return EstimateTables(tables, total, n_asked, tuple(texts), is_made)


def share_asked(section: GeneratedBenchmark) -> float:
    """Return the share of its documents that a benchmark asks about."""
    return section.propose_questions.share if isinstance(section, Posir) else 1.0


def asking_all(section: GeneratedBenchmark) -> GeneratedBenchmark:
    """Return a benchmark's section that asks about every document it is given."""
    if not isinstance(section, Posir):
        return section
    proposing = section.propose_questions.model_copy(update={"share": 1.0})
    return section.model_copy(update={"propose_questions": proposing})


def _asked(section: GeneratedBenchmark, documents: pl.DataFrame) -> pl.DataFrame:
    """Keep the documents that a benchmark asks about."""
    if not isinstance(section, Posir):
        return documents
    share, seed = section.propose_questions.share, section.propose_questions.seed
    drawn = [is_drawn(doc_id, share=share, seed=seed) for doc_id in documents["_id"]]
    return documents.filter(pl.Series(drawn, dtype=pl.Boolean))


def spread(documents: pl.DataFrame, n: int) -> pl.DataFrame:
    """Take ``n`` documents at even distances in the order of their lengths; their order stays."""
    if documents.height <= n:
        return documents
    by_length = documents.select(pl.col("text").str.len_chars().arg_sort()).to_series()
    places = [(2 * i + 1) * documents.height // (2 * n) for i in range(n)]
    return documents[sorted(by_length.gather(places).to_list())]


def _from_source(
    section: GeneratedBenchmark, measure: Measure, most: int
) -> tuple[pl.DataFrame, int, str]:
    """Return documents, how many there will be in all, and where they come from."""
    source, sample = section.source, section.sample
    is_remote = isinstance(source, HubSource) and not Path(source.name).is_dir()
    if not is_remote:
        drawn = sample_documents(_batches(section), sample=sample, measure=measure).documents
        return drawn, drawn.height, "documents of the source"
    assert isinstance(source, HubSource)
    n = most or sample.n_documents or 0
    wanted = sample.n_documents or n
    if not n:
        raise InputError(
            f"{source.name}: all documents of a dataset on the hub, and sample.n_documents is null;"
            " give a number of documents"
        )
    about = "" if sample.n_documents else "; sample.n_documents is null: counted for these alone"
    n = min(n, wanted)
    try:
        first = _first_records(source, n)
        few = section.model_copy(update={"source": first, "sample": _fewer(sample, n)})
        drawn = sample_documents(_batches(few), sample=few.sample, measure=measure).documents
        return drawn, wanted, f"documents of the first records of {source.name}{about}"
    except InputError:
        made_up = stand_in_documents(sample, n, measure)
        return made_up, wanted, f"{MADE_UP} ({source.name} cannot be read here){about}"


def _first_records(source: HubSource, n: int) -> HubSource:
    if not hub_is_reachable():
        raise InputError(f"{source.name}: the hub is out of reach")
    most = RECORDS_PER_DOCUMENT * n
    records = min(source.max_documents or most, most)
    return source.model_copy(update={"streaming": True, "max_documents": records})


def _fewer(sample: Sample, n: int) -> Sample:
    return sample.model_copy(update={"n_documents": n})


def _batches(section: GeneratedBenchmark) -> Iterator[pl.DataFrame]:
    for batch in read_documents(section.source).batches:
        if section.passages is None:
            yield batch
        else:
            yield cut_into_passages(batch, section.passages)[0]


def _measure(sample: Sample, length_tokenizer: str) -> tuple[Measure, *tuple[str, ...]]:
    """Return the sample's measure, and a note if it is not the one the run will use."""
    if sample.unit != "tokens":
        return (length_measure(sample.unit),)
    count, used = count_tokens_or_embedded(length_tokenizer)
    if used == length_tokenizer:
        return (count,)
    return count, f"lengths counted with {used}: {length_tokenizer} cannot be loaded here"
