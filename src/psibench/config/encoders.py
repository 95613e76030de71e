"""Config of encoders that run in the job: one section per backend."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_serializer, model_validator
from pydantic.functional_serializers import SerializerFunctionWrapHandler

from psibench.config.model_base import (
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
    """auto: as the checkpoint says. The others read checkpoints that bring code of their own (for
    transformers 4) without running it: `gte` (model type `new`), `bidirectional` (a decoder without
    its causal mask: gte-Qwen2, inf-retriever, llama-embed-nemotron), `nv-embed` (that and latent
    attention), `jina-bert` (jina-embeddings-v2-base-en), `jina-v3` (XLM-RoBERTa with an adapter for
    queries and one for documents, by the prompt that a text begins with), `jina-v4` (the text side
    of Qwen2.5-VL with the retrieval adapter). nomic-long: nomic-embed-text-v1.5 up to 8,192 tokens,
    its rotary angles stretched with each text's length."""
    pooling: Literal["checkpoint", "mean", "cls", "max", "lasttoken"] = "checkpoint"
    """checkpoint: as the checkpoint declares (mean where it declares nothing). Of NV-Embed that
    leaves out the prompt's tokens; `mean` does not."""
    projection: str | None = None
    """Folder in the checkpoint of the dense layer behind the pooling; null: as it declares."""
    dimensions: int | None = Field(default=None, ge=1)
    """Keep the first so many dimensions of a vector (Matryoshka models), behind everything else;
    the cosine is that of the shortened vectors. Null: as the checkpoint declares (truncate_dim),
    all where it declares nothing."""
    append: str = ""
    """Special tokens put after each text, inside max_tokens, where the tokenizer does not."""
    scoring: Literal["cosine", "maxsim"] = "cosine"
    """maxsim: sum over query tokens of the best document token (ColBERT), of a checkpoint without a
    dense layer of texts. Late-interaction checkpoints: `backend: colbert`."""
    windows: Windows | None = None
    """Cut documents into windows instead of truncating them."""
    late_chunking: LateChunking | None = None
    """Read a document up to max_tokens at once, then take the mean over each chunk of its tokens.
    Of checkpoints that pool by the mean."""
    positions: Literal["none"] | None = None
    """none: without rotary embedding, which config.json does not say of AntNLP/TinyLlama-NoPE-1.1B.
    Null: as config.json says."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out keys that came later where they are null: results made before stay valid."""
        later = {"late_chunking", "positions", "dimensions"}
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
        if self.late_chunking and self.pooling not in ("checkpoint", "mean"):
            raise ValueError(
                f"late_chunking takes the mean over a chunk's tokens, pooling is {self.pooling!r}; "
                "allowed with it: checkpoint, mean"
            )
        if self.late_chunking and self.architecture == "nv-embed":
            raise ValueError("late_chunking and architecture: nv-embed exclude each other")
        if self.positions and self.architecture != "auto":
            raise ValueError(
                f"positions: none is for architecture: auto, and it is {self.architecture!r}"
            )
        return self

    @property
    def scores_by(self) -> Scoring:
        """How a query's vectors are compared with a document's."""
        return self.scoring


class FlagEmbeddingModel(EncoderModel):
    """bge-m3, or one trained from it: FlagEmbedding's vectors of tokens.

    Every token's but the first, scored by MaxSim and divided by the number of the query's.
    """

    compared: ClassVar = "mean-maxsim"
    backend: Literal["flag-embedding"]
    kind: Literal["late-interaction"] = "late-interaction"
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included; longer texts are cut."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""


class ColbertModel(EncoderModel):
    """A ColBERT checkpoint: a transformer and a projection of every token, scored by MaxSim.

    In sentence-transformers' layout, Stanford's or PyLate's. Markers, mask tokens and words whose
    vectors are left out are as the checkpoint declares; prompts come behind its markers and its own
    prompts.
    """

    compared: ClassVar = "maxsim"
    backend: Literal["colbert"]
    kind: Literal["late-interaction"] = "late-interaction"
    max_tokens: int = Field(ge=8)
    """Longest document, special tokens and the marker included; longer ones are cut."""
    query_tokens: int | None = Field(default=None, ge=8)
    """Length of a query; longer ones are cut, shorter ones filled up with mask tokens where the
    checkpoint does so."""
    architecture: Literal["auto", "flash-xlm-roberta"] = "auto"
    """auto: as the checkpoint says; flash-xlm-roberta reads jina-colbert-v2 without its code."""
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
    """Terms kept of a text, those of the largest weights; null: as the checkpoint declares
    (max_active_dims), all where it declares nothing."""
    dtype: Dtype | None = None
    """Overrides encoding.dtype for this model."""


class StaticModel(EncoderModel):
    """Mean of a checkpoint's input word embeddings over the whole text; no transformer."""

    is_network: ClassVar[bool] = False
    backend: Literal["static-embeddings"]
    kind: Literal["dense", "control"] = "control"
