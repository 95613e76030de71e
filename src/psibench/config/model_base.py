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
"""Text put before each text of a role: it is tokenized as often as there are texts."""


class ModelBase(Section):
    """What every model entry has."""

    description: str = ""
    """One line for the report."""
    licence: str = ""
    """Of the weights or the service, as its card says."""
    control: Literal["position-blind", "truncating"] | None = None
    """Set on the controls that calibrate a benchmark."""


class Overlapping(Section):
    """Pieces of a text, each of so many tokens, that share some with their neighbours."""

    tokens: int = Field(ge=16)
    """Tokens per piece; of windows, special tokens included."""
    overlap: int = Field(ge=0)
    """Tokens that neighbours share."""

    @model_validator(mode="after")
    def _moves_on(self) -> "Overlapping":
        if self.overlap >= self.tokens - 8:
            raise ValueError(f"overlap {self.overlap} leaves no step in {self.tokens} tokens")
        return self


class Windows(Overlapping):
    """Overlapping token windows, each read by itself; the whole document is."""

    pool: Literal["max", "mean"] = "max"
    """max: each has a vector, and the best one counts (MaxP, Dai and Callan 2019); mean:
    a document has one vector, the mean of its windows' unit vectors, of unit length again."""
    keep: Literal["all", "head-and-tail"] = "all"
    """head-and-tail: the first and the last window alone; what lies between them is not read."""

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out defaults that came later: vectors made before them keep their address."""
        usual = {"pool": "max", "keep": "all"}
        return {key: value for key, value in dump(self).items() if usual.get(key) != value}


class LateChunking(Overlapping):
    """Chunks of a text that is read as one; the best one counts (Guenther et al. 2024)."""


class EncoderModel(ModelBase):
    """What every model made of vectors has."""

    is_network: ClassVar[bool] = True
    """Whether the checkpoint's network runs; else vectors are looked up, and what else has the
    checkpoint is another model."""
    compared: ClassVar[Scoring] = "cosine"
    """How a query's vectors are compared with a document's, unless an entry says otherwise."""
    checkpoint: str
    """embedded:all-MiniLM-L6-v2, a local folder, or a name on the hub."""
    revision: Commit | None = None
    """Commit of the hub repository, 40 hex digits; null is not pinned: the default branch moves."""
    query_prompt: Prompt | None = None
    """Text put before each query; null: as the checkpoint declares, none where it declares none."""
    document_prompt: Prompt | None = None
    """Text put before each document; null: as the checkpoint declares."""
    trust_remote_code: bool = False
    """Run code that comes with the checkpoint. Only with a pinned revision."""
    parameters_m: float | None = Field(default=None, gt=0)
    """Parameters in millions: what jobs are planned by (`psibench plan`)."""
    embedding_parameters_m: float | None = Field(default=None, ge=0)
    """Of these, the input embeddings: they take memory, not arithmetic."""
    dim: int | None = Field(default=None, ge=8)
    """Dimensions of a vector: what plans count the store by."""
    tokens_per_batch: int | None = Field(default=None, ge=64)
    """Padded tokens in one forward pass; null: encoding.tokens_per_batch."""

    @field_serializer("query_prompt", "document_prompt")
    def _prompt_of_embedded(self, prompt: str | None) -> str | None:
        """Return no prompt for the embedded checkpoint, which declares none; else as it is."""
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
