"""Config of the places a benchmark's text comes from."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from psibench.config.base import Section


class SquadSource(Section):
    """Question answering files in SQuAD's JSON format (v1.1, v2, XQuAD)."""

    kind: Literal["squad"]
    paths: list[str] = Field(min_length=1)
    """Files in reading order, relative to the working directory."""


class HubSource(Section):
    """A dataset on the hub, or a folder laid out as one, read through ``datasets``."""

    kind: Literal["hub"]
    name: str
    """Dataset name such as rajpurkar/squad_v2, or a local folder."""
    config: str | None = None
    """The dataset's configuration (subset) name."""
    revision: str | None = None
    """Commit of the dataset. Pin it: a branch name moves."""
    splits: list[str] = Field(default=["train"], min_length=1)
    """Splits in reading order."""
    text_column: str = "text"
    """Column that holds the text (document recipes)."""
    id_column: str | None = None
    """Column that holds the document id; without it ids are counted."""
    streaming: bool = False
    """Read record by record instead of downloading whole splits first."""
    max_documents: int | None = Field(default=None, ge=1)
    """Stop after this many records."""


class FilesSource(Section):
    """A folder or a list of files: jsonl, parquet, txt, md (also .gz for jsonl)."""

    kind: Literal["files"]
    paths: list[str] = Field(min_length=1)
    """Files or folders (read recursively, sorted), relative to the working directory."""
    text_column: str = "text"
    """Field of a jsonl or parquet record that holds the text."""
    id_column: str | None = None
    """Field that holds the document id; without it the id is made from file and record number."""


class PythonDocsSource(Section):
    """The documentation shipped with the running Python interpreter: always there, no network."""

    kind: Literal["python_docs"]
    min_words: int = Field(default=60, ge=1)
    """Shortest passage, words."""
    max_words: int = Field(default=700, ge=1)
    """Longest passage, words."""
    seed: int = Field(default=42, ge=0)
    """Seed of the passage lengths."""

    @model_validator(mode="after")
    def _ordered(self) -> "PythonDocsSource":
        if self.min_words > self.max_words:
            raise ValueError(f"min_words {self.min_words} is above max_words {self.max_words}")
        return self


QuestionSource = Annotated[SquadSource | HubSource, Field(discriminator="kind")]
DocumentSource = Annotated[
    SquadSource | HubSource | FilesSource | PythonDocsSource, Field(discriminator="kind")
]
