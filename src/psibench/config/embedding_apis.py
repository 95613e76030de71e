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
    """Environment variable that holds the key; null: requests have no key."""
    texts_field: str = "input"
    """Field of the request for the texts."""
    query_fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a request with queries, e.g. {input_type: query}."""
    document_fields: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a request with documents."""
    vectors_path: str = "data.*.embedding"
    """Path of the vectors in an answer: keys joined by dots; * means every item."""
    tokens_path: str = "usage.total_tokens"
    """Path of the number of paid tokens in an answer."""
    query_prompt: Prompt = ""
    """Text put before each query."""
    document_prompt: Prompt = ""
    """Text put before each document."""
    max_tokens: int = Field(ge=8)
    """Longest text that the model reads. psibench cuts longer texts itself, to know which part the
    model reads."""
    tokenizer: str
    """Checkpoint with the model's tokenizer, or its tokenizer.json: it cuts texts and counts
    tokens."""
    texts_per_request: int = Field(default=128, ge=1)
    tokens_per_request: int = Field(default=100_000, ge=1)
    """Most tokens of the texts in a request; a longer text is sent in a separate request."""
    concurrency: int = Field(default=4, ge=1)
    """Requests at the same time."""
    timeout_s: float = Field(default=120, gt=0)
    """Longest time of a request, seconds."""
    max_attempts: int = Field(default=8, ge=1)
    """Most attempts of a request after a temporary error."""
    price: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; null: unknown."""
    budget_usd: float | None = Field(default=None, ge=0)
    """Most money for this model's vectors in the store; needs price."""
    version: str = ""
    """Label of the service's current model, e.g. a date; vectors of another version are not
    reused."""

    @field_validator("url")
    @classmethod
    def _address_is_plain(cls, value: str) -> str:
        return plain_address(value)

    @field_validator("vectors_path")
    @classmethod
    def _names_every_vector(cls, value: str) -> str:
        if "*" not in value.split("."):
            raise ValueError("names one value; use * for every item, as in data.*.embedding")
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
