"""Config of encoders that run in the job: one section per backend."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_serializer, model_validator
from pydantic.functional_serializers import SerializerFunctionWrapHandler

from psibench.config.model_base import (
    Chunks,
    Dtype,
    EncoderModel,
    LateChunking,
    Scoring,
    Windows,
)

Architecture = Literal[
    "auto", "gte", "bidirectional", "nv-embed", "jina-bert", "jina-v3", "jina-v4", "nomic-long"
]


class SentenceTransformerModel(EncoderModel):
    """A transformer encoder loaded by sentence-transformers, any checkpoint it can load."""

    backend: Literal["sentence-transformers"]
    kind: Literal["dense", "late-interaction", "control"] = "dense"
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    architecture: Architecture = "auto"
    """auto: the checkpoint's architecture. The others load checkpoints that come with code for
    transformers 4, without running that code: `gte` (model type `new`), `bidirectional` (a decoder
    without its causal mask: gte-Qwen2, inf-retriever, llama-embed-nemotron), `nv-embed` (that and
    latent attention), `jina-bert` (jina-embeddings-v2-base-en), `jina-v3` (XLM-RoBERTa with an
    adapter for queries and one for documents, by the prompt that a text begins with), `jina-v4`
    (the text side of Qwen2.5-VL with the retrieval adapter). nomic-long: nomic-embed-text-v1.5 up
    to 8,192 tokens, its rotary angles stretched with each text's length."""
    pooling: Literal["checkpoint", "mean", "cls", "max", "lasttoken"] = "checkpoint"
    """checkpoint: the checkpoint's pooling (mean if it declares none). For NV-Embed this leaves out
    the prompt's tokens; `mean` does not."""
    projection: str | None = None
    """Folder of the dense layer after the pooling, in the checkpoint; null: the declared one."""
    dimensions: int | None = Field(default=None, ge=1)
    """Number of dimensions to keep (Matryoshka models), after all other steps; the cosine compares
    the shortened vectors. Null: the checkpoint's truncate_dim, or all."""
    append: str = ""
    """Special tokens put after each text, inside max_tokens, if the tokenizer adds none."""
    scoring: Literal["cosine", "maxsim"] = "cosine"
    """maxsim: sum over query tokens of the best document token (ColBERT), for a checkpoint without
    a dense layer for texts. Late-interaction checkpoints need `backend: colbert`."""
    windows: Windows | None = None
    """Cut documents into windows instead of truncating them."""
    late_chunking: LateChunking | None = None
    """Read a document up to max_tokens as a whole, then pool each chunk of tokens by the mean. Only
    for checkpoints with mean pooling."""
    chunks: Chunks | None = None
    """Cut documents into chunks, which are ranked; a document has the score of its best chunk."""
    positions: Literal["none"] | None = None
    """none: no rotary embedding (AntNLP/TinyLlama-NoPE-1.1B, whose config.json does not declare
    it). Null: the positions that config.json declares."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out newer keys that are null, so that older results stay valid."""
        later = {"late_chunking", "chunks", "positions", "dimensions"}
        return {k: v for k, v in dump(self).items() if v is not None or k not in later}

    @model_validator(mode="after")
    def _consistent(self) -> "SentenceTransformerModel":
        for key in ("windows", "late_chunking", "dimensions"):
            if getattr(self, key) and self.scoring == "maxsim":
                raise ValueError(f"{key} and scoring: maxsim exclude each other")
        if self.windows and self.late_chunking:
            raise ValueError("windows and late_chunking exclude each other")
        for key in ("windows", "late_chunking"):
            pieces: Windows | LateChunking | None = getattr(self, key)
            if pieces and pieces.tokens > self.max_tokens:
                raise ValueError(f"{key}.tokens {pieces.tokens} > max_tokens {self.max_tokens}")
        if self.positions and self.architecture != "auto":
            raise ValueError(
                f"positions: none is for architecture: auto, and it is {self.architecture!r}"
            )
        return self

    @model_validator(mode="after")
    def _chunks_fit(self) -> "SentenceTransformerModel":
        if self.chunks and (self.windows or self.late_chunking):
            raise ValueError("chunks excludes windows and late_chunking")
        late = "chunks.context: late" if self.chunks and self.chunks.context == "late" else ""
        late = late or ("late_chunking" if self.late_chunking else "")
        if late and self.pooling not in ("checkpoint", "mean"):
            raise ValueError(
                f"{late} takes the mean over a chunk's tokens, pooling is {self.pooling!r}; "
                "allowed with it: checkpoint, mean"
            )
        if late and self.scoring == "maxsim":
            raise ValueError(f"{late} and scoring: maxsim exclude each other")
        if late and self.architecture == "nv-embed":
            raise ValueError(f"{late} and architecture: nv-embed exclude each other")
        return self

    @property
    def scores_by(self) -> Scoring:
        """How a query's vectors are compared with a document's."""
        return self.scoring


