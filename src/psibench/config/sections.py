"""Config of encoding, served models, search, uncertainty, leaderboards and the report."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from psibench.config.base import Id, ModelId, Section
from psibench.config.paths import shipped

Storage = Literal["float32", "float16"]
"""Number format of stored vectors."""


class Encoding(Section):
    """How texts are encoded. These keys change results at most within the stated tolerance."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda if there is a GPU."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, bfloat16 on a GPU (float16 on a GPU without bfloat16). Use float32 if
    every digit of a score matters."""
    tokens_per_batch: int = Field(default=0, ge=0)
    """Tokens in one forward pass, with padding unless texts are packed (docs/models.md); 0: 8,192
    on a CPU, 65,536 on a GPU. It is halved if memory does not suffice."""
    tokens_per_part: int = Field(default=65_536, ge=64)
    """Least number of tokens between two writes to the store."""
    seconds_per_part: int = Field(default=60, ge=0)
    """Least time between two writes to the store, seconds, unless 64 MiB are reached. A killed job
    loses at most the work since the last write."""
    storage: Storage = "float32"
    """Number format of stored vectors; float16 takes half the disk space."""
    shards: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """Jobs that share the texts of a benchmark in a language, per model, and the pairs of a
    filter's rerankers. auto: each job takes about `minutes_per_shard` on a GPU; at most 64 jobs."""
    minutes_per_shard: float = Field(default=120, ge=10)
    """Planned GPU minutes of a job with `shards: auto`. Changing the number of shards encodes no
    text again."""
    gpu_tflops: float = Field(default=100, gt=0)
    """Planned speed of a GPU, 10^12 operations per second."""
    gpu_gb_per_s: float = Field(default=1000, gt=0)
    """Planned memory bandwidth of a GPU while a local language model writes, 10^9 bytes per second:
    half of an A100 with 80 GB (2,039 in its data sheet). Not used if the entry has
    `vllm.tokens_per_s`."""


class VllmServer(Section):
    """How a job starts `vllm serve MODEL`."""

    command: list[str] = Field(default=["vllm", "serve"], min_length=1)
    """Program and first arguments; the model, --host, --port and `arguments` follow."""
    arguments: list[str] = Field(default_factory=list)
    """Further arguments, e.g. --max-model-len 8192."""
    gpus: int = Field(default=1, ge=0, le=64)
    """GPUs of the job; above 1 the server splits the model over them (tensor parallel). 0: a CPU
    build of vLLM, with a cache of 2 GiB unless `arguments` set it (docs/vllm.md)."""
    start_s: float = Field(default=1800.0, gt=0)
    """Longest time until the server is ready, download and loading included, seconds."""
    stop_s: float = Field(default=20.0, gt=0)
    """Time for the server to end before it is killed, seconds."""


class Search(Section):
    """Exact search."""

    top_k: int = Field(default=100, ge=1)
    """Documents kept per query; at least the largest k among the metrics."""
    block_mib: int = Field(default=256, ge=8)
    """Memory of a block, MiB: one half for documents' vectors, one quarter for scores."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda if there is a GPU. CPU and GPU give the same rankings except for near ties."""
    first_stage: ModelId = "bm25"
    """Model whose run the rerankers share; `first_stage` of an entry overrides it."""


class Uncertainty(Section):
    """Intervals and warnings (docs/psi-method.md)."""

    level: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of the intervals."""
    min_bucket_size: int = Field(default=30, ge=1)
    """A row with a bucket of fewer queries is flagged `small_buckets`; every bucket counts."""


class Report(Section):
    """The HTML report."""

    title: str = "Position sensitivity of retrievers"


class Leaderboard(Section):
    """A CSV file with one row per model and its score on another benchmark."""

    name: Id
    """Names its rows in results/leaderboards.csv."""
    path: Annotated[str, AfterValidator(shipped)] = Field(min_length=1)
    """The CSV file, relative to the working directory; `shipped:published/posir_table2.csv` is one
    of psibench's own."""
    model_column: str = Field(default="model", min_length=1)
    """Column that names the model."""
    score_column: str = Field(default="score", min_length=1)
    """Column of the score, larger is better; a model without a score is left out."""
    aliases: dict[str, Id] = Field(default_factory=dict)
    """Model ids by the leaderboard's names, where these differ in more than upper and lower
    case."""
