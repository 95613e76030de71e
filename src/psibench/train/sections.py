"""Config of training: the pool and its draws, the bases, and how they are trained.

Defaults are those of Controlled (arXiv 2605.26578, sections 3.1.4 and 3.2.2, tables 8 and 10).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import Commit, Id, Language, Section, refuse_repeats
from psibench.text.segments import POSITIONS, Position

POOL = "pool"
"""The distribution of all examples that may be drawn."""
LARGE_M = 400
"""Millions of parameters from which on the learning rate is the lower one."""
LEARNING_RATES = (4e-5, 2e-5)
"""Below ``LARGE_M`` and from there on (Controlled, appendix D)."""


class Pads(Section):
    """Position-aware data sampling (Needles, section 5): windows of documents as pairs."""

    share: float = Field(default=0.2, gt=0, le=1)
    """Share of the pool's documents that are trained on, drawn by `sampling_seed`."""
    per_domain: dict[Id, Annotated[int, Field(ge=1)]] | None = Field(default=None, min_length=1)
    """Documents of each domain that are trained on, in place of `share`, as Needles' 50, 225 and
    225; a domain without a number has none."""
    window: float = Field(default=0.5, gt=0, lt=1)
    """Length of a window as a share of the document's tokens; it starts anywhere up to the rest."""
    margin: float = Field(default=0.5, gt=0, le=2)
    """Cosine distance from which on a negative pair costs nothing. The paper has no number; this
    is sentence-transformers' default."""
    batch_size: int = Field(default=16, ge=2)
    """Pairs per step, positive and negative ones. The paper has no number."""


class Base(Section):
    """A checkpoint to be trained and how it makes vectors, before and after.

    One that brings code of its own cannot be trained: what is saved could not be read without it.
    """

    checkpoint: str
    """embedded:all-MiniLM-L6-v2, a local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null is not pinned: the default branch moves."""
    licence: str = ""
    """Of the checkpoint, for the card of what is trained from it."""
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    pooling: Literal["cls", "mean", "max", "lasttoken"]
    query_prompt: str = "query: "
    """Text put before each query; Controlled has "Retrieve a relevant passage: " for decoders."""
    document_prompt: str = ""
    """Text put before each document."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Parameters in millions: decides the learning rate and plans the job."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Null: 4e-5 below 400 million parameters, 2e-5 from there on. Controlled counts
    ModernBERT-large (395 million) among the larger ones: give it 2e-5."""
    layers: int | None = Field(default=None, ge=1)
    """Keep the first so many layers alone: a small network cut from a larger one."""
    positions: Literal["none"] | None = None
    """none: without rotary embedding, which config.json does not say of Controlled's
    TinyLlama-NoPE. Null: as config.json says."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the forward pass; weights and updates are float32. auto: bfloat16 on a GPU
    that has it, else float32."""
    objective: Literal["contrastive", "pads"] = "contrastive"
    """contrastive: queries and documents under each distribution. pads: documents of the pool
    alone, no distribution."""
    pads: Pads | None = None
    """Settings of `objective: pads`; null: the defaults."""

    @model_validator(mode="after")
    def _consistent(self) -> "Base":
        if self.learning_rate is None and self.parameters_m is None:
            raise ValueError(
                "give learning_rate, or parameters_m: the learning rate is 4e-5 below 400 million "
                "parameters and 2e-5 from there on"
            )
        if self.pads is not None and self.objective != "pads":
            raise ValueError(f"pads needs objective: pads, and it is {self.objective!r}")
        return self

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        if self.learning_rate is not None:
            return self.learning_rate
        return LEARNING_RATES[(self.parameters_m or 0) >= LARGE_M]


class Settings(Section):
    """How every base is trained, by AdamW without weight decay."""

    epochs: int = Field(default=3, ge=1)
    """Passes over the examples. What fits no batch without a text twice is left out of a pass, and
    counted in model.json."""
    batch_size: int = Field(default=256, ge=2)
    """Examples per step: each is told apart from the other documents of its batch."""
    mini_batch_size: int = Field(default=32, ge=1)
    """Texts encoded at once: memory, not the result."""
    schedule: Literal["linear", "none"] = "linear"
    """Learning rate over the steps. linear: up from 0 in the first tenth of them, then down to 0.
    none: the same in all."""
    scale: float = Field(default=20.0, gt=0)
    """Factor of the cosines: 1 / temperature."""
    max_gradient_norm: float | None = Field(default=1.0, gt=0)
    """Longer gradients are cut to this norm (the trainer's default); null: none is cut."""
    save_minutes: int = Field(default=10, ge=0)
    """Minutes between two checkpoints that a killed run goes on from, to the same result."""


@dataclass(frozen=True)
class Examples:
    """What a run trains on.

    ``bins`` has the texts by length bin and by the trainer's column names, in the order that the
    loss takes them (``label`` has 0 and 1); a batch is of one bin. ``prompts`` are put before the
    texts of a column. ``distinct``: no text is twice in a batch, where it would be a negative of
    its own.
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
    """Bases trained on one pool under several distributions of where the evidence is."""

    benchmark: Id
    """Whose retained queries are the pool."""
    lang: Language | None = None
    """Language of the pool; null: the benchmark's own."""
    edges: list[Annotated[int, Field(ge=0)]] = Field(
        default=[256, 512, 1024, 2048, 4096, 8192], min_length=2
    )
    """Borders of the length bins, characters of the document; a bin has its lower border and not
    its upper one, the last bin has both."""
    distributions: dict[Id, Ratio] = Field(
        default={
            "begin": {"beginning": 1},
            "middle": {"middle": 1},
            "end": {"end": 1},
            "uniform": {"beginning": 1, "middle": 1, "end": 1},
        },
        min_length=1,
    )
    """Name -> parts of beginning, middle and end; a position without a number has no part."""
    budget: int | None = Field(default=None, ge=1)
    """Examples per length bin; null: the smallest cell of length bin and position."""
    sampling_seed: int = Field(default=42, ge=0)
    """Seed of the draws."""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(refuse_repeats)] = Field(
        default=[42], min_length=1
    )
    """Seeds of training: each is a model of its own."""
    bases: dict[Id, Base] = Field(min_length=1)
    """Checkpoints to be trained, by id."""
    settings: Settings = Settings()
    untrained: bool = False
    """Evaluate and probe each base as it is, too, as BASE-untrained."""
    same_article: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    """A document of the pool is not trained on if it shares this part of its runs of five words (of
    the shorter text's) with one that a test query is about. Null: equal texts alone are left
    out."""

    @model_validator(mode="after")
    def _consistent(self) -> "Training":
        cut = [name for name, base in self.bases.items() if base.layers is not None]
        if self.untrained and cut:
            raise ValueError(
                f"untrained: of base {cut[0]!r} some layers alone are trained, and no checkpoint "
                "has those alone; leave out `layers`, or `untrained`"
            )
        if any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} do not rise")
        for name, ratio in self.distributions.items():
            if name == POOL:
                raise ValueError(f"distribution id {POOL!r} is taken: the pool itself has it")
            if not any(ratio.values()):
                raise ValueError(
                    f"distributions.{name} {ratio}: one of {', '.join(POSITIONS)} needs a part "
                    "above 0"
                )
        return self

    @property
    def runs(self) -> list[tuple[str, str, int]]:
        """List (base, distribution, seed) of every model to be trained; PADS has the pool."""
        return [
            (name, distribution, seed)
            for name, base in self.bases.items()
            for distribution in ([POOL] if base.objective == "pads" else self.distributions)
            for seed in self.seeds
        ]
