"""What there is to encode: by models here (`psibench plan`) and by paid services (`estimate`).

Texts are found in this order: the tables that a run made; what the config plans; the source, where
it is on this machine and not too large to be read whole.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoders import VllmModel
from psibench.config.model_base import EncoderModel
from psibench.config.models import Model
from psibench.encode.store import EmbeddingStore, Storage, text_key
from psibench.errors import InputError
from psibench.estimate.documents import Reader, is_large, is_remote
from psibench.generate.benchmarks import RAW, GeneratedBenchmark, places_of
from psibench.llm.expected import EMBEDDED, count_tokens
from psibench.llm.sections import MILLION
from psibench.models.api.ledger import Ledger
from psibench.models.api.service import pack
from psibench.models.api.texts import ApiTexts, load_api_texts, remembered_tokenizer
from psibench.models.checkpoints import local_folder
from psibench.models.protocols import Role
from psibench.plan.benchmarks import views_of
from psibench.plan.config import Config
from psibench.plan.paths import compared_domains
from psibench.plan.plan import Plan, make_plan
from psibench.plan.texts import (
    QUERY_TOKENS,
    TRANSLATION_GROWTH,
    LengthBin,
    PlannedTexts,
    queries_per_document,
    tokens_per_unit,
)
from psibench.tables.columns import read_columns
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import with_lengths

CPU_GFLOPS = 60
"""10^9 operations a second that a core is counted on to do in float32: all-MiniLM-L6-v2 reached 65
on one core of a server, 200 tokens a text."""
SAMPLE_CHARS = 2_000_000
"""Characters of a table whose tokens are counted for a service: of more, every so-manieth text."""
SCHEMA = {
    "benchmark": pl.String,
    "language": pl.String,
    "model": pl.String,
    "texts": pl.Int64,
    "tokens": pl.Int64,
    "gpu_minutes": pl.Float64,
    "cpu_minutes": pl.Float64,
    "jobs": pl.Int64,
    "minutes_per_job": pl.Float64,
    "store_bytes": pl.Int64,
    "basis": pl.String,
}


@dataclass(frozen=True)
class Found:
    """The texts of a benchmark or view in one language.

    Attributes
    ----------
    sizes
        How many and how long; None if nothing is known.
    texts
        The texts by role, table by table; empty where they are not there to be read.
    basis
        ``tables`` of an earlier run, ``plan`` of the config, ``source`` or ``unknown``.
    """

    sizes: PlannedTexts | None
    basis: str
    texts: Sequence[tuple[Role, Sequence[str]]] = ()


@dataclass(frozen=True)
class ApiCount:
    """Distinct texts for one service, those with a vector, and what of the others is to be asked.

    ``is_scaled`` says that tokens were counted of a part, or by a plan.
    """

    texts: int = 0
    stored: int = 0
    requests: int = 0
    tokens: int = 0
    basis: str = "unknown"
    is_scaled: bool = False

    def __add__(self, other: "ApiCount") -> "ApiCount":
        return ApiCount(
            self.texts + other.texts,
            self.stored + other.stored,
            self.requests + other.requests,
            self.tokens + other.tokens,
            basis=other.basis if self.basis == "unknown" else self.basis,
            is_scaled=self.is_scaled or other.is_scaled,
        )


@dataclass(frozen=True)
class ApiEstimate:
    """One embedding API: its texts by benchmark and language, and what its vectors cost so far.

    ``left_usd`` is what will be left of the budget, below 0 if it is too small; None without one.
    """

    model: str
    entry: EmbeddingApiModel
    tokenizer: str
    rows: tuple[tuple[str, str, ApiCount], ...]
    spent_usd: float | None

    @property
    def total(self) -> ApiCount:
        """The sums of all rows."""
        return sum((count for _, _, count in self.rows), ApiCount())

    @property
    def left_usd(self) -> float | None:
        """What will be left of the budget."""
        usd = self.cost(self.total)
        if self.entry.budget_usd is None or usd is None:
            return None
        return self.entry.budget_usd - (self.spent_usd or 0.0) - usd

    def cost(self, count: ApiCount) -> float | None:
        """Return US dollars for what is to be asked; None without a price."""
        return None if self.entry.price is None else count.tokens * self.entry.price / MILLION


class TextFinder:
    """Finds the texts of benchmarks, each once.

    Parameters
    ----------
    results
        Folder of results.
    """

    def __init__(self, plan: Plan, results: Path) -> None:
        self._plan, self._results = plan, results
        self._reader = Reader(plan.config.length_tokenizer)
        self._found: dict[tuple[str, str], Found] = {}

    def find(self, name: str, language: str) -> Found:
        """Return the texts of a benchmark or view in a language.

        Raises
        ------
        InputError
            If a table or a source is there and cannot be read.
        """
        if (name, language) not in self._found:
            planned = self._plan.planned(name, language)
            plan = None if planned is None else Found(planned, "plan")
            found = self._tables(name, language) or plan or self._source(name, language)
            self._found[name, language] = found
        return self._found[name, language]

    def _tables(self, name: str, language: str) -> Found | None:
        """Read the tables of a benchmark or view; those of the benchmark stand for its views."""
        base = self._plan.named[name].base
        folders = (self._results / one / "data" / language for one in (name, base))
        paths = next(
            (found for at in folders if (found := sorted(at.glob("*/corpus.parquet")))), []
        )
        documents = [read_columns(path, CORPUS, ["text", "token_length"]) for path in paths]
        asked = [path for at in paths if (path := at.with_name("queries.parquet")).is_file()]
        queries = [read_columns(path, QUERIES, ["text"]) for path in asked]
        if not paths:
            return None
        sizes, texts = _summed_up(documents, queries, language)
        return Found(sizes, "tables", texts)

    def _source(self, name: str, language: str) -> Found:
        """Read the source of a benchmark that is not built; a translation is so much longer."""
        section = self._plan.named[name].section
        is_translated = section.translate is not None and language in section.translate.to
        wanted = section.language if is_translated else language
        places = [at for at in places_of(section) if at.language == wanted]
        documents, queries = [], []
        for place in places:
            if is_remote(place.source) or is_large(place.source):
                return Found(None, "unknown")
            if isinstance(section, GeneratedBenchmark):
                drawn = self._reader.draw(place, section.sample)
                assert drawn is not None
                documents.append(with_lengths(drawn, count_tokens=self._reader.count))
            else:
                built = self._reader.built_texts(section, place, most=0)
                assert built is not None
                documents.append(built.corpus)
                queries.append(built.queries)
        if not places:
            return Found(None, "unknown")
        sizes, texts = _summed_up(documents, queries, language)
        if isinstance(section, GeneratedBenchmark):  # as many queries as are asked for
            n_queries = round(sizes.n_documents * queries_per_document(section))
            sizes, texts = replace(sizes, n_queries=n_queries, query_tokens=QUERY_TOKENS), []
        if is_translated:
            grow = TRANSLATION_GROWTH
            bins = (LengthBin(b.low * grow, b.high * grow, b.n_documents) for b in sizes.bins)
            tokens = sizes.query_tokens * grow
            sizes, texts = replace(sizes, bins=tuple(bins), query_tokens=tokens), []
        return Found(sizes, "source", texts)


def _summed_up(
    documents: Sequence[pl.DataFrame], queries: Sequence[pl.DataFrame], language: str
) -> tuple[PlannedTexts, list[tuple[Role, Sequence[str]]]]:
    """Sum up documents by their ``token_length``; queries' tokens follow from their characters."""
    lengths = pl.concat([frame.select("token_length") for frame in documents])
    counts = lengths.group_by("token_length").len().sort("token_length")
    bins = tuple(LengthBin(n - 0.5, n + 0.5, count) for n, count in counts.iter_rows())
    asked = [text for frame in queries for text in frame["text"]]
    n_chars = sum(map(len, asked)) / max(1, len(asked))
    texts: list[tuple[Role, Sequence[str]]] = []
    texts += [("document", frame["text"].to_list()) for frame in documents]
    texts += [("query", frame["text"].to_list()) for frame in queries]
    return PlannedTexts(bins, len(asked), n_chars * tokens_per_unit("chars", language)), texts


