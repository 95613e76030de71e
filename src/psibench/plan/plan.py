"""The plan of a config: its benchmarks and views, and the registry entries that its jobs need.

`paths` and `jobs` compute the files, parameters and resources of each job from the plan.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Literal

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import EncoderModel, ModelBase, Windows
from psibench.config.model_params import FIELDS_WITHOUT_EFFECT
from psibench.config.models import Bm25Model, FusionModel, Model, RerankModel, RunFilesModel
from psibench.config.registry import load_registry
from psibench.config.rerankers import (
    BiEncoderReranker,
    Bm25Reranker,
    CheckpointReranker,
    RerankerBase,
    RerankerModel,
    checkpoint_of,
)
from psibench.config.sources import FilesSource
from psibench.errors import InputError, MissingError, refuse, supported
from psibench.filters.mixtures import Tiny
from psibench.generate.benchmarks import (
    RAW_VIEW,
    TINY_VIEW,
    Controlled,
    DocumentsBenchmark,
    FinewebPosqRelease,
    view_id,
)
from psibench.llm.sections import LlmSettings, Price, load_prices
from psibench.models.checkpoints import local_folder, refuse_static, tokenizer_file
from psibench.models.manifests import CheckpointPart, manifest_name
from psibench.models.run_files import check_run_files
from psibench.plan.benchmarks import (
    Gathered,
    PlannedBenchmark,
    plan_benchmarks,
    views_of,
)
from psibench.plan.config import (
    Config,
    TrainedModel,
    first_stage_of,
    resolve_llms,
    resolve_rerankers,
    upstream_models,
)
from psibench.probes.settings import OF_QUERIES, why_not
from psibench.sources.local import local_files

WORDS = "words"
SEARCHES = EncoderModel | EmbeddingApiModel | Bm25Model
DataStage = Literal["build", "assemble", "remove_negatives", "clean_translations"]
"""The stages that make the tables of a benchmark."""
HAS_RUNS = SEARCHES | RunFilesModel


@dataclass(frozen=True)
class Download:
    """A repository of the hub at one revision."""

    repo: str
    revision: str | None = None
    part: CheckpointPart = "model"

    @property
    def name(self) -> str:
        """Name of the manifest, without the suffix."""
        return manifest_name(self.repo, self.revision, self.part).removesuffix(".json")


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that follows from a config; made by `make_plan`.

    Attributes
    ----------
    benchmarks, views
        By id; ``named`` has both.
    models
        Registry entries by id: evaluated models, models that recall false negatives or choose
        personas, and models whose runs are reranked or fused.
    personas
        Local files with personas, by benchmark.
    rerankers, llms
        Entries that benchmarks or models name, by id.
    prices
        All prices.
    downloads
        Checkpoints and tokenizers that jobs read from the hub, by name of the manifest.
    sources
        (benchmark, language, domain) -> local source files.
    """

    config: Config
    benchmarks: dict[str, PlannedBenchmark]
    views: dict[str, PlannedBenchmark]
    models: dict[str, Model]
    personas: dict[str, list[str]]
    rerankers: dict[str, RerankerModel]
    llms: dict[str, LlmSettings]
    prices: dict[str, Price]
    downloads: dict[str, Download]
    sources: dict[tuple[str, str, str], list[str]]

    @cached_property
    def named(self) -> dict[str, PlannedBenchmark]:
        """Benchmarks and views by id."""
        return self.benchmarks | self.views

    @cached_property
    def queried(self) -> dict[str, PlannedBenchmark]:
        """The benchmarks that have queries, by id."""
        return {name: planned for name, planned in self.benchmarks.items() if planned.has_queries}

    @cached_property
    def evaluated(self) -> list[PlannedBenchmark]:
        """The benchmarks with queries, each followed by its evaluated views."""
        return [
            self.named[one]
            for name, planned in self.queried.items()
            for one in (name, *planned.evaluated_views.values())
        ]

    @cached_property
    def runs(self) -> list[dict[str, str]]:
        """The labels of every run: benchmark or view, model, query language, corpus language."""
        return [
            {
                "benchmark": planned.id,
                "model": model,
                "query_lang": queries,
                "corpus_lang": documents,
            }
            for planned in self.evaluated
            for queries, documents in planned.pairs
            for model in self.models_of(planned.id, queries, documents)
        ]

    # Evaluated models and their runs

    def models_of(self, benchmark: str, query_lang: str, corpus_lang: str) -> list[str]:
        """List the models evaluated on a language pair of a benchmark or view.

        A benchmark may restrict its models, and its translations further. Models whose kind is in
        ``tiny.only_here`` run only on the tiny subset. A trained model is not evaluated on the
        benchmark that it was trained on.
        """
        planned = self.named[benchmark]
        section, chosen = planned.section, planned.section.models
        models = [model for model in self.config.models if chosen is None or model in chosen]
        crossed = {query_lang, corpus_lang} & set(planned.translated)
        if crossed and section.translate is not None and section.translate.models is not None:
            models = [model for model in models if model in section.translate.models]
        trained = self.config.trained
        models = [m for m in models if m not in trained or self.pool_of(m) != planned.base]
        tiny: Tiny | None = getattr(section, "tiny", None)
        if tiny is None or planned.view == TINY_VIEW:
            return models
        return [model for model in models if self.models[model].kind not in tiny.only_here]

    @cached_property
    def unevaluated_models(self) -> dict[str, TrainedModel]:
        """The models of trainings without any evaluated model, by id.

        A run trains all models of such a training, but only the evaluated models of others.
        """
        trained = self.config.trained
        tested = {trained[run["model"]].training for run in self.runs if run["model"] in trained}
        return {name: model for name, model in trained.items() if model.training not in tested}

    def pool_of(self, model: str) -> str:
        """Return the benchmark that a trained model was trained on."""
        return self.config.training[self.config.trained[model].training].benchmark

    def pool_language(self, training: str) -> str:
        """Return the language of the pool that a training samples from."""
        section = self.config.training[training]
        return section.lang or self.benchmarks[section.benchmark].section.language

    def is_vector(self, model: str) -> bool:
        """Return whether a model's vectors of whole documents are stored and searched."""
        is_searched = isinstance(self.models[model], EncoderModel | EmbeddingApiModel)
        return is_searched and not self.is_chunked(model)

    def is_chunked(self, model: str) -> bool:
        """Return whether a model's vectors of chunks of documents are stored and searched."""
        return getattr(self.models[model], "chunks", None) is not None

    def is_api(self, model: str) -> bool:
        """Return whether a model is an embedding API."""
        return isinstance(self.models[model], EmbeddingApiModel)

    def first_stage(self, model: str, benchmark: str) -> str:
        """Return the model whose run a reranker reranks on a benchmark or view."""
        entry = self.models[model]
        assert isinstance(entry, RerankModel)
        return first_stage_of(entry, self.named[benchmark].section, self.config)

    def component_models(self, model: str, benchmark: str) -> list[str]:
        """List the retrievers that a model uses.

        These are the first stage of a reranker, the components of a fusion, else the model itself.
        """
        entry = self.models[model]
        if isinstance(entry, RerankModel):
            return self.component_models(self.first_stage(model, benchmark), benchmark)
        return list(entry.of) if isinstance(entry, FusionModel) else [model]

    def visibility_source(
        self, model: str
    ) -> Literal["all", "encoded", "chunks", "seen", "unknown"]:
        """Return which table records how much of each document a model reads.

        ``all``: no table, as it reads whole documents; ``encoded``: its encodings; ``chunks``: its
        encodings, with a row for each chunk; ``seen``: the
        `.seen` table of its run, for each query's positive; ``unknown``: no table. Encodings record
        the length of the text that was read from the start, so a model that reads the head and the
        tail is ``unknown``. A fusion has read everything that any component has read. With chunks,
        this is unknown unless another component reads whole documents.
        """
        entry = self.models[model]
        if isinstance(entry, FusionModel):
            parts = {self.visibility_source(one) for one in entry.of}
            return "unknown" if {"unknown", "chunks"} & parts and "all" not in parts else "seen"
        if isinstance(entry, RerankModel):
            return "seen"
        windows: Windows | None = getattr(entry, "windows", None)
        if isinstance(entry, RunFilesModel) or (windows and windows.keep == "head-and-tail"):
            return "unknown"
        if self.is_chunked(model):
            return "chunks"
        return "encoded" if self.is_vector(model) else "all"

    def llm_of(self, benchmark: str, task: str) -> LlmSettings:
        """Return the language model of a task."""
        return self.llms[self.benchmarks[benchmark].tasks[task].section.llm]

    def position_blind(self, benchmark: str, query_lang: str, corpus_lang: str) -> str | None:
        """Return the first position-blind control among a language pair's models, if any."""
        models = self.models_of(benchmark, query_lang, corpus_lang)
        return next((m for m in models if self.models[m].control == "position-blind"), None)

    def given_pairs(
        self, benchmark: str, query_lang: str, corpus_lang: str
    ) -> list[tuple[str, str]]:
        """List the pairs of `compare` whose two models are evaluated on a language pair."""
        models = self.models_of(benchmark, query_lang, corpus_lang)
        pairs = self.config.compare.items()
        return [pair for pair in pairs if {*pair} <= {*models} and len({*pair}) == 2]

    def input_lengths(
        self, benchmark: str, query_lang: str, corpus_lang: str
    ) -> list[tuple[str, str]]:
        """List pairs of models that differ only in their input length, the longer one first."""
        ignored = FIELDS_WITHOUT_EFFECT | {"max_tokens"}
        entries = {
            model: entry.model_dump(mode="json", exclude=set(ignored))
            for model in self.models_of(benchmark, query_lang, corpus_lang)
            if isinstance(entry := self.models[model], EncoderModel)
            and getattr(entry, "max_tokens", None) is not None
            and getattr(entry, "windows", None) is None
            and not self.is_chunked(model)
        }
        lengths = {model: getattr(self.models[model], "max_tokens") for model in entries}  # noqa: B009
        return [
            (longer, shorter)
            for longer in entries
            for shorter in entries
            if lengths[longer] > lengths[shorter] and entries[longer] == entries[shorter]
        ]

    def on_filter_panel(self, benchmark: str, model: str) -> bool:
        """Return whether a model influenced which queries a benchmark or view has.

        True if the model, or a reranker with the same checkpoint, verifies candidates, recalls
        false negatives, or scores them. For the raw view, only the verification counts. Static
        embeddings do not count as the network that they come from.
        """
        planned = self.named[benchmark]
        verify = getattr(planned.section, "verify", None)
        panel = [self.rerankers[one] for one in (verify.rerankers if verify else [])]
        recalls = []
        negatives = getattr(planned.section, "false_negatives", None)
        if negatives is not None and planned.view != RAW_VIEW:
            panel += [self.rerankers[one] for one in negatives.rerankers]
            recalls = [negatives.recall.model]
        if model in recalls:
            return True
        entry = self.models[model]
        if isinstance(entry, FusionModel):
            return any(self.on_filter_panel(benchmark, one) for one in entry.of)
        chose = {self._scorer(one) for one in (*panel, *(self.models[one] for one in recalls))}
        return self._scorer(entry) in chose - {None}

    def _scorer(self, entry: Model | RerankerModel) -> tuple[str, str | None] | None:
        """Return the source of a model's or reranker's scores: BM25, or checkpoint and revision."""
        if isinstance(entry, RerankModel):
            return self._scorer(self.rerankers[entry.reranker])
        if isinstance(entry, Bm25Model | Bm25Reranker):
            return "bm25", None
        if isinstance(entry, EncoderModel):
            table = "" if entry.is_network else "embeddings of "
            return f"{table}{entry.checkpoint}", entry.revision
        if isinstance(entry, CheckpointReranker | BiEncoderReranker):
            return checkpoint_of(entry)
        return None

    def data_stage(self, benchmark: str, lang: str) -> DataStage:
        """Return the stage that makes a benchmark's tables in a language.

        ``build`` reads a source that has queries; ``assemble`` takes generated queries;
        ``remove_negatives`` removes false negatives from the raw view; ``clean_translations`` takes
        translations.
        """
        planned = self.benchmarks[benchmark]
        if lang in planned.translated:
            return "clean_translations"
        if not planned.is_generated:
            return "build"
        return "remove_negatives" if planned.generated.false_negatives else "assemble"

    # Views share texts and runs

    def encoding_source(self, benchmark: str, model: str, lang: str) -> str:
        """Return the benchmark or view whose encodings table has this one's vectors.

        The raw view contains the texts of the benchmark and of its tiny subset. It is encoded only
        if it is evaluated or if the model recalls false negatives. Translations have no views.
        """
        planned = self.named[benchmark]
        if planned.view == RAW_VIEW or lang in planned.translated:
            return benchmark
        raw = view_id(planned.base, RAW_VIEW)
        is_wanted = raw in self.views and (
            RAW_VIEW in planned.evaluated_views or model == planned.negatives.recall.model
        )
        return raw if is_wanted else planned.base

    def run_source(self, benchmark: str, query_lang: str, corpus_lang: str) -> str:
        """Return the benchmark or view whose runs this one reuses (itself if it reuses none).

        The raw view contains the benchmark's queries, and has the same documents unless the removal
        of false negatives changes the corpus. A benchmark contains the queries and documents of its
        tiny subset. Runs are reused only if both are evaluated with all models.
        """
        planned = self.named[benchmark]
        if planned.view not in ("", TINY_VIEW) or query_lang != corpus_lang:
            return benchmark
        if corpus_lang in planned.translated:
            return benchmark
        wider = planned.base
        if RAW_VIEW in planned.evaluated_views and not planned.negatives.removes_documents:
            wider = view_id(planned.base, RAW_VIEW)
        has_all_models = all(
            self.models_of(one, query_lang, corpus_lang) == self.config.models
            for one in (wider, benchmark)
        )
        return wider if has_all_models else benchmark

    def recalls_by_run(self, benchmark: str) -> bool:
        """Return whether the run of a raw view can serve as the recall of false negatives.

        It must be evaluated with this model and be deep enough. A language with several parts has
        one recall per part instead, so that no job reads a run of all parts.
        """
        planned, raw = self.benchmarks[benchmark], view_id(benchmark, RAW_VIEW)
        recall = planned.negatives.recall
        if RAW_VIEW not in planned.evaluated_views or recall.top_k > self.config.search.top_k:
            return False
        if any(len(planned.parts[language]) > 1 for language in planned.native):
            return False
        searches = self.is_vector(recall.model) or isinstance(self.models[recall.model], Bm25Model)
        return searches and all(
            recall.model in self.models_of(raw, language, language) for language in planned.native
        )

    # Comparisons of domains, and probes

    def similarity_jobs(self, benchmark: str) -> list[tuple[str, str]]:
        """List the (model, language) pairs for which a benchmark's domains are compared.

        The model is the first one with vectors; the languages are native with at least two domains.
        Empty for a benchmark of documents.
        """
        model = next((model for model in self.config.models if self.is_vector(model)), None)
        if model is None or benchmark not in self.queried:
            return []
        native = self.benchmarks[benchmark].native
        return [(model, lang) for lang, names in native.items() if len(names) > 1]

    @cached_property
    def probed(self) -> list[dict[str, str]]:
        """The labels of all probe jobs: probe, benchmark, model and lang.

        Models are probed if they have one vector per text and are evaluated on the language.
        Benchmarks without queries or evidence spans have no probes that read queries.
        """
        settings = self.config.probes
        chosen = settings.benchmarks
        names = [name for name in self.benchmarks if chosen is None or name in chosen]
        return [
            {"probe": probe, "benchmark": name, "model": model, "lang": lang}
            for probe in settings.names
            for name in names
            if probe not in OF_QUERIES
            or not isinstance(
                self.benchmarks[name].section, FinewebPosqRelease | DocumentsBenchmark
            )
            for lang in self.benchmarks[name].languages
            for model in self.models_of(name, lang, lang)
            if (settings.models is None or model in settings.models)
            and why_not(self.models[model], probe) is None
        ]


