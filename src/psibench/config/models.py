"""Config of the model registry: one section per backend."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from psibench.config.base import Section


class ModelBase(Section):
    """What every model entry has."""

    description: str = ""
    """One line for the report."""
    control: Literal["position-blind", "truncating"] | None = None
    """Set on the controls that calibrate a benchmark."""


class Bm25Model(ModelBase):
    """BM25 through bm25s."""

    backend: Literal["bm25s"]
    kind: Literal["sparse"] = "sparse"
    method: Literal["lucene", "robertson", "atire", "bm25l", "bm25+"] = "lucene"
    """Variant; lucene is bm25s's default."""
    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)
    delta: float = Field(default=0.5, ge=0)
    """Used by bm25l and bm25+ only."""
    stemmer: str | None = "english"
    """A PyStemmer language, or null."""
    stopwords: Literal["english"] | None = "english"
    """Stop words taken out of documents and queries, or null."""


class Windows(Section):
    """Overlapping token windows; the best one counts (MaxP, Dai and Callan 2019)."""

    tokens: int = Field(ge=16)
    """Tokens per window, special tokens included."""
    overlap: int = Field(ge=0)
    """Tokens that neighbouring windows share."""

    @model_validator(mode="after")
    def _moves_on(self) -> "Windows":
        if self.overlap >= self.tokens - 8:
            raise ValueError(f"overlap {self.overlap} leaves no step in {self.tokens} tokens")
        return self


class EncoderModel(ModelBase):
    """What every model made of vectors has."""

    checkpoint: str
    """embedded:all-MiniLM-L6-v2, a local folder, or a name on the hub."""
    revision: str | None = None
    """Commit of the hub repository. Pin it: a branch name moves."""
    query_prompt: str = ""
    """Text put before each query."""
    document_prompt: str = ""
    """Text put before each document."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Only with a pinned revision."""

    @model_validator(mode="after")
    def _remote_code_is_pinned(self) -> "EncoderModel":
        if self.trust_remote_code and not self.revision:
            raise ValueError("trust_remote_code needs a pinned revision")
        return self


class SentenceTransformerModel(EncoderModel):
    """A transformer encoder loaded by sentence-transformers, any checkpoint it can load."""

    backend: Literal["sentence-transformers"]
    kind: Literal["dense", "late-interaction", "control"] = "dense"
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    pooling: Literal["checkpoint", "mean", "cls", "max", "lasttoken"] = "checkpoint"
    """checkpoint: as the checkpoint declares (mean where it declares nothing)."""
    scoring: Literal["cosine", "maxsim"] = "cosine"
    """maxsim: sum over query tokens of the best document token (ColBERT)."""
    windows: Windows | None = None
    """Cut documents into windows instead of truncating them."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None
    """Overrides encoding.dtype for this model."""

    @model_validator(mode="after")
    def _consistent(self) -> "SentenceTransformerModel":
        if self.windows and self.scoring == "maxsim":
            raise ValueError("windows and scoring: maxsim exclude each other")
        if self.windows and self.windows.tokens > self.max_tokens:
            raise ValueError(f"windows.tokens {self.windows.tokens} > max_tokens {self.max_tokens}")
        return self


class StaticModel(EncoderModel):
    """Mean of a checkpoint's input word embeddings over the whole text; no transformer."""

    backend: Literal["static-embeddings"]
    kind: Literal["dense", "control"] = "control"


Model = Annotated[
    Bm25Model | SentenceTransformerModel | StaticModel, Field(discriminator="backend")
]
