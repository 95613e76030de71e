"""What is known of a config's work beyond the config: a run's tables, its stores, a local source.

All that `plan` and `estimate` read of results/ and store/ is read here. Texts of a benchmark are
those of its tables, where these are of today's sample; else what the config plans; else what a
source on this machine holds, if it is not too large to be read whole.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import EncoderModel, ModelBase
from psibench.config.sources import HubSource
from psibench.encode.api_texts import load_api_texts
from psibench.encode.store import EmbeddingStore, text_key
from psibench.errors import InputError
from psibench.generate.ask import answer_folder
from psibench.generate.base import GeneratedBenchmark
from psibench.generate.benchmarks import Place
from psibench.generate.loaders import Loader
from psibench.generate.loaders.known_item import KnownItem
from psibench.generate.recipes import TASKS, UNITS
from psibench.generate.sampling import cut_into_passages, is_current
from psibench.llm.answer_store import stored_usage
from psibench.llm.ledger import Ledger
from psibench.llm.usage import Usage
from psibench.models.checkpoints import EMBEDDED_PREFIX, local_folder, read_json
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.plan import Plan
from psibench.plan.texts import (
    QUERY_TOKENS,
    TRANSLATION_GROWTH,
    Counts,
    LengthBin,
    PlannedTexts,
    filtered_counts,
    queries_per_document,
    tokens_per_unit,
)
from psibench.sources.documents import read_documents
from psibench.sources.local import local_files
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.columns import read_columns
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_words
from psibench.text.segments import POSITIONS

LARGE_MIB = 256
"""Local files of more than this are not read whole."""


@dataclass(frozen=True)
class Used:
    """What a task was asked for in one language so far, by its jobs that are done.

    ``answered`` of the ``items`` were asked with today's template, model and documents.
    """

    items: int
    answered: int
    input_tokens: int
    output_tokens: int
    is_complete: bool


class Measured:
    """Looks for what earlier runs measured, everything once.

    Parameters
    ----------
    results
        Folder of results; it need not exist.
    """

    def __init__(self, plan: Plan, results: Path) -> None:
        self.plan, self.results = plan, results
        self.texts = cache(self._texts)
        self.counts = cache(self._counts)
        self.is_of_sample = cache(self._is_of_sample)

    # Texts

    def _texts(self, name: str, language: str) -> tuple[PlannedTexts, str] | None:
        """Return the texts of a benchmark or view in a language, and what they rest on.

        ``tables``, ``plan`` or ``source``; None where nothing is known.

        Raises
        ------
        InputError
            If a table or a local source is there and cannot be read.
        """
        tables = self._tables(name, language) if self.is_of_sample(name, language) else None
        if tables is not None:
            return tables, "tables"
        if (planned := self.plan.planned(name, language)) is not None:
            return planned, "plan"
        source = self._source(self.plan.named[name], language)
        return None if source is None else (source, "source")

    def _counts(self, name: str, language: str) -> Counts | None:
        """Count what a benchmark has in a language, by what filters left in a run."""
        planned = self.plan.benchmarks[name]
        if (found := self.texts(name, language)) is None:
            return None
        (texts, basis), section = found, planned.section
        n = float(texts.n_queries)
        if language in planned.translated:
            source = None if basis == "tables" else self.counts(name, section.language)
            return Counts(texts, basis, n, source.left if source else (n, n))
        if not isinstance(section, GeneratedBenchmark):
            return Counts(texts, basis, n, (n, n))

        def share(step: str) -> float | None:
            entered, left = self.kept(name, language, step) or (0, 0)
            return left / entered if entered else None

        asked_for = (self.plan.planned(name, language) or texts).n_queries
        written = share(TASKS[section.recipe][-1].name)
        candidates = asked_for * (1.0 if written is None else written)
        counts = filtered_counts(section, texts, candidates, basis=basis, kept=share)
        return replace(counts, left=(n, n)) if basis == "tables" else counts

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

    def _tables(self, name: str, language: str) -> PlannedTexts | None:
        """Read the tables of a benchmark or view; those of the benchmark stand for its views."""
        base = self.plan.named[name].base
        n_domains = len(self.plan.named[name].domains(language))
        for one in dict.fromkeys((name, base)):
            folder = self.results / one / "data" / language
            corpora = sorted(folder.glob("*/corpus.parquet"))
            queries = sorted(folder.glob("*/queries.parquet"))
            if corpora and len(corpora) >= n_domains:
                break
        else:
            return None
        lengths = Counter[int]()
        for path in corpora:
            lengths.update(read_columns(path, CORPUS, ["token_length"])["token_length"])
        bins = tuple(LengthBin(n - 0.5, n + 0.5, count) for n, count in sorted(lengths.items()))
        asked = [read_columns(path, QUERIES, ["text"])["text"] for path in queries]
        n_queries = sum(map(len, asked))
        n_chars = sum(int(texts.str.len_chars().sum()) for texts in asked)
        tokens = n_chars / max(1, n_queries) * tokens_per_unit("chars", language)
        return PlannedTexts(bins, n_queries, tokens)

    def _source(self, planned: PlannedBenchmark, language: str) -> PlannedTexts | None:
        """Count the documents of local sources that are not large; a translation is longer."""
        section, lengths, n_queries = planned.section, Counter[float](), 0.0
        grow = TRANSLATION_GROWTH if language in planned.translated else 1.0
        source = section.language if language in planned.translated else language
        places = [at for at in planned.places if at.language == source]
        if not places or not all(_is_readable(planned, place) for place in places):
            return None
        per_char = tokens_per_unit("chars", source)
        for place in places:
            one: Any = planned.section_at(place.language, place.domain)
            if isinstance(one, Loader) and not isinstance(one, KnownItem):
                built = one.build(count_words)
                documents, n_queries = built.corpus, n_queries + built.queries.height
            else:
                documents = pl.concat(_documents(place))
            if isinstance(one, KnownItem):  # at most: to simulate them takes long
                n_queries += documents.height * len(POSITIONS) * one.queries_per_third
            tokens = documents["text"].str.len_chars() * per_char
            if isinstance(one, GeneratedBenchmark):
                per_unit = tokens_per_unit(one.sample.unit, source)
                low, high = (
                    edge * per_unit for edge in (one.sample.edges[0], one.sample.edges[-1])
                )
                tokens = tokens.filter(tokens.is_between(low, high, closed="left"))
            lengths.update(tokens)
        bins = tuple(
            LengthBin(grow * (n - 0.5), grow * (n + 0.5), count)
            for n, count in sorted(lengths.items())
        )
        if isinstance(section, GeneratedBenchmark):
            n_queries = lengths.total() * queries_per_document(section)
        return PlannedTexts(bins, round(n_queries), QUERY_TOKENS * grow)

    # What filters left, and what tasks used

    def kept(self, name: str, language: str, step: str) -> tuple[int, int] | None:
        """Return how many candidates a step was given and how many it kept, in a run."""
        planned = self.plan.benchmarks[name]
        if language in planned.translated:
            return None
        folder, unit = self.results / name / "build", UNITS[planned.generated.recipe]
        paths = [
            folder / f"{language}{part}" / f"{step}.flow.parquet"
            for part in planned.parts[language]
        ]
        paths += [
            folder / language / domain / f"{step}.flow.parquet"
            for domain in planned.domains(language)
        ]
        rows = _rows(paths, FLOW, ["unit", "step", "entered", "kept"])
        rows = rows.filter(pl.col("unit") == unit)
        if rows.is_empty():
            return None
        first, last = (pl.col("step") == end for end in (rows["step"].min(), rows["step"].max()))
        return int(rows.filter(first)["entered"].sum()), int(rows.filter(last)["kept"].sum())

    def used(self, name: str, language: str, task: str) -> Used | None:
        """Return what a task used in a language, as far as its jobs are done; None before any."""
        planned = self.plan.benchmarks[name]
        asked, paths, is_complete = planned.tasks[task], list[Path](), True
        for part in planned.asked_in(task, language):
            folder = self.results / name / "build" / f"{language}{part}"
            whole = folder / f"{task}.usage.parquet"
            found = [whole] if whole.is_file() else sorted(folder.glob(f"{task}/*.usage.parquet"))
            n_wanted = 1 if whole.is_file() else len(planned.task_shards(task, language))
            paths, is_complete = paths + found, is_complete and len(found) >= n_wanted
        columns = ["model", "n_items", "input_tokens", "output_tokens", "prompt_hash"]
        rows = _rows(paths, LLM_USAGE, columns)
        n_items, n_in, n_out = rows.select(columns[1:4]).sum().row(0)
        if not n_items:
            return None
        model, prompt = self.plan.llms[asked.section.llm].model, asked.prompt
        same = (pl.col("model") == model) & (pl.col("prompt_hash") == (prompt and prompt.hash))
        answered = int(rows.filter(same)["n_items"].sum())
        is_of_sample = self.is_of_sample(name, language)
        return Used(n_items, answered if is_of_sample else 0, n_in, n_out, is_complete)

    # Stores

    def spent(self, llm: str) -> Usage:
        """Return the tokens of all answers that are stored of a language model."""
        return stored_usage(answer_folder(self.plan.config.store, llm))

    def spent_on_vectors(self, model: str, price: float | None) -> float | None:
        """Return what the stored vectors of an embedding API cost, US dollars."""
        folder = Path(self.plan.config.store) / "embeddings" / model
        return None if price is None else Ledger(folder, job="", usd_per_million=price).spent_usd

    def stored_vectors(self, model: str, benchmark: str, language: str) -> tuple[int, int]:
        """Return how many distinct texts tables have, and how many have a vector of an API."""
        entry = self.plan.models[model]
        assert isinstance(entry, EmbeddingApiModel)
        folder = Path(self.plan.config.store) / "embeddings" / model
        try:
            texts = load_api_texts(entry, model=model)
        except InputError:  # out of reach here: nobody can tell what is stored
            embedded = entry.model_copy(update={"tokenizer": f"{EMBEDDED_PREFIX}all-MiniLM-L6-v2"})
            texts = load_api_texts(embedded, model=model)
        storage = self.plan.config.encoding.storage
        store, keys = EmbeddingStore(folder, texts.fingerprint, storage=storage), set[bytes]()
        folder = self.results / benchmark / "data" / language
        for table, spec, role in (("corpus", CORPUS, "document"), ("queries", QUERIES, "query")):
            salt = texts.salt(role)  # type: ignore[arg-type]
            for path in folder.glob(f"*/{table}.parquet"):
                rows = read_columns(path, spec, ["text"])["text"]
                keys |= {text_key(text, salt=salt) for text in rows}
        return len(keys), len(keys) - len(store.missing(list(keys)))


def _rows(paths: Sequence[Path], spec: Any, columns: Sequence[str]) -> pl.DataFrame:
    """Read columns of the tables that are there; a run may be writing others."""
    frames = [pl.DataFrame(schema={name: spec.empty().schema[name] for name in columns})]
    for path in paths:
        with suppress(FileNotFoundError):
            frames.append(pl.read_parquet(path, columns=list(columns)))
    return pl.concat(frames)


def _documents(place: Place) -> Iterator[pl.DataFrame]:
    """Read a place's documents, cut into passages where they are."""
    source: Any = place.source
    for batch in read_documents(source).batches:
        yield batch if place.passages is None else cut_into_passages(batch, place.passages)[0]


