"""Config of recipes that have their queries written by a language model: samples and tasks."""

from itertools import pairwise
from typing import Literal

from pydantic import Field, model_validator

from psibench.config.base import Id, Section
from psibench.config.sources import FilesSource, HubSource
from psibench.llm.tasks import LlmTaskSection


class Sample(Section):
    """Documents drawn by length: so many per length bin, the same ones every time."""

    unit: Literal["chars", "words", "tokens"] = "words"
    """What length counts. words: pieces split on one space. tokens: of length_tokenizer."""
    edges: list[int] = Field(min_length=2)
    """Borders of the length bins; a bin has its lower border and not its upper one, the last bin
    has both."""
    shares: list[int] | None = None
    """How the documents are shared out among the bins, as 3, 3, 2; null shares evenly."""
    n_documents: int | None = Field(default=None, ge=1)
    """Documents in all; null takes every document of a fitting length."""
    seed: int = Field(default=42, ge=0)
    """Seed of the draw."""
    deduplicate: Literal["near", "exact", "none"] = "near"
    """Drop documents that repeat one drawn before. exact: the same text but for case and white
    space. near: also those that share most of their shingles of five words (of five characters in
    scripts without spaces)."""
    near_duplicate_jaccard: float = Field(default=0.8, ge=0.5, le=1)
    """From which share of the shingles of two documents they are near duplicates: those in both
    over those in either."""
    reserve: float = Field(default=0.2, ge=0, le=10)
    """Documents kept over a bin's number, as a share of it, to take the place of duplicates."""

    @model_validator(mode="after")
    def _consistent(self) -> "Sample":
        if self.edges[0] < 0 or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError(f"edges {self.edges} do not rise from 0 or above")
        n_bins = len(self.edges) - 1
        if self.shares is not None:
            if len(self.shares) != n_bins or min(self.shares) < 1:
                raise ValueError(f"shares {self.shares}: give {n_bins} whole numbers from 1 up")
            if self.n_documents is None:
                raise ValueError("shares without n_documents; give both or neither")
        return self


class Summarise(LlmTaskSection):
    """One summary per document, the context of the questions about its chunks."""

    max_words: int = Field(default=400, ge=20)
    """Longest summary asked for (PosQ, section 3.2: 400)."""


class GenerateQuestions(LlmTaskSection):
    """Questions about each chunk of a document, from the chunk and the document's summary."""

    n_questions: int = Field(default=5, ge=1, le=20)
    """Questions asked for per chunk."""
    chunk_words: int = Field(default=256, ge=16)
    """Longest chunk, words (PosQ, section 3.2: 256)."""
    tagging: Literal["posq", "myopic"] = "posq"
    """posq: every chunk has one position. myopic: a chunk that overlaps two thirds has both;
    scheme `thirds` counts its questions once, `thirds-every-tag` at both, as Myopic's Table 1."""


class ProposeQuestions(LlmTaskSection):
    """Questions about one third of a document, the third drawn per document, the whole shown."""

    n_questions: int = Field(default=3, ge=1, le=20)
    """Questions asked for per document."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Share of the documents that are asked about; the others are there to be searched."""
    seed: int = Field(default=42, ge=0)
    """Seed of the documents drawn and of the third drawn for each."""


class LocateSpan(LlmTaskSection):
    """The evidence of each question, quoted by the model and found again in the document."""


class Personas(Section):
    """Who might search: the candidates a configuration is chosen from."""

    source: FilesSource | HubSource = Field(
        default=FilesSource(kind="files", paths=["shipped:personas.jsonl"], text_column="persona"),
        discriminator="kind",
    )
    """Table of personas; `shipped:personas.jsonl` is the small one that comes with psibench, the
    paper's is proj-persona/PersonaHub on the hub."""
    model: Id = "all-minilm-l6-v2"
    """Registry id of the encoder whose cosine picks the candidates."""
    n_candidates: int = Field(default=20, ge=1, le=100)
    """Candidates per document (Controlled, section 3: 20)."""


class ChooseConfiguration(LlmTaskSection):
    """Persona, difficulty and length of query: one configuration per document."""


class GeneratePositionalQuery(LlmTaskSection):
    """One query for each third of a document, the whole document and the third shown."""

    queries_per_position: int = Field(default=1, ge=1, le=20)
    """Queries asked for per third."""