def encoding_plan(config: Config, models: Mapping[str, Model], *, results: Path) -> pl.DataFrame:
    """Plan every encoding of a config.

    Returns
    -------
    SCHEMA rows, in the order of benchmarks, models and languages, null where nothing is known. GPU
    minutes are those of ``encoding.gpu_tflops``, CPU minutes those of this machine's cores;
    ``minutes_per_job`` is of the GPU unless ``encoding.device`` is cpu.

    Raises
    ------
    InputError
        If a local source or checkpoint of the config does not exist.
    """
    plan = make_plan(config, models)
    finder, settings, rows = TextFinder(plan, results), config.encoding, []
    for name, model, language in needed_encodings(plan):
        entry = plan.models[model]
        if not isinstance(entry, EncoderModel):
            continue
        found = finder.find(name, language)
        there = config.trained[model].base_entry if model in config.trained else entry
        sized, jobs = _sized(there), len(plan.shards[name, model, language])
        row: dict[str, Any] = {"benchmark": name, "language": language, "model": model}
        row |= {"jobs": jobs, "basis": found.basis}
        if (sizes := found.sizes) is not None:
            gpu, cpu = sizes.gpu_minutes(sized, settings), None
            if gpu is not None:
                on_gpus = entry.gpus if isinstance(entry, VllmModel) else 1
                own_tflops = CPU_GFLOPS * (os.cpu_count() or 1) / 1000
                cpu = gpu * on_gpus * settings.gpu_tflops / own_tflops
            minutes = cpu if settings.device == "cpu" else gpu
            row |= {
                "texts": sizes.n_texts,
                "tokens": sizes.tokens(sized),
                "gpu_minutes": gpu,
                "cpu_minutes": cpu,
                "minutes_per_job": None if minutes is None else minutes / jobs,
                "store_bytes": sizes.store_bytes(sized, settings),
            }
        rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _sized(entry: EncoderModel) -> EncoderModel:
    """Return an entry with the sizes that its checkpoint says, where it says none and is here."""
    folder = local_folder(entry.checkpoint)
    if folder is None or not (folder / "config.json").is_file():
        return entry
    sizes: dict[str, Any] = {}
    if entry.dim is None:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        dim, n_words = found.get("hidden_size"), found.get("vocab_size", 0)
        looked_up = entry.embedding_parameters_m or n_words * (dim or 0) / MILLION
        sizes = {"dim": dim, "embedding_parameters_m": looked_up}
    if entry.parameters_m is None and (weights := sorted(folder.glob("*.safetensors"))):
        sizes["parameters_m"] = sum(map(_parameters, weights)) / MILLION
    return entry.model_copy(update=sizes)