def make_plan(
    config: Config, models: Mapping[str, Model], *, missing: list[str] | None = None
) -> Plan:
    """Look up everything that a config names; ``models`` are the entries of its models.

    Parameters
    ----------
    missing
        Receives messages about missing files instead of an error, unless there are other errors. A
        benchmark whose release is missing has no languages.

    Raises
    ------
    InputError
        With all problems: unknown or unsuitable models, language models and rerankers; templates
        that do not fit; missing local sources, checkpoints and runs; local checkpoints of static
        embeddings with another backend; checkpoints with fewer positions than their entries need.
    """
    found = Gathered([] if missing is None else missing)
    try:
        plan = _make_plan(config, models, found)
    except InputError as error:
        found.problems.append(str(error))
    if found.problems or missing is None:
        refuse([*found.problems, *found.missing])
    return plan


def _make_plan(config: Config, models: Mapping[str, Model], noted: Gathered) -> Plan:
    known: dict[str, Model] = load_registry() | config.registry
    named, unfit = _named_models(config, models, known)
    noted.problems.extend(unfit)
    benchmarks = plan_benchmarks(config, noted)
    entries = dict(models) | named
    rerankers = resolve_rerankers(config, entries)
    loaded = entries | {name: model.base_entry for name, model in config.trained.items()}
    personas = dict[str, list[str]]()
    for name, section in config.benchmarks.items():
        if isinstance(section, Controlled):
            with noted.at(f"config key benchmarks.{name}.personas"):
                source = section.personas.source
                personas[name] = local_files(source) if isinstance(source, FilesSource) else []
    plan = Plan(
        config=config,
        benchmarks=benchmarks,
        views={name: view for one in benchmarks.values() for name, view in views_of(one).items()},
        models=entries,
        personas=personas,
        rerankers=rerankers,
        llms=resolve_llms(config),
        prices=load_prices(config.prices),
        downloads=_downloads(config, loaded, rerankers, noted),
        sources=_sources(benchmarks, noted),
    )
    noted.problems.extend([*_without_pool(plan), *_unanswerable(plan)])
    if unfit:
        return plan  # the components of unsuitable models are unknown
    noted.problems.extend(_unfit_chunks(plan))
    for name, entry in entries.items():
        if isinstance(entry, RunFilesModel):
            runs = [
                (row, plan.named[row["benchmark"]].domains(row["query_lang"], row["corpus_lang"]))
                for row in plan.runs
                if name in plan.component_models(row["model"], row["benchmark"])
            ]
            with noted.at(f"model {name!r}"):
                check_run_files(entry, runs)
    return plan


