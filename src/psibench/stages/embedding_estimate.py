"""What embedding services will be asked for a config's benchmarks, and what it will cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from psibench.config.benchmarks import Benchmark, GeneratedBenchmark
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoding_plan import needed_encodings
from psibench.config.llms import MILLION
from psibench.config.lookup import Lookup
from psibench.config.lookup_survey import Survey
from psibench.config.models import Model
from psibench.config.places import places_of, section_at
from psibench.config.planned_texts import TRANSLATION_GROWTH, texts_of
from psibench.config.settings import Config
from psibench.config.views import views_of
from psibench.models.api.ledger import Ledger
from psibench.stages.embedding_counts import UNKNOWN, Count, TextCounter, add_counts
from psibench.stages.encode_blocks import Source, list_sources
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_estimate_texts import built_texts

SAMPLE_TEXTS = 200
"""Documents, and queries, of a source that stand for all of it."""


@dataclass(frozen=True)
class EmbeddingRow:
    """The texts of one benchmark in one language."""

    benchmark: str
    language: str
    count: Count


@dataclass(frozen=True)
class EmbeddingEstimate:
    """One model: its texts by benchmark and language, and what its vectors cost so far.

    ``usd`` and ``spent_usd`` are None without a price.
    """

    model: str
    entry: EmbeddingApiModel
    tokenizer: str
    rows: tuple[EmbeddingRow, ...]
    spent_usd: float | None

    @property
    def total(self) -> Count:
        """The sums of all rows."""
        total = UNKNOWN
        for row in self.rows:
            total = add_counts(total, row.count)
        return total

    @property
    def usd(self) -> float | None:
        """What is still to be paid."""
        return cost(self.entry, self.total)

    @property
    def left_usd(self) -> float | None:
        """What will be left of the budget, below 0 if it is too small; None without one."""
        if self.entry.budget_usd is None or self.usd is None:
            return None
        return self.entry.budget_usd - (self.spent_usd or 0.0) - self.usd


def cost(entry: EmbeddingApiModel, count: Count) -> float | None:
    """Return US dollars for what is to be asked; None without a price."""
    return None if entry.price is None else count.n_tokens * entry.price / MILLION


def estimate_embeddings(
    config: Config,
    models: Mapping[str, Model],
    *,
    results: Path,
    exact: bool = False,
    only: str | None = None,
) -> tuple[EmbeddingEstimate, ...]:
    """Estimate the embedding APIs whose vectors a config's results ask for, where they ask.

    They are models that are evaluated, first stages of rerankers, or recall false negatives.

    Tables that an earlier run made are counted; of other benchmarks the source, where it is on this
    machine, or what the config plans.

    Parameters
    ----------
    results
        Folder of results.
    exact
        Count the tokens of all texts of large tables, too.
    only
        Id of one benchmark; None for all.

    Raises
    ------
    InputError
        If a table or a source is there and cannot be read, or the workflow would refuse the config.
    """
    reading = Reading(config.length_tokenizer)
    lookup = Survey(config, models)
    asked = needed_encodings(lookup)
    found = []
    for name, entry in lookup.models.items():
        if isinstance(entry, EmbeddingApiModel):
            places = {(lookup.base(e.benchmark), e.language) for e in asked if e.model == name}
            estimate = _Estimate(config, name, entry, results, reading, exact=exact)
            found.append(
                estimate.run([place for place in _places(lookup, only) if place in places])
            )
    return tuple(found)


def _places(lookup: Lookup, only: str | None) -> Iterator[tuple[str, str]]:
    """Yield the benchmarks and their languages, all or those of one benchmark."""
    for labels in lookup.benchmark_languages():
        if only in (None, labels["benchmark"]):
            yield labels["benchmark"], labels["lang"]


class _Estimate:
    """The estimate of one model."""

    def __init__(
        self,
        config: Config,
        model: str,
        entry: EmbeddingApiModel,
        results: Path,
        reading: Reading,
        *,
        exact: bool,
    ) -> None:
        self._config, self._model, self._entry = config, model, entry
        self._results, self._reading, self._exact = results, reading, exact
        folder = Path(config.store) / "embeddings" / model
        storage = config.encoding.storage
        self._counter = TextCounter(entry, model=model, folder=folder, storage=storage)
        self._ledger = Ledger(folder, job="", price=entry.price)

    def run(self, places: Sequence[tuple[str, str]]) -> EmbeddingEstimate:
        """Count benchmarks in languages."""
        sections = self._config.benchmarks
        rows = [
            EmbeddingRow(name, language, self._count(name, sections[name], language))
            for name, language in places
        ]
        spent = None if self._entry.price is None else self._ledger.spent_usd()
        return EmbeddingEstimate(
            self._model, self._entry, self._counter.tokenizer, tuple(rows), spent
        )

    def _count(self, name: str, section: Benchmark, language: str) -> Count:
        made = list(self._tables(name, section, language))
        if made:
            return self._counter.tables(made, exact=self._exact)
        n_domains = sum(place.language == language for place in places_of(section))
        if (planned := texts_of(section, language, n_domains=n_domains)) is not None:
            return self._counter.plan(planned)
        return self._of_source(section, language)

    def _tables(self, name: str, section: Benchmark, language: str) -> Iterator[Source]:
        """Find the tables of a benchmark and its views that are there."""
        for view in (name, *views_of(name, section)):
            folder = self._results / view / "data" / language
            domains = sorted(path.parent.name for path in folder.glob("*/corpus.parquet"))
            tables = [folder / domain / "corpus.parquet" for domain in domains]
            queries = [folder / domain / "queries.parquet" for domain in domains]
            yield from (
                source for source in list_sources(domains, tables, queries) if source.path.is_file()
            )

    def _of_source(self, section: Benchmark, language: str) -> Count:
        """Count the texts of a source, or of translations of it."""
        if isinstance(section, GeneratedBenchmark):
            return UNKNOWN
        is_translated = section.translate is not None and language in section.translate.to
        wanted = section.language if is_translated else language
        total = UNKNOWN
        for place in places_of(section):
            if place.language != wanted:
                continue
            alone = section_at(section, place)
            texts = built_texts(alone, place, most=SAMPLE_TEXTS, reading=self._reading)
            if texts is None:
                return UNKNOWN
            growth = TRANSLATION_GROWTH if is_translated else 1.0
            total = add_counts(total, self._counter.source(texts, growth=growth))
        return total