def _parameters(weights: Path) -> int:
    """Count the numbers in a file of weights, from its header."""
    from safetensors import safe_open

    with safe_open(weights, framework="numpy") as tensors:
        names = tensors.keys()
        return sum(math.prod(tensors.get_slice(name).get_shape()) for name in names)


def needed_encodings(plan: Plan) -> list[tuple[str, str, str]]:
    """List the encodings that a config's results ask for, each once, by a job or a service.

    They are benchmark or view, model and language, asked for by the runs of models, by those that
    rerankers rerank or that are fused, by the recall of false negatives and by the comparison of
    domains.
    """
    asked = [
        (run["benchmark"], model, language)
        for run in plan.runs
        for model in plan.searching(run["model"])
        for language in (run["query_lang"], run["corpus_lang"])
    ]
    asked += [
        (view.id, view.negatives.recall.model, language)
        for view in plan.views.values()
        if view.view == RAW
        for language in view.native
    ]
    asked += [(name, *one) for name in plan.benchmarks for one in compared_domains(plan, name)]
    vectors = [one for one in asked if plan.is_vector(one[1])]
    return list(
        dict.fromkeys((plan.encoded_as(name, model, at), model, at) for name, model, at in vectors)
    )


def estimate_embeddings(
    config: Config,
    models: Mapping[str, Model],
    *,
    results: Path,
    exact: bool = False,
    only: str | None = None,
) -> list[ApiEstimate]:
    """Estimate the embedding APIs whose vectors a config's results ask for, where they ask.

    Parameters
    ----------
    exact
        Count the tokens of all texts of large tables, too.
    only
        Id of one benchmark; None for all.

    Raises
    ------
    InputError
        If a table or a source is there and cannot be read, or the workflow would refuse the config.
    """
    plan = make_plan(config, models, missing=[])
    finder, asked, estimates = TextFinder(plan, results), needed_encodings(plan), []
    for model, entry in plan.models.items():
        if not isinstance(entry, EmbeddingApiModel):
            continue
        folder = Path(config.store) / "embeddings" / model
        counter = _ApiCounter(entry, model, folder, config.encoding.storage, exact=exact)
        wanted = {(plan.named[at].base, language) for at, one, language in asked if one == model}
        rows = []
        for name, planned in plan.benchmarks.items():
            for language in planned.languages:
                if (name, language) not in wanted or only not in (None, name):
                    continue
                found = [finder.find(view, language) for view in (name, *views_of(planned))]
                rows.append((name, language, counter.count(found)))
        spent = (
            Ledger(folder, job="", price=entry.price).spent_usd() if entry.price else entry.price
        )
        estimates.append(ApiEstimate(model, entry, counter.tokenizer, tuple(rows), spent))
    return estimates


