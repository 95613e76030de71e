"""The table of a config's work with what is known beyond the config: a run's tables, a source.

All that `plan` and `estimate` read of results/ is read here. Texts of a benchmark are those of its
tables, where these are of today's sample; else what the config plans; else what a source on this
machine holds, if it is not too large to be read whole.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from psibench.config.sources import HubSource
from psibench.generate.base import GeneratedBenchmark
from psibench.generate.loaders import Loader
from psibench.generate.loaders.known_item import KnownItem
from psibench.generate.recipes import UNITS
from psibench.generate.sampling import cut_into_passages, is_current
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.texts import (
    QUERY_TOKENS,
    TRANSLATION_GROWTH,
    Texts,
    queries_per_document,
    tokens_per_unit,
)
from psibench.plan.work import Planned, Used, by_config
from psibench.sources.documents import read_documents
from psibench.sources.local import local_files
from psibench.tables.columns import read_columns
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_words
from psibench.text.segments import POSITIONS

if TYPE_CHECKING:
    from psibench.plan.plan import Plan

NOT_A_TABLE = (pl.exceptions.ColumnNotFoundError, pl.exceptions.ComputeError)
LARGE_MIB = 256
"""Local files of more than this are not read whole."""


class Measured(Planned):
    """Counts by what earlier runs measured; jobs are cut by the config all the same.

    Parameters
    ----------
    results
        Folder of results; it need not exist.

    Raises
    ------
    InputError
        From all that counts: if a table or a local source is there and cannot be read.
    """

    def __init__(self, plan: "Plan", results: Path) -> None:
        super().__init__(plan, cut=by_config(plan))
        self.results = results

    # Texts

    def find_texts(self, name: str, language: str) -> tuple[Texts, str] | None:
        """Return the texts of a benchmark or view in a language, and what they rest on."""
        tables = self._tables(name, language) if self._is_of_sample(name, language) else None
        if tables is not None:
            return tables, "tables"
        if (found := super().find_texts(name, language)) is not None:
            return found
        source = _source(self.plan.named[name], language)
        return None if source is None else (source, "source")

    def _is_of_sample(self, name: str, language: str) -> bool:
        """Say whether a run drew the documents that would be drawn now, as far as can be told."""
        planned = self.plan.benchmarks[self.plan.named[name].base]
        if not isinstance(section := planned.section, GeneratedBenchmark):
            return True
        source = section.language if language in planned.translated else language
        for part, domains in planned.parts.get(source, {}).items():
            path = self.results / planned.id / "build" / f"{source}{part}" / "documents.parquet"
            for place in (planned.place(source, domain) for domain in domains):
                if path.is_file() and not is_current(
                    OfDomain(str(path), place.domain),
                    place.source,  # type: ignore[arg-type]
                    place.passages,
                    section.sample,
                    length_tokenizer=self.plan.config.length_tokenizer,
                ):
                    return False
        return True

    def _tables(self, name: str, language: str) -> Texts | None:
        """Read the tables of a benchmark or view; those of the benchmark stand for its views."""
        planned = self.plan.named[name]
        for one in dict.fromkeys((name, planned.base)):
            folder = self.results / one / "data" / language
            corpora = sorted(folder.glob("*/corpus.parquet"))
            queries = sorted(folder.glob("*/queries.parquet"))
            if min(len(corpora), len(queries)) >= max(1, len(planned.domains(language))):
                break
        else:
            return None
        lengths = Counter[float]()
        for path in corpora:
            lengths.update(read_columns(path, CORPUS, ["token_length"])["token_length"])
        asked = pl.concat(read_columns(path, QUERIES, ["text"])["text"] for path in queries)
        n_tokens = int(asked.str.len_chars().sum()) * tokens_per_unit("chars", language)
        return Texts(tuple(sorted(lengths.items())), len(asked), n_tokens / max(1, len(asked)))

    # What filters left, what tasks used, what is encoded

    def kept(self, name: str, language: str, step: str) -> float | None:
        """Return the share of candidates that a step kept in a run; None before one."""
        planned, folder = self.plan.benchmarks[name], self.results / name / "build"
        places = [*planned.parts[language], *(f"/{one}" for one in planned.domains(language))]
        paths = [folder / f"{language}{place}" / f"{step}.flow.parquet" for place in places]
        rows = _read(paths, ["unit", "step", "entered", "kept"])
        rows = rows.filter(pl.col("unit") == UNITS[planned.generated.recipe])
        if rows.is_empty():
            return None
        first, last = (pl.col("step") == end for end in (rows["step"].min(), rows["step"].max()))
        entered, kept = (
            int(rows.filter(first)["entered"].sum()),
            int(rows.filter(last)["kept"].sum()),
        )
        return kept / entered if entered else None

    def used(self, name: str, language: str, task: str) -> Used | None:
        """Return what a task used in a language, as far as its jobs are done; None before any."""
        planned, paths, is_complete = self.plan.benchmarks[name], list[Path](), True
        for part in planned.asked_in(task, language):
            folder = self.results / name / "build" / f"{language}{part}"
            whole = folder / f"{task}.usage.parquet"
            is_complete &= whole.is_file()
            shards = [f"{task}/{shard}" for shard in planned.task_shards(task, language)]
            done = [task] if whole.is_file() else shards
            paths += [folder / f"{one}.usage.parquet" for one in done]
        rows = _read(paths, ["model", "prompt_hash", "n_items", "input_tokens", "output_tokens"])
        if rows.is_empty() or not (n := int(rows["n_items"].sum())):
            return None
        asked = planned.tasks[task]
        model, prompt = self.plan.llms[asked.section.llm].model, asked.prompt
        same = (pl.col("model") == model) & (pl.col("prompt_hash") == (prompt and prompt.hash))
        is_of_sample = self._is_of_sample(name, language)
        return Used(
            tokens_in=int(rows["input_tokens"].sum()) / n,
            tokens_out=int(rows["output_tokens"].sum()) / n,
            items=n if is_complete and is_of_sample else None,
            answered=int(rows.filter(same)["n_items"].sum()) if is_of_sample else 0,
        )

    def is_encoded(self, name: str, model: str, language: str) -> bool:
        """Say whether the vectors of today's texts are there."""
        path = self.results / name / "encodings" / model / f"{language}.parquet"
        return path.is_file() and self._is_of_sample(name, language)