def _is_readable(planned: PlannedBenchmark, place: Place) -> bool:
    """Say whether a place's source is on this machine and small enough to be read whole."""
    sources: list[Any] = [place.source]
    section: Any = planned.section
    if (evidence := getattr(section, "evidence", None)) is not None:
        sources += [evidence.source, getattr(evidence, "documents", None)]
    for source in filter(None, sources):
        where = getattr(source, "path", None)
        if isinstance(source, HubSource) and not Path(source.name).is_dir():
            return False
        if where is not None and not Path(where).exists():
            return False
    paths = [Path(path) for path in local_files(place.source)]  # type: ignore[arg-type]
    return sum(path.stat().st_size for path in paths if path.is_file()) <= LARGE_MIB * 2**20


def sized(entry: ModelBase) -> ModelBase:
    """Return an entry with the sizes that its checkpoint says, where it says none and is here."""
    folder = local_folder(entry.checkpoint) if isinstance(entry, EncoderModel) else None
    if folder is None or not (folder / "config.json").is_file():
        return entry
    assert isinstance(entry, EncoderModel)
    sizes: dict[str, Any] = {}
    if entry.dim is None:
        found = read_json(folder / "config.json")
        dim = found.get("hidden_size")
        looked_up = found.get("vocab_size", 0) * (dim or 0) / 1e6
        sizes = {"dim": dim, "embedding_parameters_m": entry.embedding_parameters_m or looked_up}
    if entry.parameters_m is None and (weights := sorted(folder.glob("*.safetensors"))):
        sizes["parameters_m"] = sum(map(_parameters, weights)) / 1e6
    return entry.model_copy(update=sizes)


def _parameters(weights: Path) -> int:
    """Count the numbers in a file of weights, from its header."""
    from safetensors import safe_open

    with safe_open(weights, framework="numpy") as tensors:
        names = tensors.keys()
        return sum(math.prod(tensors.get_slice(name).get_shape()) for name in names)
