"""Config of judgements by language models, false negatives, subsets and training mixtures."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import Id, Section, refuse_repeats, refuse_reserved
from psibench.llm.tasks import LlmTaskSection


def _refuse_no_part(parts: list[int]) -> list[int]:
    """Raise ValueError if every part is 0: there would be nothing to draw."""
    if not any(parts):
        raise ValueError("one of beginning, middle and end needs a part above 0")
    return parts


Names = Annotated[list[Id], AfterValidator(refuse_repeats)]
Panel = Annotated[list[Id], AfterValidator(refuse_repeats), AfterValidator(refuse_reserved)]
Parts = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=3, max_length=3),
    AfterValidator(_refuse_no_part),
]


class Grade(LlmTaskSection):
    """A language model grades relevance from 0 to 4, and low or undecided candidates are dropped.

    Two rounds: what decides most candidates first, the rest for those still undecided.
    """

    rule: Literal["segments", "span"] | None = None
    """segments: the target third is graded min_grade or more, and leads every other third by
    min_lead (PosQ, appendix A.2). span: the document is graded min_grade or more, and higher than
    without the evidence (PosIR, 2.3). null: span for posir, segments for the others."""
    min_grade: int = Field(default=3, ge=0, le=4)
    """Lowest grade of the target, or of the whole document."""
    min_lead: int = Field(default=1, ge=1, le=4)
    """Least lead of the target over every other third (rule segments)."""
    complete: bool = False
    """Grade every part of every candidate, decided or not. The queries kept are the same."""


class Audit(LlmTaskSection):
    """A language model says of each third, seen alone, whether it answers; nothing is dropped.

    The result is a table by strata of the margin (Controlled, appendix B.3, table 7).
    """

    per_stratum: int = Field(default=500, ge=1)
    """Queries drawn from each stratum of the margin."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""


class Recall(Section):
    """The first stage that finds documents which might be relevant too."""

    model: Id
    """Id of the model registry: a dense encoder or BM25. It need not be evaluated."""
    top_k: int = Field(default=1000, ge=1)
    """Documents recalled per query (PosQ and PosIR: 1,000)."""


class FalseNegatives(Section):
    """What the protocols of false negatives share."""

    recall: Recall
    rerankers: Panel = Field(min_length=1)
    """Ids of config/rerankers.yaml or of your own `rerankers`, the cheapest first: what is decided
    is not scored by the next."""
    complete: bool = False
    """Score every recalled pair with every reranker, decided or not."""
    evaluate_raw: bool = True
    """Evaluate the benchmark before the removal too, as BENCHMARK-raw."""


class FinewebNegatives(FalseNegatives):
    """Questions that another document answers too are dropped (PosQ, appendix A.2, stage 2)."""

    protocol: Literal["fineweb_posq"]
    threshold: float = Field(default=0.5, ge=0, lt=1)
    """A reranker votes for a pair that it scores above this, from 0 to 1."""
    judges: Names = Field(min_length=1)
    """Language models that grade what most rerankers voted for, the cheapest first."""
    needed: int = Field(default=2, ge=1)
    """Judges that have to grade a pair min_grade or more."""
    min_grade: int = Field(default=3, ge=0, le=4)
    """Lowest grade that counts as relevant."""
    prompt: str | None = None
    """Template of the judges, relative to the working directory; null is the shipped
    config/prompts/grade_relevance.md."""

    @model_validator(mode="after")
    def _enough_judges(self) -> "FinewebNegatives":
        if self.needed > len(self.judges):
            raise ValueError(f"needed is {self.needed}, but there are {len(self.judges)} judges")
        return self


class PosirNegatives(FalseNegatives):
    """Documents that score above a query's positive leave the corpus (PosIR, section 2.3)."""

    protocol: Literal["posir"]
    under: Literal["any", "all"] = "any"
    """Rerankers under which the document has to score above the positive."""


NegativesProtocol = Annotated[FinewebNegatives | PosirNegatives, Field(discriminator="protocol")]


TinyKind = Literal["sparse", "dense", "late-interaction", "reranker", "control", "run"]


class Tiny(Section):
    """A small subset of the queries over the same corpus, for models that are slow."""

    per_position: int = Field(default=1000, ge=1)
    """Queries drawn of each target position (PosQ, section 3.2: 1,000; Myopic: 3,300)."""
    seed: int = Field(default=42, ge=0)
    """Seed of the shuffle."""
    only_here: list[TinyKind] = Field(default=["late-interaction", "reranker"])
    """Kinds of models that run on the subset alone, as in the papers; others run on both."""


class Mixtures(Section):
    """Training sets of equal size and length that differ in where the evidence lies."""

    configurations: dict[Id, Parts] = Field(
        default={"begin": [1, 0, 0], "middle": [0, 1, 0], "end": [0, 0, 1], "uniform": [1, 1, 1]},
        min_length=1,
    )
    """Name -> parts of beginning, middle and end (Controlled, section 3.2.2)."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw (Controlled, appendix D: 42)."""
