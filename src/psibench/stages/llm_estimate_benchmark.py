"""The estimate of one benchmark over all its languages and domains."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from psibench.config.benchmarks import Benchmark, GeneratedBenchmark
from psibench.config.places import Place, places_of, section_at
from psibench.recipes.steps import tasks_of
from psibench.stages.llm_estimate import Estimated, Estimator, TaskEstimate
from psibench.stages.llm_estimate_documents import EstimateTables, Placed, estimate_places
from psibench.stages.llm_estimate_notes import document_notes, text_notes
from psibench.stages.llm_estimate_results import BenchmarkEstimate, PlaceEstimate
from psibench.stages.llm_estimate_sizes import asking_all
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_estimate_task import merge_tasks
from psibench.stages.llm_estimate_texts import (
    Texts,
    built_texts,
    expected_texts,
    is_current_build,
    made_texts,
)
from psibench.stages.llm_estimate_translation import translation_estimates

FEWEST_TEXTS = 8
"""Documents of each domain whose translation goes through, at least."""


@dataclass(frozen=True)
class EstimateJob:
    """One benchmark to estimate.

    Attributes
    ----------
    folder
        The benchmark's folder of results; the tables made so far are used.
    most
        Documents that go through the tasks, shared out among its places; 0 for all.
    """

    name: str
    section: Benchmark
    folder: Path
    estimator: Estimator
    reading: Reading
    most: int

    def run(self) -> BenchmarkEstimate:
        """Estimate all tasks of the benchmark: written, judged, translated."""
        if isinstance(self.section, GeneratedBenchmark):
            return self._generated(self.section)
        return self._translated_alone()

    def _generated(self, section: GeneratedBenchmark) -> BenchmarkEstimate:
        """Estimate a benchmark whose queries a language model writes."""
        placed: list[Placed] = []
        for place in places_of(self.section):
            alone = section_at(self.section, place)
            assert isinstance(alone, GeneratedBenchmark)
            placed.append((place, alone))
        build = self.folder / "build"
        found = estimate_places(placed, build, most=self.most, reading=self.reading)
        estimated = [self._estimated(section, tables) for tables in found]
        named = Counter(task.stage.stage for one in estimated for task in one.tasks)
        texts = self._texts_of(found, estimated)
        few = max((one.corpus.height for one in texts), default=0) if self.most else 0
        written = merge_tasks(task for one in estimated for task in one.tasks)
        return BenchmarkEstimate(
            name=self.name,
            recipe=section.recipe,
            places=_counted(found, [place for place, _ in placed]),
            n_here=sum(tables.documents.height for tables in found),
            tasks=(*written, *self._translations(texts, few)),
            notes=(*document_notes(found), *text_notes(texts)),
            uncounted=tuple(
                task.name for task, _ in tasks_of(section) if named[task.name] < len(found)
            ),
        )

    def _estimated(self, section: GeneratedBenchmark, tables: EstimateTables) -> Estimated:
        """Estimate the tasks that write and judge, of one place or of several alike."""
        return self.estimator.estimate(
            asking_all(section),
            tables.tables,
            scale=tables.scale,
            made=self._folder("build", tables.places[0]) if tables.is_made else None,
            most=tables.documents.height if self.most else 0,
        )

    def _texts_of(
        self, found: Sequence[EstimateTables], estimated: Sequence[Estimated]
    ) -> list[Texts]:
        """Return what is translated: tables of a run with these documents, or what they become."""
        texts: list[Texts] = []
        if self.section.translate is None:
            return texts
        language = self.section.language
        n_places = sum(place.language == language for one in found for place in one.places)
        for tables, one in zip(found, estimated, strict=True):
            own = sum(place.language == language for place in tables.places)
            if not own:
                continue
            few = self._few(own, n_places)
            at, made = tables.places[0], None
            if tables.is_made:
                made = made_texts(self._folder("data", at), at, most=few)
            asked = (tables, one.candidates, language)
            texts.append(made or expected_texts(*asked, most=few, reading=self.reading))
        return texts

    def _translated_alone(self) -> BenchmarkEstimate:
        """Estimate a benchmark of which only the translation asks a language model."""
        section = self.section
        places = [place for place in places_of(section) if place.language == section.language]
        few = self._few(1, len(places))
        found = [(place, self._texts_at(place, few)) for place in places]
        texts = [one for _, one in found if one is not None]
        return BenchmarkEstimate(
            name=self.name,
            recipe=section.recipe,
            places=tuple(
                PlaceEstimate(at.language, at.domain, None if one is None else one.n_documents)
                for at, one in found
            ),
            n_here=sum(one.corpus.height for one in texts),
            tasks=tuple(self._translations(texts, few)),
            notes=tuple(text_notes(texts)),
            unread=tuple(f"{at.language}/{at.domain}" for at, one in found if one is None),
        )

    def _texts_at(self, place: Place, few: int) -> Texts | None:
        """Return the texts of one place: of an earlier run, else built here; None if neither."""
        alone, data = section_at(self.section, place), self._folder("data", place)
        made = None
        if is_current_build(data, alone, length_tokenizer=self.reading.wanted):
            made = made_texts(data, place, most=few)
        return made or built_texts(alone, place, most=few, reading=self.reading)

    def _translations(self, texts: Sequence[Texts], few: int) -> list[TaskEstimate]:
        if not texts:
            return []
        build, count = self.folder / "build", self.reading.count
        return translation_estimates(
            self.section, texts, self.estimator, build, count_tokens=count, most=few
        )

    def _few(self, n_here: int, n_places: int) -> int:
        """Return how many documents some of the places give to be translated; 0 for all."""
        return max(FEWEST_TEXTS, -(-self.most * n_here // n_places)) if self.most else 0

    def _folder(self, kind: str, place: Place) -> Path:
        return self.folder / kind / place.language / place.domain


def _counted(found: Sequence[EstimateTables], places: Sequence[Place]) -> tuple[PlaceEstimate, ...]:
    """Give every place its documents; of several alike each has the same number."""
    counts = {
        (at.language, at.domain): tables.n_documents // len(tables.places)
        for tables in found
        for at in tables.places
    }
    return tuple(
        PlaceEstimate(at.language, at.domain, counts[at.language, at.domain]) for at in places
    )
