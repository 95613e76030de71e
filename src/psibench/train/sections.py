"""Config of training: the pool and its draws, the bases, and the training settings.

The defaults follow Controlled (arXiv 2605.26578, sections 3.1.4 and 3.2.2, tables 8 and 10).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import Commit, Id, Language, Section, refuse_repeats
from psibench.text.segments import POSITIONS, Position

POOL = "pool"
"""Name of the distribution with all eligible examples."""
LARGE_M = 400
"""Millions of parameters from which the lower learning rate applies."""
LEARNING_RATES = (4e-5, 2e-5)
"""Learning rates below ``LARGE_M`` and from ``LARGE_M`` (Controlled, appendix D)."""


class Pads(Section):
    """Position-aware data sampling (Needles, section 5): windows of documents as pairs."""

    share: float = Field(default=0.2, gt=0, le=1)
    """Share of the pool's documents to train on, drawn by `sampling_seed`."""
    per_domain: dict[Id, Annotated[int, Field(ge=1)]] | None = Field(default=None, min_length=1)
    """Number of documents to train on by domain, instead of `share` (Needles: 50, 225 and 225);
    domains without a number are not used."""
    window: float = Field(default=0.5, gt=0, lt=1)
    """Length of a window as a share of the document's tokens; its start is random."""
    margin: float = Field(default=0.5, gt=0, le=2)
    """Cosine distance above which a negative pair has no loss. The paper gives no number; this is
    the default of sentence-transformers."""
    batch_size: int = Field(default=16, ge=2)
    """Pairs per step, positive and negative. The paper gives no number."""


class Base(Section):
    """A checkpoint to train, and how it makes vectors before and after.

    A checkpoint that needs custom code cannot be trained, because the trained model could not be
    loaded without that code.
    """

    checkpoint: str
    """embedded:all-MiniLM-L6-v2, a local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null does not pin it: the default branch may
    change."""
    licence: str = ""
    """Licence of the checkpoint, for the card of the trained model."""
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    pooling: Literal["cls", "mean", "max", "lasttoken"]
    query_prompt: str = "query: "
    """Text before each query; Controlled uses "Retrieve a relevant passage: " for decoders."""
    document_prompt: str = ""
    """Text before each document."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Millions of parameters: sets the learning rate and the resources of the job."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Null: 4e-5 below 400 million parameters, else 2e-5. Controlled counts ModernBERT-large (395
    million) among the larger models: set 2e-5 for it."""
    layers: int | None = Field(default=None, ge=1)
    """Number of layers to keep, from the first: makes a smaller network. Null: all."""
    positions: Literal["none"] | None = None
    """none: disables the rotary embedding; Controlled's TinyLlama-NoPE needs this, because its
    config.json does not. Null: as in config.json."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the forward pass; weights and updates are float32. auto: bfloat16 on a GPU
    that supports it, else float32."""
    objective: Literal["contrastive", "pads"] = "contrastive"
    """contrastive: queries and documents under each distribution. pads: documents of the pool,
    without queries and distributions."""
    pads: Pads | None = None
    """Settings of `objective: pads`; null: the defaults."""

    @model_validator(mode="after")
    def _consistent(self) -> "Base":
        if self.learning_rate is None and self.parameters_m is None:
            raise ValueError(
                "set learning_rate or parameters_m: the default learning rate is 4e-5 below 400 "
                "million parameters, else 2e-5"
            )
        if self.pads is not None and self.objective != "pads":
            raise ValueError(f"pads needs objective: pads, but objective is {self.objective!r}")
        return self

    @property
    def rate(self) -> float:
        """The learning rate, set or by size."""
        if self.learning_rate is not None:
            return self.learning_rate
        return LEARNING_RATES[(self.parameters_m or 0) >= LARGE_M]


