"""The whole config: its sections merged and validated, and the registry entries that it names."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, model_validator

from psibench.config.base import Id, ModelId, ModelIds, Section, refuse_repeats
from psibench.config.encoders import SentenceTransformerModel
from psibench.config.files import composed, validated
from psibench.config.models import FusionModel, Model, RerankModel
from psibench.config.paths import workflow_path
from psibench.config.registry import load_registry
from psibench.config.rerankers import RerankerModel, load_rerankers
from psibench.config.secrets import refuse_secrets
from psibench.config.sections import Encoding, Leaderboard, Report, Search, Uncertainty
from psibench.errors import InputError, refuse, supported
from psibench.filters.negatives import FinewebNegatives
from psibench.generate.benchmarks import Benchmark, view_id, view_names
from psibench.llm.sections import LlmSettings, Price, load_llms, load_prices, price_of
from psibench.llm.tasks import LlmTaskSection
from psibench.metrics.ranking import DEFAULT_METRICS, METRIC_PATTERN
from psibench.plan.limit import limited
from psibench.plan.stand_ins import with_stand_ins
from psibench.probes.settings import Probes, why_not
from psibench.train.sections import Base, Training

STAND_INS_NOTICE = (
    "Stand-ins: this run used other texts and other models than the config names. The id of a "
    "stand-in ends with the id of the model that it replaces, e.g. all-minilm-l6-v2-for-bge-m3. "
    "The results show that the pipeline works, not how the config's models perform on its data."
)
LIMIT_NOTICE = (
    "Small run: at most {limit} documents or queries of each domain, two domains and two languages."
)

Metric = Annotated[str, StringConstraints(pattern=f"^{METRIC_PATTERN}$")]
Metrics = Annotated[list[Metric], AfterValidator(refuse_repeats)]


@dataclass(frozen=True)
class TrainedModel:
    """A base model trained on one distribution with one seed.

    Attributes
    ----------
    training, base, distribution, seed
        Keys and seed in the config's `training`.
    settings
        The section of the base model.
    """

    training: str
    base: str
    distribution: str
    seed: int
    settings: Base

    @property
    def id(self) -> str:
        """Id among the models: BASE-DISTRIBUTION-sSEED."""
        return f"{self.base}-{self.distribution}-s{self.seed}"

    @property
    def folder(self) -> str:
        """Folder of the checkpoint; its ``model.json`` is written last."""
        return f"results/training/{self.training}/models/{self.id}"

    @property
    def entry(self) -> SentenceTransformerModel:
        """The registry entry for evaluation."""
        return self._entry(self.folder, self.settings.licence)

    @property
    def base_entry(self) -> SentenceTransformerModel:
        """The registry entry of the untrained base model."""
        entry = self._entry(self.settings.checkpoint, self.settings.licence)
        return entry.model_copy(update={"revision": self.settings.revision})

    def _entry(self, checkpoint: str, licence: str) -> SentenceTransformerModel:
        base = self.settings
        return SentenceTransformerModel(
            backend="sentence-transformers",
            checkpoint=checkpoint,
            licence=licence,
            max_tokens=base.max_tokens,
            pooling=base.pooling,
            query_prompt=base.query_prompt,
            document_prompt=base.document_prompt,
            parameters_m=base.parameters_m,
            positions=base.positions,
            description=f"{self.base} trained on {self.distribution} evidence, seed {self.seed}",
        )


def untrained_bases(trained: Iterable[TrainedModel]) -> dict[str, SentenceTransformerModel]:
    """Return the entries of the untrained base models by id, BASE-untrained.

    Raises
    ------
    ValueError
        If two trainings have different bases with the same id.
    """
    found: dict[str, SentenceTransformerModel] = {}
    for one in trained:
        about = {"description": f"{one.base} before it is trained"}
        entry = one.base_entry.model_copy(update=about)
        if found.setdefault(f"{one.base}-untrained", entry) != entry:
            raise ValueError(
                f"training.{one.training}.bases.{one.base}: another training has a different base "
                "with this id, and both are evaluated untrained; choose another id"
            )
    return found


def trained_models(trainings: Mapping[str, Training]) -> dict[str, TrainedModel]:
    """Return the trained models by id, in the config's order.

    Raises
    ------
    ValueError
        If two models have the same id.
    """
    found: dict[str, TrainedModel] = {}
    for training, section in trainings.items():
        for base, distribution, seed in section.runs:
            model = TrainedModel(training, base, distribution, seed, section.bases[base])
            if model.id in found:
                raise ValueError(
                    f"training.{training}.bases.{base}: training.{found[model.id].training} also "
                    f"trains a model {model.id!r}; choose another id for the base"
                )
            found[model.id] = model
    return found


class Config(Section):
    """A whole psibench config."""

    extends: list[str] = Field(default_factory=list)
    """Shipped configs that this one overrides key by key, e.g. [presets/posir.yaml]; each of
    several overrides the ones before. Lists are replaced."""
    benchmarks: dict[Id, Benchmark] = Field(min_length=1)
    """Benchmarks by id. A user's mapping replaces the default one."""
    models: ModelIds = Field(min_length=1)
    """Ids from the registry. A user's list replaces the default one."""
    registry: dict[Id, Model] = Field(default_factory=dict)
    """More model entries; they override config/models.yaml."""
    llms: dict[Id, LlmSettings] = Field(default_factory=dict)
    """More language models; they override config/llms.yaml."""
    rerankers: dict[Id, RerankerModel] = Field(default_factory=dict)
    """More rerankers; they override config/rerankers.yaml."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """More prices by model name; they override config/prices.yaml. A name may end in `*`."""
    training: dict[Id, Training] = Field(default_factory=dict)
    """Trainings of base models on a benchmark's queries, by id. The trained models
    BASE-DISTRIBUTION-sSEED are evaluated on the other benchmarks, in addition to `models`."""
    compare: dict[ModelId, ModelId] = Field(default_factory=dict)
    """More pairs of models for results/comparisons.csv: each key is compared with its value on the
    same queries."""
    leaderboards: list[Leaderboard] = Field(default_factory=list)
    """Scores of the same models on other leaderboards, to correlate with."""
    metrics: Metrics = Field(default=list(DEFAULT_METRICS), min_length=1)
    """Per-query metrics; the first is the main metric. ndcg-tie-averaged@K averages over the ranks
    of documents with equal scores, like the published numbers of SQuAD-PosQ and FineWeb-PosQ."""
    psi_metrics: Metrics = Field(default=["ndcg@10"], min_length=1)
    """Metrics with rows in the PSI table."""
    length_tokenizer: str = "embedded:all-MiniLM-L6-v2"
    """Tokenizer for token lengths: a checkpoint, or `words` to split on whitespace."""
    encoding: Encoding = Encoding()
    search: Search = Search()
    uncertainty: Uncertainty = Uncertainty()
    probes: Probes = Probes()
    report: Report = Report()
    store: Annotated[str, AfterValidator(workflow_path)] = "store"
    """Folder of vectors, scores and answers, stored by content and reused after results/ is
    deleted."""
    longest_minutes: int = Field(default=1440, ge=30)
    """Longest time that a job requests, in minutes: the time limit of your cluster's partitions. A
    stopped job continues from where it was."""
    limit: int | None = Field(default=None, ge=2)
    """A small run: at most this many documents per domain (queries, if a recipe samples no
    documents) from the first two domains and languages; a training has one length bin and no
    budget. Every page notes this and omits the comparison with papers. Null: no limit."""
    stand_ins: bool = False
    """A test of the pipeline on any machine, without meaningful results: the embedded models and
    the rule-based stand-in replace the config's models, and small shipped texts replace texts on
    the hub. Every page and model id notes this, and the comparison with papers is omitted."""
    pathvars: dict[str, Any] = Field(default_factory=dict)
    """A key of Snakemake, passed on unchanged."""

    @property
    def notice(self) -> str:
        """The note at the top of every page; empty for a normal run."""
        found = [STAND_INS_NOTICE] if self.stand_ins else []
        if self.limit is not None:
            found.append(LIMIT_NOTICE.format(limit=self.limit))
        return " ".join(found)

    @cached_property
    def trained(self) -> dict[str, TrainedModel]:
        """The models that `training` trains, by id."""
        return trained_models(self.training)

    @cached_property
    def untrained(self) -> dict[str, SentenceTransformerModel]:
        """The base models that are also evaluated untrained, by id."""
        return untrained_bases(
            one for one in self.trained.values() if self.training[one.training].untrained
        )

    @model_validator(mode="after")
    def _names_exist(self) -> "Config":
        for name, section in self.benchmarks.items():
            for view in (view_id(name, sort) for sort in view_names(section)):
                if view in self.benchmarks:
                    raise ValueError(
                        f"benchmark id {view!r} is the id of a view of {name!r}; choose another id"
                    )
        for name, training in self.training.items():
            if training.benchmark not in self.benchmarks:
                raise ValueError(
                    f"training.{name}.benchmark {training.benchmark!r} is not among benchmarks "
                    f"{list(self.benchmarks)}"
                )
        models, probes = [*self.models, *self.untrained, *self.trained], self.probes
        among = dict.fromkeys(models)
        for key, named, kind, known in (
            *(
                (f"benchmarks.{n}.models", b.models, "models", [*among])
                for n, b in self.benchmarks.items()
            ),
            ("compare", [*self.compare, *self.compare.values()], "models", models),
            ("probes.models", probes.models, "models", models),
            ("probes.benchmarks", probes.benchmarks, "benchmarks", [*self.benchmarks]),
        ):
            if unknown := [name for name in named or () if name not in known]:
                raise ValueError(f"{key} {unknown} are not among {kind} {known}")
        return self

    @model_validator(mode="after")
    def _pairs_have_two_models(self) -> "Config":
        # One stand-in may replace both.
        alike = [one for one, other in self.compare.items() if one == other]
        if alike and not self.stand_ins:
            raise ValueError(f"compare: {alike[0]!r} is compared with itself")
        return self

    @model_validator(mode="after")
    def _metrics_fit(self) -> "Config":
        missing = [name for name in self.psi_metrics if name not in self.metrics]
        if missing:
            raise ValueError(f"psi_metrics {missing} are not among metrics {self.metrics}")
        deepest = max(int(name.split("@")[1]) for name in self.metrics)
        if deepest > self.search.top_k:
            raise ValueError(
                f"search.top_k {self.search.top_k} is below the deepest metric's k {deepest}"
            )
        return self


def load_config(
    override: Mapping[str, Any] | None = None,
) -> tuple[Config, dict[str, Model]]:
    """Merge the user's config over the default, validate it, and look up its models.

    Parameters
    ----------
    override
        The user's config as a mapping, as Snakemake reads it from ``--configfile``.

    Returns
    -------
    config, models
        The typed config, and the entry of each of its models, in the config's order.

    Raises
    ------
    InputError
        For unknown keys, values out of range and secrets. Unknown ids (models, language models,
        rerankers), repeated models, models that cannot be probed, and language models with a budget
        but no price are reported together.
    """
    raw = composed(override or {})
    refuse_secrets(raw)
    config = validated(raw, TypeAdapter(Config), "config")
    if config.limit is not None:
        config = limited(config, config.limit)
    if config.stand_ins:
        config = with_stand_ins(config, {name for _, name in _named_llms(config)})
    known = load_registry() | config.registry
    made = config.untrained | {name: model.entry for name, model in config.trained.items()}
    config = config.model_copy(update={"models": [*config.models, *made]})
    if taken := [name for name in made if name in known]:
        raise InputError(
            f"config key training: the registry also has a model {taken[0]!r}; choose another id "
            "for the base"
        )
    known |= made
    refuse(_problems(config, known))
    return config, {name: known[name] for name in config.models}


def plain_config(config: Config, entries: Mapping[str, Mapping[str, Section]]) -> dict[str, Any]:
    """Return a config as plain data, with all entries that it names.

    ``entries`` replaces the values of ``registry``, ``llms`` and ``rerankers``, by id.
    """
    named = {
        key: {name: entry.model_dump(mode="json") for name, entry in found.items()}
        for key, found in entries.items()
    }
    return config.model_dump(mode="json") | named


def first_stage_of(entry: RerankModel, section: Benchmark, config: Config) -> str:
    """Return the model whose run a reranker reranks on a benchmark."""
    return entry.first_stage or section.first_stage or config.search.first_stage


def upstream_models(entry: Model, config: Config) -> list[str]:
    """List the models whose runs a model reranks (on any benchmark) or fuses."""
    if isinstance(entry, RerankModel):
        sections = config.benchmarks.values()
        return list(dict.fromkeys(first_stage_of(entry, one, config) for one in sections))
    return list(entry.of) if isinstance(entry, FusionModel) else []


def resolve_llms(config: Config) -> dict[str, LlmSettings]:
    """Return the language models that the benchmarks name, by id, in order of first use."""
    known = load_llms(config.llms)
    return {llm: known[llm] for _, llm in _named_llms(config)}


def resolve_rerankers(config: Config, models: Mapping[str, Model]) -> dict[str, RerankerModel]:
    """Return the rerankers that benchmarks and ``models`` name, by id, in order of first use."""
    named = [name for _, name in _named_rerankers(config, models)]
    known = load_rerankers(config.rerankers) if named else {}
    return {name: known[name] for name in named}


def _problems(config: Config, models: Mapping[str, Model]) -> Iterator[str]:
    """Yield messages about unknown ids, repeated models, and unsuitable probes and budgets."""
    repeated = sorted({name for name in config.models if config.models.count(name) > 1})
    if repeated:
        yield f"config key models: named more than once: {', '.join(repeated)}"
    evaluated = {name: models[name] for name in config.models if name in models}
    for name in config.probes.models or ():
        if name in evaluated and (reason := why_not(evaluated[name])) is not None:
            yield f"config key probes.models: {name!r} cannot be probed: {reason}"
    llms, rerankers = list(_named_llms(config)), list(_named_rerankers(config, evaluated))
    known_llms = load_llms(config.llms) if llms else {}
    known_rerankers = load_rerankers(config.rerankers) if rerankers else {}
    named_models = [("models", name) for name in config.models]
    for benchmark, one in config.benchmarks.items():
        translated_for = (one.translate and one.translate.models) or ()
        key = f"benchmarks.{benchmark}.translate.models"
        named_models += [(key, name) for name in translated_for]
    add = "Add an entry under"
    for kind, advice, known, named in (
        ("model", f"`psibench models` lists all. {add} `registry:`", models, named_models),
        ("language model", f"{add} `llms:`", known_llms, llms),
        ("reranker", f"{add} `rerankers:`", known_rerankers, rerankers),
    ):
        more = f"{advice} for your own."
        for key, name in named:
            if name not in known:
                listed = f" Supported: {supported(name, known)}. {more}" if more else ""
                yield f"config key {key}: unknown {kind} {name!r}.{listed}"
                more = ""  # once
    yield from _without_price(known_llms, {name for _, name in llms}, config)


def _without_price(
    known: Mapping[str, LlmSettings], named: set[str], config: Config
) -> Iterator[str]:
    for name, llm in known.items():
        if name in named and llm.budget_usd is not None:
            try:
                price_of(llm.model, load_prices(config.prices))
            except InputError as error:
                yield f"config key llms.{name}.budget_usd: {error}"


def _named_rerankers(config: Config, models: Mapping[str, Model]) -> Iterator[tuple[str, str]]:
    """Yield (config key, id) of every reranker of a benchmark or one of ``models``."""
    for path, section in _sections(config.benchmarks, "benchmarks"):
        for name in getattr(section, "rerankers", ()):
            yield f"{path}.rerankers", name
    for model, entry in models.items():
        if isinstance(entry, RerankModel):
            yield f"registry.{model}.reranker", entry.reranker


def _named_llms(config: Config) -> Iterator[tuple[str, str]]:
    """Yield (config key, id) of every language model of a benchmark's tasks."""
    for path, section in _sections(config.benchmarks, "benchmarks"):
        if isinstance(section, LlmTaskSection):
            yield f"{path}.llm", section.llm
        elif isinstance(section, FinewebNegatives):
            yield from ((f"{path}.judges.{n}", judge) for n, judge in enumerate(section.judges))


def _sections(value: Any, path: str) -> Iterator[tuple[str, Section]]:
    """Yield (config key, section) for all sections in a value, outer sections first."""
    if isinstance(value, Section):
        yield path, value
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _sections(inner, f"{path}.{name}")
