"""Config of embedding models behind an HTTP API."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from psibench.config.model_base import ModelBase, Prompt, Scoring
from psibench.config.secrets import plain_address


class EmbeddingApiModel(ModelBase):
    """An embedding model behind an API in OpenAI's style; where services differ is data."""

    backend: Literal["embedding-api"]
    kind: Literal["dense"] = "dense"
    url: str
    """Address that texts are posted to, as https://api.openai.com/v1/embeddings."""
    model: str
    """The service's name of the model."""
    key_env: str | None = None
    """Environment variable that holds the key; null: none is sent."""
    texts_field: str = "input"
    """Field of the request that has the texts."""
    query_fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a request of queries, as {input_type: query}."""
    document_fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a request of documents."""
    vectors_path: str = "data.*.embedding"
    """Where an answer has the vectors: keys with dots between; * stands for every item."""
    tokens_path: str = "usage.total_tokens"
    """Where an answer has the tokens that are paid for."""
    query_prompt: Prompt = ""
    """Text put before each query."""
    document_prompt: Prompt = ""
    """Text put before each document."""
    max_tokens: int = Field(ge=8)
    """Longest text that the model reads; longer ones are cut here, so that what is visible is
    known."""
    tokenizer: str
    """Checkpoint with the model's tokenizer, or its tokenizer.json: it cuts texts and counts
    tokens."""
    texts_per_request: int = Field(default=128, ge=1)
    tokens_per_request: int = Field(default=100_000, ge=1)
    """Tokens of the texts of a request; a longer text makes one of its own."""
    concurrency: int = Field(default=4, ge=1)
    """Requests in flight."""
    timeout_s: float = Field(default=120, gt=0)
    """Seconds that an answer may take."""
    max_attempts: int = Field(default=8, ge=1)
    """Tries of a request that fails in a way that may pass."""
    price: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; null: unknown."""
    budget_usd: float | None = Field(default=None, ge=0)
    """Most that may be spent on this model's vectors in the store; needs price."""
    version: str = ""
    """Anything that tells a service's model of today from another day's, e.g. a date: vectors are
    stored under it."""

    @field_validator("url")
    @classmethod
    def _address_is_plain(cls, value: str) -> str:
        return plain_address(value)

    @field_validator("vectors_path")
    @classmethod
    def _names_every_vector(cls, value: str) -> str:
        if "*" not in value.split("."):
            raise ValueError("names one value; * stands for every item, as in data.*.embedding")
        return value

    @model_validator(mode="after")
    def _budget_has_a_price(self) -> "EmbeddingApiModel":
        if self.budget_usd is not None and self.price is None:
            raise ValueError("budget_usd needs price")
        return self

    @property
    def scores_by(self) -> Scoring:
        """How a query's vectors are compared with a document's."""
        return "cosine"