class Settings(Section):
    """Training settings of every base; the optimiser is AdamW without weight decay."""

    epochs: int = Field(default=3, ge=1)
    """Passes over the examples. A pass skips examples that fit no batch of distinct texts;
    model.json counts them."""
    batch_size: int = Field(default=256, ge=2)
    """Examples per step: the other documents of the batch are a query's negatives."""
    mini_batch_size: int = Field(default=32, ge=1)
    """Texts encoded at the same time: affects memory, not the result."""
    schedule: Literal["linear", "none"] = "linear"
    """Learning rate over the steps. linear: rises from 0 in the first tenth, then falls to 0. none:
    constant."""
    scale: float = Field(default=20.0, gt=0)
    """Factor of the cosines: 1 / temperature."""
    max_gradient_norm: float | None = Field(default=1.0, gt=0)
    """Gradients are clipped to this norm (the trainer's default); null: no clipping."""
    save_minutes: int = Field(default=10, ge=0)
    """Minutes between checkpoints. A killed run resumes from the last one, with the same result."""


@dataclass(frozen=True)
class Examples:
    """Training examples of a run.

    ``bins`` has the texts by length bin and by the trainer's column name, in the order in which the
    loss takes the columns (``label`` has 0 and 1); a batch has examples of one bin. ``prompts`` are
    put before the texts of a column. With ``distinct`` a batch has no text twice, because the loss
    would count it as a negative of its positive.
    """

    bins: Mapping[str, Mapping[str, Sequence[Any]]]
    prompts: Mapping[str, str]
    batch_size: int
    n_documents: int
    distinct: bool

    def __len__(self) -> int:
        return sum(len(next(iter(columns.values()))) for columns in self.bins.values())


Ratio = dict[Position, Annotated[int, Field(ge=0)]]


class Training(Section):
    """Bases trained on one pool under several distributions of the evidence's position."""

    benchmark: Id
    """Benchmark whose retained queries are the pool."""
    lang: Language | None = None
    """Language of the pool; null: the benchmark's language."""
    edges: list[Annotated[int, Field(ge=0)]] = Field(
        default=[256, 512, 1024, 2048, 4096, 8192], min_length=2
    )
    """Borders of the length bins, characters of the document; a bin includes its lower border, the
    last bin also its upper border."""
    distributions: dict[Id, Ratio] = Field(
        default={
            "begin": {"beginning": 1},
            "middle": {"middle": 1},
            "end": {"end": 1},
            "uniform": {"beginning": 1, "middle": 1, "end": 1},
        },
        min_length=1,
    )
    """Name -> parts of beginning, middle and end; a missing position has part 0."""
    budget: int | None = Field(default=None, ge=1)
    """Examples per length bin; null: the smallest cell of length bin and position."""
    sampling_seed: int = Field(default=42, ge=0)
    """Seed of the draws."""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(refuse_repeats)] = Field(
        default=[42], min_length=1
    )
    """Seeds of training; each makes a separate model."""
    bases: dict[Id, Base] = Field(min_length=1)
    """Checkpoints to train, by id."""
    settings: Settings = Settings()
    untrained: bool = False
    """Also evaluate and probe each base without training, as BASE-untrained."""
    same_article: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    """Exclude a document of the pool if it shares at least this share of the runs of five words of
    the shorter text with a document of a test query. Null: exclude only equal texts."""

    @model_validator(mode="after")
    def _consistent(self) -> "Training":
        cut = [name for name, base in self.bases.items() if base.layers is not None]
        if self.untrained and cut:
            raise ValueError(
                f"untrained: base {cut[0]!r} has `layers`, but no checkpoint has only these "
                "layers; remove `layers` or `untrained`"
            )
        if any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} must increase")
        for name, ratio in self.distributions.items():
            if name == POOL:
                raise ValueError(
                    f"distribution id {POOL!r} is reserved for the whole pool; use another name"
                )
            if not any(ratio.values()):
                raise ValueError(
                    f"distributions.{name} {ratio}: at least one of {', '.join(POSITIONS)} needs a "
                    "part above 0"
                )
        return self

    @property
    def runs(self) -> list[tuple[str, str, int]]:
        """(base, distribution, seed) of every model to train; PADS uses the pool."""
        return [
            (name, distribution, seed)
            for name, base in self.bases.items()
            for distribution in ([POOL] if base.objective == "pads" else self.distributions)
            for seed in self.seeds
        ]
