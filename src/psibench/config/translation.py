"""Config of a benchmark's translation: who translates, what is cleaned, how good it is."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import Id, Language, Section, refuse_repeats
from psibench.llm.tasks import LlmTaskSection

Languages = Annotated[list[Language], AfterValidator(refuse_repeats)]


class Outliers(Section):
    """Bounds of a translated document's length, by quartiles of its language and domain.

    PosIR (appendix B.5) has bounds that are stricter above than below; their numbers are lost in
    the paper's text, so these are a choice.
    """

    of: Literal["length", "ratio"] = "length"
    """length: tokens of the translation, as in PosIR. ratio: these over the tokens of its source
    document, which shows what is cut short or said twice where documents differ much in length."""
    low: float = Field(default=3.0, ge=0)
    """Shortest: first quartile less this many interquartile ranges, of tokens or of the ratio."""
    high: float = Field(default=1.5, ge=0)
    """Longest: third quartile plus this many interquartile ranges, of tokens or of the ratio."""


class Refusals(LlmTaskSection):
    """Who decides whether a suspicious translation is a refusal: an LLM reads its beginning."""


class Cleaning(Section):
    """What is mended and removed in translations, in the order of PosIR (appendix B.5)."""

    prefixes: bool = True
    """Remove what a model says before the translation itself."""
    refusals: Refusals | None = None
    """Remove refusals: suspects by phrases and language, decided by a judge. Null keeps them."""
    outliers: Outliers | None = Outliers()
    """Remove documents of unusual length. Null keeps them."""


class Relocate(Section):
    """Find the evidence again in the translation, as columns beside the original's span."""

    method: Literal["sentences", "quote"] = "sentences"
    """sentences: the translated sentences that align with the original's by their lengths. quote:
    a language model quotes them."""
    llm: Id | None = None
    """Language model that quotes; for method quote."""
    prompt: str | None = None
    """Its template; null is the shipped one."""

    @model_validator(mode="after")
    def _quoting_needs_a_model(self) -> "Relocate":
        if (self.method == "quote") != (self.llm is not None):
            raise ValueError("`llm` goes with `method: quote`, and `quote` needs it")
        return self


class Quality(LlmTaskSection):
    """A sample of the translations graded by a language model (PosIR, appendix B.1)."""

    per_stratum: int = Field(default=3, ge=1)
    """Documents per domain and length stratum (PosIR: 12 per domain in four strata)."""
    seed: int = Field(default=42, ge=0)
    """Seed of the sample."""
    human: list[str] = Field(default_factory=list)
    """CSV files with grades by people, to compare: language, domain, doc_id and a column per
    dimension; see docs/multilingual.md."""


class Translate(LlmTaskSection):
    """Corpus and queries in further languages by a language model, judgements shared."""

    to: Languages = Field(min_length=1)
    """Languages to translate to."""
    max_part_tokens: int = Field(default=2048, ge=16)
    """A document of more tokens (of length_tokenizer) is translated in groups of paragraphs."""
    shards: int | None = Field(default=None, ge=1, le=10_000)
    """Jobs that each domain's translation is cut into; null: as the benchmark's other tasks."""
    clean: Cleaning = Cleaning()
    relocate: Relocate | None = None
    """Null: positions are those of the original alone."""
    quality: Quality | None = None
    models: Annotated[list[Id], AfterValidator(refuse_repeats)] | None = None
    """Those of the models evaluated on translations; null: all."""