class _ApiCounter:
    """Counts texts as one model's jobs would ask for them, each text once.

    Attributes
    ----------
    tokenizer
        What is counted with: the entry's, or the embedded one where that is out of reach.
    """

    def __init__(
        self, entry: EmbeddingApiModel, model: str, folder: Path, storage: Storage, *, exact: bool
    ) -> None:
        self._entry, self._exact, self._seen = entry, exact, set[bytes]()
        self._texts, self.tokenizer = _load(entry, model, folder)
        self._store = EmbeddingStore(folder, self._texts.fingerprint, storage=storage)

    def count(self, found: Iterable[Found]) -> ApiCount:
        """Count the texts of a benchmark and its views in one language."""
        first, *views = found
        if first.texts:
            total = ApiCount(basis=first.basis)
            for role, texts in (table for one in (first, *views) for table in one.texts):
                total += self._table(texts, role, first.basis)
            return total
        if first.sizes is None:
            return ApiCount()
        n, tokens = first.sizes.n_texts, first.sizes.tokens(self._entry)
        return ApiCount(n, 0, self._requests(n, tokens), tokens, first.basis, is_scaled=True)

    def _table(self, texts: Sequence[str], role: Role, basis: str) -> ApiCount:
        salt = self._texts.salt(role)
        own = {text_key(text, salt=salt): text for text in texts}
        new = {key: text for key, text in own.items() if key not in self._seen}
        self._seen |= new.keys()
        keys = list(new)
        absent = [new[keys[place]] for place in self._store.missing(keys)]
        todo = [text for text in absent if (self._texts.prompt(role) + text).strip()]
        stride = 1
        if not self._exact:
            stride = max(1, math.ceil(sum(map(len, todo)) / SAMPLE_CHARS))
        counts = [item.n_tokens for item in self._texts.tokenize(todo[::stride], role)]
        limits = {key: getattr(self._entry, key) for key in LIMITS}
        if stride == 1:
            tokens, requests = sum(counts), sum(1 for _ in pack(counts, **limits))
        else:
            tokens = round(sum(counts) * len(todo) / len(counts))
            requests = self._requests(len(todo), tokens)
        stored = len(new) - len(absent)
        return ApiCount(len(new), stored, requests, tokens, basis, is_scaled=stride > 1)

    def _requests(self, n_texts: int, n_tokens: int) -> int:
        """Return the requests that so many texts need at least."""
        by_texts = n_texts / self._entry.texts_per_request
        return math.ceil(max(by_texts, n_tokens / self._entry.tokens_per_request))


LIMITS = ("texts_per_request", "tokens_per_request")


def _load(entry: EmbeddingApiModel, model: str, folder: Path) -> tuple[ApiTexts, str]:
    """Load the entry's tokenizer, or the embedded one under the identity noted in the store.

    Where none is noted either, nothing was ever stored from here, and no vector is found.
    """
    try:
        count_tokens(entry.tokenizer)  # fails at once where the hub is out of reach
        return load_api_texts(entry, model=model), entry.tokenizer
    except InputError:
        embedded = entry.model_copy(update={"tokenizer": EMBEDDED})
        texts = load_api_texts(embedded, model=model)
        identity = remembered_tokenizer(folder, name=entry.tokenizer) or entry.tokenizer
        return replace(texts, entry=entry, identity=identity), EMBEDDED
