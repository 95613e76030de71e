"""Config that every entry of the model registry has."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    StringConstraints,
    field_serializer,
    model_serializer,
    model_validator,
)
from pydantic.functional_serializers import SerializerFunctionWrapHandler

from psibench.config.base import Commit, Section

Scoring = Literal["cosine", "maxsim", "mean-maxsim", "sparse"]
"""cosine: of unit vectors, the best window's; maxsim: the sum over query tokens of the best
document token; mean-maxsim: their mean; sparse: the sum over shared terms."""
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
MOST_PROMPT_CHARS = 10_000
Prompt = Annotated[str, StringConstraints(max_length=MOST_PROMPT_CHARS)]
"""Text put before each text of a role; it counts as tokens of every text."""


class ModelBase(Section):
    """Keys of every model entry."""

    description: str = ""
    """One line for the report."""
    licence: str = ""
    """Licence of the weights or the service, from the model card."""
    control: Literal["position-blind", "truncating"] | None = None
    """Marks a control, which calibrates a benchmark."""

    @model_validator(mode="before")
    @classmethod
    def _takes_chunks(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("chunks") and "chunks" not in cls.model_fields:
            raise ValueError(
                "chunks is for the backends sentence-transformers and static-embeddings; remove it "
                "(runs of chunks from elsewhere: psibench score)"
            )
        return data


class Overlapping(Section):
    """Overlapping pieces of a text, all of the same number of tokens."""

    tokens: int = Field(ge=16)
    """Tokens per piece; windows include special tokens."""
    overlap: int = Field(ge=0)
    """Tokens that neighbouring pieces share."""

    @model_validator(mode="after")
    def _moves_on(self) -> "Overlapping":
        if self.overlap >= self.tokens - 8:
            raise ValueError(f"overlap {self.overlap} leaves no step in {self.tokens} tokens")
        return self


class Windows(Overlapping):
    """Overlapping token windows that cover the whole document; the model reads each separately."""

    pool: Literal["max", "mean"] = "max"
    """max: each window has a vector, and the best one counts (MaxP, Dai and Callan 2019); mean: a
    document has one vector, the normalised mean of its windows' unit vectors."""
    keep: Literal["all", "head-and-tail"] = "all"
    """head-and-tail: the model reads only the first and the last window."""

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out defaults of newer keys, so that older vectors keep their address."""
        usual = {"pool": "max", "keep": "all"}
        return {key: value for key, value in dump(self).items() if usual.get(key) != value}


class LateChunking(Overlapping):
    """Chunks of a text that the model reads as a whole; the best counts (Guenther et al. 2024)."""


Splitter = Literal["recursive", "sentence", "tokens", "characters", "markdown", "command"]
ChunkContext = Literal["none", "title", "late"]


class Chunks(Section):
    """Chunks into which documents are cut; the run has a row per chunk, with its characters."""

    splitter: Splitter
    """recursive: between paragraphs if that suffices, else lines, else words, as LangChain's
    RecursiveCharacterTextSplitter; markdown: the same, but first at headings, code blocks and
    rules; sentence: whole sentences; tokens, characters: windows; command: a program cuts."""
    size: int | None = Field(default=None, ge=1)
    """Most units of a chunk; every splitter but `command` needs it."""
    overlap: int = Field(default=0, ge=0)
    """Units that a chunk repeats of the one before it, at most."""
    unit: Literal["tokens", "characters"] = "tokens"
    """Unit of size and overlap; tokens are those of the model's tokenizer. The splitters tokens and
    characters have their own."""
    context: ChunkContext = "none"
    """What the model reads with a chunk. title: the document's title in front of it (the field
    `title`, else a heading in the first line); late: late chunking (Guenther et al. 2024): the
    model reads the whole document, and a chunk's vector is the mean of its token vectors. Documents
    beyond max_tokens are then read in overlapping windows of whole chunks. late needs a checkpoint
    with mean pooling."""
    command: list[str] = Field(default_factory=list)
    """Program and arguments of `splitter: command`. It reads a line {"_id": ..., "text": ...} for
    each document from its standard input, and writes a line {"_id": ..., "start": ..., "end": ...}
    for each chunk, in characters, end exclusive; with "text", psibench checks that the characters
    are this text."""

    @model_validator(mode="after")
    def _consistent(self) -> "Chunks":
        by_command = self.splitter == "command"
        if by_command != bool(self.command):
            raise ValueError("splitter: command and the key command need each other")
        if by_command and (self.size is not None or self.overlap):
            raise ValueError("size and overlap are for other splitters than command")
        if not by_command and self.size is None:
            raise ValueError(f"splitter {self.splitter} needs size")
        if self.size is not None and self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} leaves no step in size {self.size}")
        return self

    @property
    def measure(self) -> Literal["tokens", "characters"]:
        """Unit of size and overlap."""
        if self.splitter == "tokens" or self.splitter == "characters":
            return self.splitter
        return self.unit

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        usual: dict[str, Any] = {"size": None, "unit": "tokens", "command": []}
        return {k: v for k, v in dump(self).items() if k not in usual or v != usual[k]}


class EncoderModel(ModelBase):
    """Keys of every model that encodes texts as vectors."""

    is_network: ClassVar[bool] = True
    """Whether the checkpoint's network runs; else vectors are looked up, and what else has the
    checkpoint is another model."""
    compared: ClassVar[Scoring] = "cosine"
    """Default comparison of a query's vectors with a document's."""
    checkpoint: str
    """embedded:all-MiniLM-L6-v2, a local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null is not pinned: the default branch moves."""
    query_prompt: Prompt | None = None
    """Text put before each query; null: the checkpoint's prompt, if it declares one."""
    document_prompt: Prompt | None = None
    """Text put before each document; null: the checkpoint's prompt, if it declares one."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Only with a pinned revision."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Parameters in millions; `psibench plan` needs them."""
    embedding_parameters_m: float | None = Field(default=None, ge=0)
    """Parameters in the input embeddings, in millions; they take memory, not arithmetic."""
    dim: int | None = Field(default=None, ge=8)
    """Dimensions of a vector; `psibench plan` needs them for the size of the store."""
    tokens_per_batch: int | None = Field(default=None, ge=64)
    """Tokens in one forward pass; null: encoding.tokens_per_batch."""

    @field_serializer("query_prompt", "document_prompt")
    def _prompt_of_embedded(self, prompt: str | None) -> str | None:
        """Return an empty prompt for the embedded checkpoint, which declares none."""
        return "" if prompt is None and self.checkpoint.startswith("embedded:") else prompt

    @model_validator(mode="after")
    def _remote_code_is_pinned(self) -> "EncoderModel":
        if self.trust_remote_code and not (self.revision or Path(self.checkpoint).is_dir()):
            raise ValueError("trust_remote_code needs a pinned revision, or a local folder")
        return self

    def prompt(self, role: Literal["query", "document"]) -> str:
        """Return the text put before each text of a role; empty where it is the checkpoint's."""
        return (self.query_prompt if role == "query" else self.document_prompt) or ""

    @property
    def scores_by(self) -> Scoring:
        """How a query's vectors are compared with a document's."""
        return self.compared