def _without_pool(plan: Plan) -> Iterator[str]:
    """Yield a message for each training without a suitable pool."""
    for name, section in plan.config.training.items():
        native = plan.benchmarks[section.benchmark].native
        if native and (language := plan.pool_language(name)) not in native:
            yield (
                f"config key training.{name}.lang: benchmark {section.benchmark!r} has no source "
                f"in {language!r}; allowed: {', '.join(native)}"
            )
        lacking = [one for one, base in section.bases.items() if base.objective != "pads"]
        if lacking and section.benchmark not in plan.queried:
            yield (
                f"config key training.{name}.bases: {', '.join(lacking)} need queries, but "
                f"benchmark {section.benchmark!r} has only documents. Set `objective: pads` for "
                "them, or choose a benchmark with queries"
            )


def _unfit_chunks(plan: Plan) -> Iterator[str]:
    """Yield messages on models with chunks: that recall documents, or whose tokens are unknown."""
    for name, section in plan.config.benchmarks.items():
        negatives = getattr(section, "false_negatives", None)
        if negatives is not None and plan.is_chunked(negatives.recall.model):
            yield (
                f"config key benchmarks.{name}.false_negatives.recall.model: "
                f"{negatives.recall.model!r} has `chunks`, and false negatives are whole "
                "documents; name a model without chunks"
            )
    chunked = [repr(name) for name in plan.models if plan.is_chunked(name)]
    if chunked and plan.config.length_tokenizer == WORDS:
        yield (
            f"config key length_tokenizer: it counts the tokens of the chunks of "
            f"{', '.join(chunked)}, and {WORDS!r} is no tokenizer; name a checkpoint, e.g. "
            "embedded:all-MiniLM-L6-v2"
        )


