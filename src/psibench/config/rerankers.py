"""The registry of rerankers: one section per backend, the shipped entries and the config's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from psibench.config.base import Commit, Id, Section
from psibench.config.files import read_entries
from psibench.config.models import SentenceTransformerModel
from psibench.config.paths import RERANKERS

FLAG_PROMPT = (
    "Given a query A and a passage B, determine whether the passage contains an answer to the "
    "query by providing a prediction of either 'Yes' or 'No'."
)
MXBAI_PREFIX = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\n<|im_start|>user\nquery: "
)
MXBAI_PROMPT = (
    "You are a search relevance expert who evaluates how well documents match search queries. For "
    "each query-document pair, carefully analyze the semantic relationship between them, then "
    "provide your binary relevance judgment (0 for not relevant, 1 for relevant).\nRelevance:"
    "<|im_end|>\n<|im_start|>assistant\n"
)
QWEN3_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


BM25_VOCABULARY = "embedded:all-MiniLM-L6-v2"
"""Checkpoint whose vocab.txt lists words from frequent to rare."""


class RerankerBase(Section):
    """Keys of every reranker entry."""

    backend: str
    description: str = ""
    """One line for the report, with the licence of the weights."""
    tokens_per_batch: int | None = Field(default=None, ge=64)
    """Tokens in one forward pass; null: encoding.tokens_per_batch."""


class CheckpointReranker(RerankerBase):
    """Keys of every reranker with a checkpoint."""

    checkpoint: str
    """A local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null is not pinned: the default branch moves."""
    max_tokens: int = Field(ge=32)
    """Longest input; the rest of a text is not read. Set it above query plus longest text: a filter
    that cuts texts misses late evidence."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, bfloat16 or float16 on a GPU. Scores of another format are not
    reused."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Parameters of the layers that run, in millions; `psibench plan` needs them."""
    embedding_parameters_m: float | None = Field(default=None, ge=0)
    """Parameters in the input embeddings, in millions; null: none."""


class CrossEncoderReranker(CheckpointReranker):
    """A sequence classifier with one output over query and text, by sentence-transformers."""

    backend: Literal["cross-encoder"]
    architecture: Literal["auto", "flash-xlm-roberta", "gte", "jina-bert"] = "auto"
    """auto: the checkpoint's architecture. The others load checkpoints that come with code for
    transformers 4, without running that code."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Only with a pinned revision."""

    @model_validator(mode="after")
    def _remote_code_is_pinned(self) -> "CrossEncoderReranker":
        if self.trust_remote_code and not (self.revision or Path(self.checkpoint).is_dir()):
            raise ValueError("trust_remote_code needs a pinned revision, or a local folder")
        if self.trust_remote_code and self.architecture != "auto":
            raise ValueError(f"architecture: {self.architecture} runs no remote code")
        return self


class FlagEmbeddingReranker(CheckpointReranker):
    """Keys of the rerankers of FlagEmbedding's classes."""

    dtype: Literal["auto", "float32", "float16"] = "auto"
    """auto: float16, as in the papers; on a CPU always float32. Scores of another format are not
    reused."""


class FlagReranker(FlagEmbeddingReranker):
    """FlagEmbedding's FlagReranker: a cross-encoder that cuts the text, not the query."""

    backend: Literal["flag"]


class PromptedReranker(FlagEmbeddingReranker):
    """Keys of FlagEmbedding's rerankers that are language models."""

    prompt: str = FLAG_PROMPT
    """Text after query and text; the default is FlagEmbedding's. Not counted in max_tokens."""
    query_prefix: str = "A: "
    text_prefix: str = "B: "


class FlagLlmReranker(PromptedReranker):
    """FlagEmbedding's FlagLLMReranker: the logit of "Yes" at the last position."""

    backend: Literal["flag-llm"]


class FlagLayerwiseReranker(PromptedReranker):
    """FlagEmbedding's LayerWiseFlagLLMReranker: the output of a middle layer of MiniCPM."""

    backend: Literal["flag-layerwise"]
    cutoff_layer: int = Field(ge=1)
    """Number of layers that run; the checkpoint needs a head for the last one."""


class MxbaiReranker(PromptedReranker):
    """mxbai-rerank-v2: logit of "1" minus logit of "0", with the prompt of its makers' package."""

    backend: Literal["mxbai"]
    prompt: str = MXBAI_PROMPT
    query_prefix: str = MXBAI_PREFIX
    text_prefix: str = "document: "


class Qwen3Reranker(CheckpointReranker):
    """Qwen3-Reranker: probability of "yes" against "no" at the last position."""

    backend: Literal["qwen3"]
    instruction: str = QWEN3_INSTRUCTION
    """Instruction that defines relevance; the default is the model card's."""


class Calibration(Section):
    """Logistic map of a raw score into [0, 1] (Platt 1999): 1 / (1 + exp(-slope (raw - mid)))."""

    midpoint: float
    """Raw score that maps to 0.5."""
    slope: float = Field(gt=0)


class Bm25Reranker(RerankerBase):
    """BM25 with fixed word statistics: a pair's score does not depend on other texts."""

    backend: Literal["bm25"]
    calibration: Calibration


class BiEncoderReranker(RerankerBase):
    """Similarity of the vectors of query and text: cosine, or MaxSim per query token."""

    backend: Literal["bi-encoder"]
    encoder: SentenceTransformerModel
    """An encoder entry as in the model registry; `scoring: maxsim` makes late interaction."""
    calibration: Calibration

    @model_validator(mode="after")
    def _no_chunks(self) -> "BiEncoderReranker":
        if self.encoder.chunks is not None:
            raise ValueError("encoder.chunks: a reranker scores whole texts; remove chunks")
        return self


RerankerModel = Annotated[
    CrossEncoderReranker
    | FlagReranker
    | FlagLlmReranker
    | FlagLayerwiseReranker
    | MxbaiReranker
    | Qwen3Reranker
    | Bm25Reranker
    | BiEncoderReranker,
    Field(discriminator="backend"),
]


def load_rerankers(entries: Mapping[str, RerankerModel] | None = None) -> dict[str, RerankerModel]:
    """Read the shipped rerankers by id; ``entries`` of a config override them.

    Raises
    ------
    InputError
        If the file cannot be read or an entry is not valid.
    """
    return read_entries(RERANKERS, TypeAdapter(dict[Id, RerankerModel])) | dict(entries or {})


def parse_reranker(entry: Mapping[str, Any]) -> RerankerModel:
    """Make a registry entry from plain data, as a job receives it."""
    parsed: RerankerModel = TypeAdapter(RerankerModel).validate_python(entry)
    return parsed


def reranker_params(entry: RerankerModel) -> dict[str, Any]:
    """Return the fields of a registry entry that decide its scores: its rule's parameters."""
    without_effect = {"description", "tokens_per_batch", "parameters_m", "embedding_parameters_m"}
    return entry.model_dump(mode="json", exclude=without_effect)


def checkpoint_of(entry: RerankerModel) -> tuple[str, str | None]:
    """Return a reranker's checkpoint, or BM25's vocabulary, and its revision."""
    if isinstance(entry, CheckpointReranker):
        return entry.checkpoint, entry.revision
    if isinstance(entry, BiEncoderReranker):
        return entry.encoder.checkpoint, entry.encoder.revision
    return BM25_VOCABULARY, None
