"""Config of the model registry: one section per backend."""

from string import Formatter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from psibench.config.base import Section

StopWordLanguage = Literal[
    "chinese",
    "danish",
    "dutch",
    "english",
    "french",
    "german",
    "italian",
    "korean",
    "norwegian",
    "portuguese",
    "russian",
    "spanish",
    "swedish",
    "turkish",
]
"""Languages whose stop words bm25s has."""
RunFormat = Literal["parquet", "csv", "tsv", "jsonl", "mteb", "trec"]
RUN_PLACEHOLDERS = ("benchmark", "query_lang", "corpus_lang", "domain")


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
    stemmer: str | None = "auto"
    """A PyStemmer language. auto: that of the documents' language, none where there is none."""
    stopwords: Literal["auto"] | StopWordLanguage | None = "auto"
    """Whose stop words are taken out of documents and queries. auto: those of the documents'
    language, none where bm25s has none. Chinese, Japanese, Thai and other scripts without spaces
    are indexed as pairs of characters; there auto takes out none."""


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


class RunFilesModel(ModelBase):
    """Runs of a system outside psibench: files of scores, ranked and evaluated as they are.

    Documents are ranked by score, ties by id; queries without results score 0. How much of a
    document the system read is not known.
    """

    backend: Literal["runs"]
    kind: Literal["sparse", "dense", "late-interaction", "reranker", "control", "run"] = "run"
    path: str
    """Where a run lies, relative to the working directory: {benchmark}, {query_lang},
    {corpus_lang} and {domain} stand for what is evaluated. Without {domain} a file holds all
    domains."""
    format: RunFormat | None = None
    """Null: by the file's suffix."""
    part: str | None = None
    """SUBSET/SPLIT of an MTEB prediction file that holds several; may have the placeholders."""
    ignore_unknown: bool = False
    """Leave out results of queries that the benchmark does not have; otherwise they are refused."""

    @model_validator(mode="after")
    def _known_placeholders(self) -> "RunFilesModel":
        for key in ("path", "part"):
            _check_placeholders(key, getattr(self, key) or "")
        return self


def _check_placeholders(key: str, text: str) -> None:
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{key} {text!r}: {error}; a brace itself is written twice") from None
    for _, name, spec, conversion in pieces:
        if name is not None and (name not in RUN_PLACEHOLDERS or spec or conversion):
            known = ", ".join(f"{{{known}}}" for known in RUN_PLACEHOLDERS)
            raise ValueError(f"{key} {text!r} has the placeholder {{{name}}}; allowed: {known}")


Model = Annotated[
    Bm25Model | SentenceTransformerModel | StaticModel | RunFilesModel,
    Field(discriminator="backend"),
]