def _unanswerable(plan: Plan) -> Iterator[str]:
    """Yield a message for each template with a plain reply that a stand-in would have to answer."""
    for name, benchmark in plan.benchmarks.items():
        for task, asked in benchmark.tasks.items():
            is_plain = asked.prompt is not None and asked.prompt.response.form != "json"
            if is_plain and plan.llms[asked.section.llm].backend == "stand-in":
                yield (
                    f"config key benchmarks.{name}, task {task}: {asked.path} needs a plain reply, "
                    f"but {asked.section.llm!r} is a stand-in, which answers only the shipped "
                    "templates. Name a language model, or remove `prompt`"
                )


def _named_models(
    config: Config, evaluated: Mapping[str, Model], known: Mapping[str, Model]
) -> tuple[dict[str, Model], list[str]]:
    """Return the models that recall false negatives, choose personas, or are reranked or fused.

    Also returns a message for each unknown or unsuitable model.
    """
    found, problems = dict[str, Model](), list[str]()

    def look_up(where: str, name: str, allowed: str, kinds: UnionType | type) -> None:
        if isinstance(known.get(name), kinds):
            found[name] = known[name]
            return
        listed = supported(name, (one for one, entry in known.items() if isinstance(entry, kinds)))
        problems.append(
            f"{where} {name!r}; allowed: {allowed}: {listed}. Name one of these, or add an "
            "entry for your own model under `registry:`"
        )

    for benchmark, section in config.benchmarks.items():
        key = f"config key benchmarks.{benchmark}"
        if (negatives := getattr(section, "false_negatives", None)) is not None:
            model, where = negatives.recall.model, f"{key}.false_negatives.recall.model: found"
            look_up(where, model, "an encoder, an embedding API or BM25", SEARCHES)
        if isinstance(section, Controlled):
            model, where = section.personas.model, f"{key}.personas.model: found"
            look_up(where, model, "an encoder", EncoderModel)
    for name, entry in evaluated.items():
        for first in upstream_models(entry, config) if isinstance(entry, RerankModel) else ():
            where = f"model {name!r} (first_stage of its entry, the benchmark or `search`)"
            allowed = "a model that searches"
            look_up(f"{where}: its first stage is", first, allowed, HAS_RUNS | FusionModel)
    for name, entry in (dict(evaluated) | found).items():
        for one in entry.of if isinstance(entry, FusionModel) else ():
            look_up(f"model {name!r}: `of` names", one, "models that search", HAS_RUNS)
    return found, problems


