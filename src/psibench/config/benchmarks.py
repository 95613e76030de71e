"""Config of benchmarks: one section per recipe."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from psibench.config.base import LANGUAGE_PATTERN, Id, Language, Section, refuse_repeats
from psibench.config.corpora import (
    Corpus,
    Domain,
    Passages,
    QuestionCorpus,
    check_corpora,
)
from psibench.config.generation import (
    ChooseConfiguration,
    GeneratePositionalQuery,
    GenerateQuestions,
    LocateSpan,
    Personas,
    ProposeQuestions,
    Sample,
    Summarise,
)
from psibench.config.judging import Audit, Grade, Mixtures, NegativesProtocol, Tiny
from psibench.config.release import PosirReleaseSource
from psibench.config.sources import DocumentSource, QuestionSource
from psibench.config.verification import Verify, VerifyMargin
from psibench.translate.steps import Languages, Translate

BucketScheme = Annotated[
    str, StringConstraints(pattern=r"^(squad|thirds|thirds-every-tag|relative-[1-9][0-9]?)$")
]
BucketSchemes = Annotated[list[BucketScheme], AfterValidator(refuse_repeats)]


PAIR_PATTERN = rf"^{LANGUAGE_PATTERN[1:-1]}-{LANGUAGE_PATTERN[1:-1]}$"
CrossLingual = Annotated[
    list[Annotated[str, StringConstraints(pattern=PAIR_PATTERN)]], AfterValidator(refuse_repeats)
]


class BenchmarkBase(Section):
    """What every benchmark has, whatever its recipe."""

    language: Language = "eng-Latn"
    """Language and script of queries and documents, as in eng-Latn."""
    domain: Domain = "general"
    """Name of the text's domain; a folder in results/."""
    description: str = ""
    """One line for the report."""
    length_buckets: bool = False
    """Also report by tokens of the positive: Q1 to 512, Q2 to 1,024, Q3 to 1,536, Q4 above."""
    models: list[Id] | None = Field(default=None, min_length=1)
    """Those of `models` that are evaluated on this benchmark; null: all."""
    cross_lingual: CrossLingual | None = None
    """Cross-lingual pairs QUERIES-DOCUMENTS, as spa-Latn-eng-Latn: queries of one language search
    the documents of another. Null: from each translation to the language it was made from."""
    translate: Translate | None = None
    """Corpora and queries in further languages by a language model; null: none."""


