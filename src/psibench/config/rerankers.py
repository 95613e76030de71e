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
    """What every reranker entry has."""

    backend: str
    description: str = ""
    """One line for the report, with the licence of the weights."""
    tokens_per_batch: int | None = Field(default=None, ge=64)
    """Padded tokens in one forward pass; null: what the settings say."""


class CheckpointReranker(RerankerBase):
    """What every reranker made of a checkpoint has."""

    checkpoint: str
    """A local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null is not pinned: the default branch moves."""
    max_tokens: int = Field(ge=32)
    """Longest input; what comes after it is not seen. Keep it above query plus longest text:
    a filter that cuts texts off is blind to late evidence."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: float32 on a CPU, the GPU's own reduced format there. Part of what scores are stored
    under."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Parameters in millions of the layers that run: what jobs are planned by (`psibench plan`)."""
    embedding_parameters_m: float | None = Field(default=None, ge=0)
    """Of them input embeddings, which are looked up; null: none."""


class CrossEncoderReranker(CheckpointReranker):
    """A sequence classifier with one output over query and text, by sentence-transformers."""

    backend: Literal["cross-encoder"]
    architecture: Literal["auto", "flash-xlm-roberta", "gte", "jina-bert"] = "auto"
    """auto: as the checkpoint says. The others read checkpoints that bring code of their own
    (for transformers 4) without running it."""
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
    """What the rerankers that FlagEmbedding's classes score have."""

    dtype: Literal["auto", "float32", "float16"] = "auto"
    """auto is float16, as the papers ran them; on a CPU it is always float32. Part of what scores
    are stored under."""


class FlagReranker(FlagEmbeddingReranker):
    """FlagEmbedding's FlagReranker: a cross-encoder that cuts the text, not the query."""

    backend: Literal["flag"]


class PromptedReranker(FlagEmbeddingReranker):
    """What FlagEmbedding's rerankers made of a language model have."""

    prompt: str = FLAG_PROMPT
    """Stands after query and text; FlagEmbedding's own by default. Not counted in max_tokens."""
    query_prefix: str = "A: "
    text_prefix: str = "B: "


class FlagLlmReranker(PromptedReranker):
    """FlagEmbedding's FlagLLMReranker: the logit of "Yes" at the last position."""

    backend: Literal["flag-llm"]


class FlagLayerwiseReranker(PromptedReranker):
    """FlagEmbedding's LayerWiseFlagLLMReranker: the output of a middle layer of MiniCPM."""

    backend: Literal["flag-layerwise"]
    cutoff_layer: int = Field(ge=1)
    """Layers that run; the checkpoint has a head for this one."""


class MxbaiReranker(PromptedReranker):
    """mxbai-rerank-v2: the logit of "1" less that of "0", read as its makers' package reads it."""

    backend: Literal["mxbai"]
    prompt: str = MXBAI_PROMPT
    query_prefix: str = MXBAI_PREFIX
    text_prefix: str = "document: "


class Qwen3Reranker(CheckpointReranker):
    """Qwen3-Reranker: probability of "yes" against "no" at the last position."""

    backend: Literal["qwen3"]
    instruction: str = QWEN3_INSTRUCTION
    """What relevance means; the model card's by default."""


class Calibration(Section):
    """Logistic map of a raw score into [0, 1] (Platt 1999): 1 / (1 + exp(-slope (raw - mid)))."""

    midpoint: float
    """Raw score that maps to 0.5."""
    slope: float = Field(gt=0)


class Bm25Reranker(RerankerBase):
    """BM25 of a text for a query with fixed statistics, so that a pair's score is its own."""

    backend: Literal["bm25"]
    calibration: Calibration


class BiEncoderReranker(RerankerBase):
    """Similarity of the vectors of query and text: cosine, or MaxSim per query token."""

    backend: Literal["bi-encoder"]
    encoder: SentenceTransformerModel
    """An encoder entry as in the model registry; scoring: maxsim gives late interaction."""
    calibration: Calibration


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
    """Read the shipped registry of rerankers, id -> entry; a config's ``entries`` take their place.

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
    """Return what a reranker is made of, and its revision: a checkpoint, or BM25's vocabulary."""
    if isinstance(entry, CheckpointReranker):
        return entry.checkpoint, entry.revision
    if isinstance(entry, BiEncoderReranker):
        return entry.encoder.checkpoint, entry.encoder.revision
    return BM25_VOCABULARY, None