def _downloads(
    config: Config,
    models: Mapping[str, Model],
    rerankers: Mapping[str, RerankerModel],
    noted: Gathered,
) -> dict[str, Download]:
    """Return the downloads from the hub by name.

    Missing local checkpoints, and those of another kind than their entries, go to ``noted``.
    """
    found, read = dict[str, Download](), dict[str, ModelBase | RerankerBase | str]()
    read |= {f"model {name!r}": entry for name, entry in models.items()}
    read |= {f"reranker {name!r}": entry for name, entry in rerankers.items()}
    for where, one in (read | {"config key length_tokenizer": config.length_tokenizer}).items():
        with noted.at(where):
            found |= {download.name: download for download in downloads_of(one)}
            loaded = one.encoder if isinstance(one, BiEncoderReranker) else one
            if isinstance(loaded, EncoderModel | CheckpointReranker):
                folder = local_folder(loaded.checkpoint)
                if folder is not None:
                    refuse_static(loaded, folder)
    return found


def _sources(
    benchmarks: Mapping[str, PlannedBenchmark], noted: Gathered
) -> dict[tuple[str, str, str], list[str]]:
    found = {}
    for name, planned in benchmarks.items():
        for place in planned.places:
            with noted.at(f"config key benchmarks.{name}.{place.key}"):
                files = planned.section_at(place.language, place.domain).files()
                for path in files:
                    if not Path(path).is_file():
                        raise MissingError(
                            f"no file {path!r} in {Path.cwd()}; relative paths start at the "
                            "working directory"
                        )
                found[name, place.language, place.domain] = files
    return found


# Downloads from the hub


def downloads_of(read: ModelBase | RerankerBase | str) -> list[Download]:
    """List the download (or none) of a registry entry or a tokenizer.

    Raises
    ------
    InputError
        If the checkpoint is a folder that does not exist.
    """
    match read:
        case BiEncoderReranker():
            return downloads_of(read.encoder)
        case EmbeddingApiModel():
            return downloads_of(read.tokenizer)
        case EncoderModel() | CheckpointReranker():
            found = Download(read.checkpoint, read.revision)
        case str() if read != WORDS and tokenizer_file(read) is None:
            found = Download(read, part="tokenizer")
        case _:
            return []
    return [found] if local_folder(found.repo) is None else []