class FlagEmbeddingModel(EncoderModel):
    """bge-m3 or a model trained from it, run by FlagEmbedding's BGEM3FlagModel."""

    backend: Literal["flag-embedding"]
    vectors: Literal["multi-vector", "dense", "sparse"] = "multi-vector"
    """multi-vector: a vector for each token except the first, scored by MaxSim divided by the
    number of query tokens; dense: one vector, scored by the cosine; sparse: a weight for each
    token of the vocabulary, scored by the sum over shared tokens."""
    kind: Literal["late-interaction", "dense", "sparse"] = "late-interaction"
    """late-interaction for multi-vector, else the same as `vectors`."""
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""

    @model_validator(mode="before")
    @classmethod
    def _kind_of_vectors(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        vectors = data.get("vectors", "multi-vector")
        kind = "late-interaction" if vectors == "multi-vector" else vectors
        if data.get("kind", kind) != kind:
            raise ValueError(f"vectors: {vectors} are of kind {kind}, not {data['kind']}")
        return data | {"kind": kind}

    @property
    def scores_by(self) -> Scoring:
        """How a query's vectors are compared with a document's."""
        by_vectors: dict[str, Scoring] = {
            "multi-vector": "mean-maxsim",
            "dense": "cosine",
            "sparse": "sparse",
        }
        return by_vectors[self.vectors]


class ColbertModel(EncoderModel):
    """A ColBERT checkpoint: a transformer and a projection of every token, scored by MaxSim.

    In the layout of sentence-transformers, Stanford or PyLate. The checkpoint declares markers,
    mask tokens and words without vectors; prompts come after its markers and prompts.
    """

    compared: ClassVar = "maxsim"
    backend: Literal["colbert"]
    kind: Literal["late-interaction"] = "late-interaction"
    max_tokens: int = Field(ge=8)
    """Longest document, special tokens and the marker included; longer documents are cut."""
    query_tokens: int | None = Field(default=None, ge=8)
    """Length of a query; longer queries are cut, shorter ones padded with mask tokens if the
    checkpoint does that."""
    architecture: Literal["auto", "flash-xlm-roberta"] = "auto"
    """auto: the checkpoint's architecture; flash-xlm-roberta loads jina-colbert-v2 without its
    code."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""


class SparseModel(EncoderModel):
    """A learned sparse retriever that sentence-transformers' SparseEncoder can load."""

    compared: ClassVar = "sparse"
    backend: Literal["sparse-encoder"]
    kind: Literal["sparse", "control"] = "sparse"
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    max_terms: int | None = Field(default=None, ge=1)
    """Number of terms to keep, those with the largest weights; null: the checkpoint's
    max_active_dims, or all."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""


class StaticModel(EncoderModel):
    """Mean of static token embeddings, whatever the order of the tokens; no transformer runs.

    Checkpoints of sentence-transformers' StaticEmbedding and of model2vec are used with the modules
    after their embeddings. From a transformer's checkpoint, the input word embeddings are averaged
    over the whole text.
    """

    is_network: ClassVar[bool] = False
    backend: Literal["static-embeddings"]
    kind: Literal["dense", "control"] = "dense"
    """control where `control` is set, else dense."""
    library: Literal["sentence-transformers", "model2vec"] = "sentence-transformers"
    """Library whose way of reading texts is followed; for checkpoints of static embeddings.
    sentence-transformers averages all tokens, up to the limit in tokenizer.json if it has one.
    model2vec leaves out unknown tokens and cuts texts at `max_length` of config.json, 512 tokens by
    default: first to that many times the median characters of a token, then to that many tokens."""
    whole_texts: bool = False
    """Read texts to their end, although the checkpoint would cut them. A position-blind control
    needs that."""
    dimensions: int | None = Field(default=None, ge=1)
    """Number of dimensions to keep (Matryoshka models), for checkpoints of static embeddings. Null:
    the checkpoint's truncate_dim, or all."""
    chunks: Chunks | None = None
    """Cut documents into chunks, which are ranked; a document has the score of its best chunk.
    Without `context: late`."""

    @model_validator(mode="after")
    def _no_late_chunks(self) -> "StaticModel":
        if self.chunks and self.chunks.context == "late":
            raise ValueError("chunks.context: late needs a transformer; allowed: none, title")
        return self

    @model_validator(mode="before")
    @classmethod
    def _kind_of_control(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("control") and "kind" not in data:
            return data | {"kind": "control"}
        return data

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out defaults of newer keys, so that older results stay valid."""
        usual: dict[str, Any] = {"library": "sentence-transformers", "whole_texts": False}
        usual |= {"dimensions": None, "chunks": None}
        return {k: v for k, v in dump(self).items() if k not in usual or v != usual[k]}
