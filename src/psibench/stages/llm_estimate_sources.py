"""Documents read for an estimate: a source's own, of a large or remote one the first records."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.build.passages import cut_into_passages
from psibench.build.sampling import Measure, length_measure, sample_documents
from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.corpora import Passages
from psibench.config.generation import Sample
from psibench.config.sources import DocumentSource, HubSource
from psibench.errors import InputError
from psibench.llm.tokens import count_tokens_or_embedded
from psibench.sources.documents import read_documents
from psibench.sources.local import local_files
from psibench.sources.reach import hub_is_reachable
from psibench.stages.llm_estimate_sizes import few_of, is_remote, records_for, unbounded
from psibench.text.lengths import TokenCounter

LARGE_MIB = 256
"""Local files of more than this are not read whole, if the sample has a number of documents."""
PATIENCE_S = 60.0
"""Reading from the hub begins no more once it took this long in all."""

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Drawn:
    """Some documents (`sample_documents`), how many there will be in all, where they are from."""

    documents: pl.DataFrame
    n_documents: int
    origin: str


class Reading:
    """Reads documents for estimates, a tokenizer once, and not for ever from the hub.

    Parameters
    ----------
    length_tokenizer
        The config's.

    Attributes
    ----------
    wanted
        The same.
    """

    def __init__(self, length_tokenizer: str) -> None:
        self.wanted = length_tokenizer
        self._loaded: tuple[TokenCounter, str] | None = None
        self._patience_s = PATIENCE_S

    @property
    def count(self) -> TokenCounter:
        """Return what counts tokens: the embedded tokenizer where the config's cannot be had."""
        return self._load()[0]

    @property
    def tokenizer(self) -> str:
        """Return the name of what tokens are counted with."""
        return self._load()[1]

    def measure(self, sample: Sample) -> Measure:
        """Return a sample's measure."""
        return self.count if sample.unit == "tokens" else length_measure(sample.unit)

    def note(self, sample: Sample) -> str:
        """Say if the sample's measure is not the one the run will use; else nothing."""
        if sample.unit != "tokens" or self.tokenizer == self.wanted:
            return ""
        return f"; lengths counted with {self.tokenizer}: {self.wanted} cannot be loaded here"

    def draw(self, section: GeneratedBenchmark, most: int) -> Drawn | None:
        """Draw documents from the one source of a section; None if it is out of reach.

        Parameters
        ----------
        most
            Documents to draw from a source that is not read whole; 0: as many as the sample has.

        Raises
        ------
        InputError
            If a local source cannot be read, or nobody says how many documents of one on the hub.
        """
        source, sample = section.source, section.sample
        assert source is not None
        if is_remote(source):
            return self._first_of_remote(section, source, few_of(section, most))
        if sample.n_documents is None or not most or not _is_large(source):
            drawn = self._sampled(source, section.passages, sample)
            return Drawn(drawn, drawn.height, "documents of the source")
        drawn = self._first(source, section.passages, sample, few_of(section, most))
        return Drawn(drawn, sample.n_documents, "documents of the source's first records")

    def _first_of_remote(
        self, section: GeneratedBenchmark, source: HubSource, n: int
    ) -> Drawn | None:
        if self._patience_s <= 0 or not hub_is_reachable():
            return None
        started = time.monotonic()
        records = records_for(source, n)
        most = min(source.max_documents or records, records)
        few = source.model_copy(update={"streaming": True, "max_documents": most})
        try:
            drawn = self._first(few, section.passages, section.sample, n)
        except InputError as error:
            logger.warning("%s", error)
            return None
        finally:
            self._patience_s -= time.monotonic() - started
        origin = f"documents of the first records of {source.name}{unbounded(section.sample)}"
        return Drawn(drawn, section.sample.n_documents or n, origin)

    def _first(
        self, source: DocumentSource, passages: Passages | None, sample: Sample, n: int
    ) -> pl.DataFrame:
        """Draw ``n`` documents from the first records of a source."""
        with _quiet():  # that a length bin is not filled says nothing here
            few = sample.model_copy(update={"n_documents": n})
            return self._sampled(source, passages, few, most=records_for(source, n))

    def _sampled(
        self, source: DocumentSource, passages: Passages | None, sample: Sample, most: int = 0
    ) -> pl.DataFrame:
        batches = _cut(_begin(read_documents(source).batches, most), passages)
        measure = self.measure(sample)
        return sample_documents(batches, sample=sample, measure=measure).documents

    def _load(self) -> tuple[TokenCounter, str]:
        if self._loaded is None:
            self._loaded = count_tokens_or_embedded(self.wanted)
        return self._loaded


def _is_large(source: DocumentSource) -> bool:
    paths = [Path(path) for path in local_files(source)]
    return sum(path.stat().st_size for path in paths if path.is_file()) > LARGE_MIB * 2**20


def _begin(batches: Iterator[pl.DataFrame], most: int) -> Iterator[pl.DataFrame]:
    """Yield batches until so many documents have come; all of them for 0."""
    left = most
    for batch in batches:
        yield batch.head(left) if most else batch
        left -= batch.height
        if most and left <= 0:
            return


def _cut(batches: Iterator[pl.DataFrame], passages: Passages | None) -> Iterator[pl.DataFrame]:
    for batch in batches:
        yield batch if passages is None else cut_into_passages(batch, passages)[0]


@contextmanager
def _quiet() -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