class SquadPosq(BenchmarkBase):
    """SQuAD-PosQ (PosQ, section 3.1): questions by the character at which their answer starts."""

    recipe: Literal["squad_posq"]
    source: QuestionSource | None = None
    corpora: list[QuestionCorpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; in place of `source`."""
    labels: Literal["all", "published"] = "all"
    """all: every context that carries the question is relevant. published: the last one only."""
    subset: Literal["full", "tiny"] = "full"
    """tiny: 10,000 questions drawn as the authors did (seed 42), the same corpus."""
    queries_by: str | None = "people"
    """Who wrote the questions: people, as SQuAD's, or for example llm:NAME; null: not recorded."""
    buckets: BucketSchemes = Field(default=["squad", "relative-20"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    @model_validator(mode="after")
    def _has_corpora(self) -> "SquadPosq":
        check_corpora(self.source, self.corpora, self.language)
        return self


class PosirRelease(BenchmarkBase):
    """A benchmark in the layout of PosIR's release, read as it is; nothing is built."""

    recipe: Literal["posir_release"]
    source: PosirReleaseSource
    languages: Languages | None = None
    """Languages to read; null: every folder of a local release. Needed for one on the hub."""
    domains: list[Domain] | None = Field(default=None, min_length=1)
    """Domains to read; null: every folder of a local release. Needed for one on the hub."""
    queries_by: str | None = None
    """Who wrote the queries, as llm:DeepSeek-V3.1 or people; null: not recorded."""
    prefix_ids: bool = True
    """Put the domain in front of each id, as in mining/123: ids have to differ between domains."""
    length_buckets: bool = True
    buckets: BucketSchemes = Field(default=["relative-20", "thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""


class KnownItem(BenchmarkBase):
    """Known-item queries simulated from each third of each passage, without an LLM."""

    recipe: Literal["known_item"]
    source: DocumentSource | None = None
    corpora: list[Corpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; in place of `source`."""
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""
    n_terms: int = Field(default=5, ge=1, le=20)
    """Words per query."""
    queries_per_third: int = Field(default=1, ge=1, le=20)
    """Queries drawn from each third of each passage."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline. Queries are matched over thirds
    only: near a third's border sit only short spans of long passages, so finer schemes mix
    position with length (the position-blind control shows it)."""

    @model_validator(mode="after")
    def _has_corpora(self) -> "KnownItem":
        check_corpora(self.source, self.corpora, self.language)
        return self


class GeneratedBenchmark(BenchmarkBase):
    """What the recipes share whose queries a language model writes."""

    recipe: str
    source: DocumentSource | None = None
    corpora: list[Corpus] | None = Field(default=None, min_length=1)
    """Several domains or languages, each with a source; in place of `source`."""
    sample: Sample
    """Drawn from each domain in each language."""
    passages: Passages | None = None
    """Cut long documents into passages; without it a document is taken whole."""
    shards: int = Field(default=1, ge=1, le=10_000)
    """Jobs that each task of the language model is cut into, by documents."""
    verify: Verify | None = None
    """Rerankers that filter the candidates; without them every candidate becomes a query."""
    grade: Grade | None = None
    """A language model that filters what the rerankers left."""
    audit: Audit | None = None
    """A language model that says how good the margin is; needs `verify` by margin."""
    false_negatives: NegativesProtocol | None = None
    """What is done about documents that answer a query and are not its positive; null or none:
    nothing.
    The benchmark before it is evaluated too, under the id BENCHMARK-raw."""
    tiny: Tiny | None = None
    """A small subset of the queries, evaluated too, under the id BENCHMARK-tiny."""
    mixtures: Mixtures | None = None
    """Training sets drawn from the queries; they change no evaluation."""
    buckets: BucketSchemes = Field(default=["thirds"], min_length=1)
    """Bucket schemes to report; the first one is the headline."""

    own_rule: ClassVar[str]
    """The rule of `verify` that the recipe's paper has."""

    @model_validator(mode="before")
    @classmethod
    def _complete_verify(cls, given: Any) -> Any:
        """Let `verify` without a rule mean the one of the recipe's paper, `none` no protocol."""
        if not isinstance(given, Mapping):
            return given
        verify = given.get("verify")
        if isinstance(verify, Mapping) and "rule" not in verify:
            given = {**given, "verify": {"rule": cls.own_rule, **verify}}
        if given.get("false_negatives") in ("none", {"protocol": "none"}):
            given = {**given, "false_negatives": None}
        return given

    @model_validator(mode="after")
    def _has_corpora(self) -> "GeneratedBenchmark":
        check_corpora(self.source, self.corpora, self.language)
        return self

    @model_validator(mode="after")
    def _audit_has_margins(self) -> "GeneratedBenchmark":
        if self.audit is not None and not isinstance(self.verify, VerifyMargin):
            raise ValueError(
                "audit goes by strata of the margin: it needs `verify` with `rule: margin`"
            )
        return self


class FinewebPosq(GeneratedBenchmark):
    """FineWeb-PosQ (PosQ, section 3.2; Myopic): questions about the chunks of long passages."""

    recipe: Literal["fineweb_posq"]
    sample: Sample = Sample(edges=[500, 1024])
    summarise: Summarise
    generate_questions: GenerateQuestions
    own_rule = "agreement"

    @model_validator(mode="before")
    @classmethod
    def _both_ways_to_count(cls, given: Any) -> Any:
        """Count queries of two tags both ways, unless the config says how."""
        if not isinstance(given, Mapping) or "buckets" in given:
            return given
        asked = given.get("generate_questions")
        if isinstance(asked, Mapping) and asked.get("tagging") == "myopic":
            return {**given, "buckets": ["thirds", "thirds-every-tag"]}
        return given

    @model_validator(mode="after")
    def _one_position_to_mix(self) -> "FinewebPosq":
        if self.mixtures is not None and self.generate_questions.tagging == "myopic":
            raise ValueError(
                "mixtures need one position per query; `tagging: myopic` gives some two. Use "
                "`tagging: posq`"
            )
        return self


class Posir(GeneratedBenchmark):
    """PosIR: questions about a drawn third of each document, with the evidence located."""

    recipe: Literal["posir"]
    sample: Sample = Sample(unit="tokens", edges=[0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048])
    propose_questions: ProposeQuestions
    locate_span: LocateSpan
    own_rule = "necessity"
    length_buckets: bool = True
    buckets: BucketSchemes = Field(default=["relative-20", "thirds"], min_length=1)


class Controlled(GeneratedBenchmark):
    """Controlled: one query per third of each document, asked by a fitting persona."""

    recipe: Literal["controlled"]
    sample: Sample = Sample(unit="chars", edges=[256, 512, 1024, 2048, 4096, 8192])
    personas: Personas = Personas()
    choose_configuration: ChooseConfiguration
    generate_positional_query: GeneratePositionalQuery
    own_rule = "margin"


GENERATED_RECIPES: dict[str, type[GeneratedBenchmark]] = {
    "fineweb_posq": FinewebPosq,
    "posir": Posir,
    "controlled": Controlled,
}
Benchmark = Annotated[
    SquadPosq | PosirRelease | KnownItem | FinewebPosq | Posir | Controlled,
    Field(discriminator="recipe"),
]