def _read(paths: Iterable[Path], columns: list[str]) -> pl.DataFrame:
    """Read columns of the tables that are there and have them: a run may be writing others."""
    frames = [pl.DataFrame(schema=dict.fromkeys(columns, pl.Null))]
    for path in paths:
        with suppress(FileNotFoundError, *NOT_A_TABLE):
            frames.append(pl.read_parquet(path, columns=columns))
    return pl.concat(frames, how="vertical_relaxed")


def _source(planned: PlannedBenchmark, language: str) -> Texts | None:
    """Count the documents of local sources that are not large; a translation is longer."""
    section, lengths, n_queries = planned.section, Counter[float](), 0.0
    is_translated = language in planned.translated
    grow = TRANSLATION_GROWTH if is_translated else 1.0
    source = section.language if is_translated else language
    places = [at for at in planned.places if at.language == source]
    if not places or not all(_is_readable(section, place.source) for place in places):
        return None
    for place in places:
        one: Any = planned.section_at(place.language, place.domain)
        if isinstance(one, Loader) and not isinstance(one, KnownItem):
            built = one.build(count_words)
            documents, n_queries = built.corpus, n_queries + built.queries.height
        else:
            batches = read_documents(place.source).batches  # type: ignore[arg-type]
            cut = place.passages
            documents = pl.concat(
                (batch if cut is None else cut_into_passages(batch, cut)[0] for batch in batches),
                how="diagonal",  # pages are known in some alone
            )
        if isinstance(one, KnownItem):  # at most: to simulate them takes long
            n_queries += documents.height * len(POSITIONS) * one.queries_per_third
        tokens = documents["text"].str.len_chars() * tokens_per_unit("chars", source)
        if isinstance(one, GeneratedBenchmark):
            per_unit = tokens_per_unit(one.sample.unit, source)
            low, high = (edge * per_unit for edge in (one.sample.edges[0], one.sample.edges[-1]))
            tokens = tokens.filter(tokens.is_between(low, high, closed="left"))
        lengths.update(grow * tokens)
    if isinstance(section, GeneratedBenchmark):
        n_queries = lengths.total() * queries_per_document(section)
    return Texts(tuple(sorted(lengths.items())), round(n_queries), QUERY_TOKENS * grow)


def _is_readable(section: Any, source: Any) -> bool:
    """Say whether all that a place is read from is on this machine and small enough."""
    evidence = getattr(section, "evidence", None)
    beside = [evidence.source, getattr(evidence, "documents", None)] if evidence else []
    for one in filter(None, [source, *beside]):
        where = getattr(one, "path", None)
        if isinstance(one, HubSource) and not Path(one.name).is_dir():
            return False
        if where is not None and not Path(where).exists():
            return False
    paths = [Path(path) for path in local_files(source)]
    return sum(path.stat().st_size for path in paths if path.is_file()) <= LARGE_MIB * 2**20
