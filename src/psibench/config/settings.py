"""Config of encoding, search, metrics, uncertainty and the report; and the whole."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from psibench.config.base import Id, Section, refuse_repeats
from psibench.config.benchmarks import Benchmark
from psibench.config.leaderboards import Leaderboard
from psibench.config.llms import LlmSettings, Price
from psibench.config.models import Model
from psibench.config.paths import workflow_path
from psibench.config.rerankers import RerankerModel
from psibench.config.views import views_of
from psibench.metrics.definitions import DEFAULT_METRICS

Metric = Annotated[str, StringConstraints(pattern=r"^(ndcg|recall|mrr)@[1-9][0-9]*$")]
Metrics = Annotated[list[Metric], AfterValidator(refuse_repeats)]


class Encoding(Section):
    """How texts become vectors. None of it changes a result beyond the stated tolerance."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, bfloat16 on a GPU (float16 on one too old for bfloat16). Set
    float32 to compare scores to the last digit."""
    tokens_per_batch: int = Field(default=8_192, ge=64)
    """Padded tokens in one forward pass; raise it on a GPU. Halved where memory is not enough."""
    tokens_per_part: int = Field(default=65_536, ge=64)
    """Tokens encoded between two writes to the store, at least."""
    seconds_per_part: int = Field(default=60, ge=0)
    """Seconds between two writes to the store, at least, unless 64 MiB are reached: at most this,
    or `tokens_per_part`, is lost when killed. Parts are few and large where it is high."""
    storage: Literal["float32", "float16"] = "float32"
    """Number format of stored vectors; float16 takes half the room."""
    shards: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """Jobs that share the texts of a benchmark in a language, per model. auto: as many as leave
    each `minutes_per_shard` of a GPU, by the sizes that the config plans (`psibench plan`)."""
    minutes_per_shard: float = Field(default=120, ge=10)
    """GPU minutes of a job that shards: auto aims at. Another number of shards looks all texts up
    again, and encodes none of them again."""
    gpu_tflops: float = Field(default=100, gt=0)
    """10^12 operations a second that a GPU is counted on to do: what plans go by."""
    max_shards: int = Field(default=64, ge=1)
    """Most shards that auto makes."""
    node_cache: str | None = None
    """Folder on a node's own disk where checkpoints are copied before they are loaded, as
    $TMPDIR/psibench (variables are expanded on the node); null: loaded from where they lie."""


class Search(Section):
    """Exact search."""

    top_k: int = Field(default=100, ge=1)
    """Documents kept per query; at least the largest k among the metrics."""
    block_mib: int = Field(default=256, ge=8)
    """Memory of one block of scores, MiB."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one. Documents and scores are the same on both."""
    first_stage: Id = "bm25"
    """Model whose run the rerankers share; an entry's own first_stage goes before it."""


class Uncertainty(Section):
    """How figures get their intervals and warnings (docs/psi.md)."""

    level: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of the intervals."""
    min_bucket_size: int = Field(default=30, ge=1)
    """A row with a bucket of fewer queries is flagged `small_buckets`; every bucket counts."""


class Report(Section):
    """The HTML report."""

    title: str = "Position sensitivity of retrievers"


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
