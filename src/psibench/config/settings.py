"""The whole config."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from psibench.config.base import Id, Section, refuse_repeats
from psibench.config.benchmarks import Benchmark
from psibench.config.leaderboards import Leaderboard
from psibench.config.llms import LlmSettings, Price
from psibench.config.models import Model
from psibench.config.paths import workflow_path
from psibench.config.rerankers import RerankerModel
from psibench.config.sections import Encoding, Report, Search, Uncertainty
from psibench.config.views import views_of
from psibench.metrics.definitions import DEFAULT_METRICS

Metric = Annotated[str, StringConstraints(pattern=r"^(ndcg|recall|mrr)@[1-9][0-9]*$")]
Metrics = Annotated[list[Metric], AfterValidator(refuse_repeats)]


class Config(Section):
    """A whole psibench config."""

    benchmarks: dict[Id, Benchmark] = Field(min_length=1)
    """Benchmarks by id. A user's mapping replaces the default one."""
    models: list[Id] = Field(min_length=1)
    """Ids from the registry. A user's list replaces the default one."""
    registry: dict[Id, Model] = Field(default_factory=dict)
    """Further model entries, over those of config/models.yaml."""
    llms: dict[Id, LlmSettings] = Field(default_factory=dict)
    """Further language models, over those of config/llms.yaml."""
    rerankers: dict[Id, RerankerModel] = Field(default_factory=dict)
    """Further rerankers, over those of config/rerankers.yaml."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Further prices by model name, over those of config/prices.yaml; a name may end in `*`."""
    leaderboards: list[Leaderboard] = Field(default_factory=list)
    """Scores of the same models elsewhere, to correlate with."""
    metrics: Metrics = Field(default=list(DEFAULT_METRICS), min_length=1)
    """Per-query metrics. The first one is the headline."""
    psi_metrics: Metrics = Field(default=["ndcg@10"], min_length=1)
    """Metrics that get rows in the PSI table."""
    length_tokenizer: str = "embedded:all-MiniLM-L6-v2"
    """Tokenizer of token lengths: a checkpoint, or `words` for pieces split on white space."""
    encoding: Encoding = Encoding()
    search: Search = Search()
    uncertainty: Uncertainty = Uncertainty()
    report: Report = Report()
    store: Annotated[str, AfterValidator(workflow_path)] = "store"
    """Folder of content-addressed results that outlive results/."""
    pathvars: dict[str, Any] = Field(default_factory=dict)
    """Snakemake's own key; passed on."""

    @model_validator(mode="after")
    def _views_are_free(self) -> "Config":
        for name, section in self.benchmarks.items():
            for view in views_of(name, section):
                if view in self.benchmarks:
                    raise ValueError(
                        f"benchmark id {view!r} is taken: results of {name!r} have it; choose "
                        "another id for the benchmark of yours"
                    )
        return self

    @model_validator(mode="after")
    def _models_are_evaluated(self) -> "Config":
        for name, section in self.benchmarks.items():
            unknown = [model for model in section.models or () if model not in self.models]
            if unknown:
                raise ValueError(
                    f"benchmarks.{name}.models {unknown} are not among models {self.models}"
                )
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
