"""Config of the model registry: one section per backend."""

from string import Formatter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from psibench.config.base import ModelId, ModelIds, RerankerId, refuse_repeats
from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoders import (
    ColbertModel,
    FlagEmbeddingModel,
    SentenceTransformerModel,
    SparseModel,
    StaticModel,
)
from psibench.config.model_base import (
    Chunks,
    EncoderModel,
    LateChunking,
    ModelBase,
    Windows,
)

__all__ = [
    "Bm25Model",
    "Chunks",
    "ColbertModel",
    "EmbeddingApiModel",
    "EncoderModel",
    "FlagEmbeddingModel",
    "FusionModel",
    "LateChunking",
    "Model",
    "ModelBase",
    "RerankModel",
    "RunFilesModel",
    "SentenceTransformerModel",
    "SparseModel",
    "StaticModel",
    "Windows",
]

RunFormat = Literal["parquet", "csv", "tsv", "jsonl", "mteb", "trec", "msmarco"]
RUN_PLACEHOLDERS = ("benchmark", "query_lang", "corpus_lang", "domain")


class Bm25Model(ModelBase):
    """BM25 through bm25s, with the stemmer and the stop words of the documents' language.

    Texts are compared in Unicode's NFKC form without invisible characters such as soft hyphens, so
    that texts that look the same have the same terms. Scripts without spaces (Chinese, Japanese,
    Thai and others) are indexed as pairs of characters.
    """

    backend: Literal["bm25s"]
    kind: Literal["sparse"] = "sparse"
    method: Literal["lucene", "robertson", "atire"] = "lucene"
    """Variant; lucene is bm25s's default."""
    k1: float = Field(default=1.5, ge=0)
    b: float = Field(default=0.75, ge=0, le=1)


class RunFilesModel(ModelBase):
    """Runs of a system outside psibench, from files of scores.

    Documents are ranked by score; ties by id in descending order, as in trec_eval. Queries without
    results score 0. It is unknown how much of a document the system read.
    """

    backend: Literal["runs"]
    kind: Literal["sparse", "dense", "late-interaction", "reranker", "control", "run"] = "run"
    path: str
    """File of a run, relative to the working directory, with the placeholders {benchmark},
    {query_lang}, {corpus_lang} and {domain}; without {domain} a file holds all domains."""
    format: RunFormat | None = None
    """Null: from the file's suffix."""
    part: str | None = None
    """SUBSET/SPLIT of an MTEB prediction file that holds several; may have the placeholders."""
    ignore_unknown: bool = False
    """Leave out results of queries that the benchmark does not have; false: they are an error."""

    @model_validator(mode="after")
    def _known_placeholders(self) -> "RunFilesModel":
        for key in ("path", "part"):
            _check_placeholders(key, getattr(self, key) or "")
        return self


class RerankModel(ModelBase):
    """A reranker over the best documents of a first stage, which all rerankers share."""

    backend: Literal["rerank"]
    kind: Literal["reranker"] = "reranker"
    reranker: RerankerId
    """Id of the reranker registry."""
    first_stage: ModelId | None = None
    """Model whose run is reranked; null: search.first_stage."""
    depth: int = Field(default=100, ge=1)
    """Number of documents of the first stage to rerank; the others follow in their order."""


class FusionModel(ModelBase):
    """The fused run of several models; these need not be evaluated themselves."""

    backend: Literal["fusion"]
    kind: Literal["fusion"] = "fusion"
    of: Annotated[ModelIds, AfterValidator(refuse_repeats)] = Field(min_length=2)
    """Models to fuse: BM25, encoders, APIs, runs from files."""
    k: int = Field(default=60, ge=0)
    """Constant of reciprocal rank fusion, the sum of 1 / (k + rank) (Cormack et al. 2009); a larger
    k gives the first ranks less weight."""


def _check_placeholders(key: str, text: str) -> None:
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{key} {text!r}: {error}; a brace itself is written twice") from None
    for _, name, spec, conversion in pieces:
        if name is not None and (name not in RUN_PLACEHOLDERS or spec or conversion):
            known = ", ".join(f"{{{known}}}" for known in RUN_PLACEHOLDERS)
            raise ValueError(f"{key} {text!r} has the placeholder {{{name}}}; allowed: {known}")


EncoderEntry = (
    SentenceTransformerModel | FlagEmbeddingModel | ColbertModel | SparseModel | StaticModel
)
"""Models whose texts a job of ours encodes."""

ChunkedEntry = SentenceTransformerModel | StaticModel
"""Models that may cut documents into `chunks`."""

Kind = Literal["sparse", "dense", "late-interaction", "reranker", "fusion", "control", "run"]
"""What the `kind` of an entry may be."""

Model = Annotated[
    Bm25Model
    | SentenceTransformerModel
    | FlagEmbeddingModel
    | ColbertModel
    | EmbeddingApiModel
    | SparseModel
    | StaticModel
    | RerankModel
    | FusionModel
    | RunFilesModel,
    Field(discriminator="backend"),
]
