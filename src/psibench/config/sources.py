"""Config of the sources of a benchmark's texts, or of a whole benchmark."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from psibench.config.base import Section


class _Source(Section):
    """Keys of sources with single records."""

    max_bad_share: float = Field(default=0.01, ge=0, lt=1)
    """Largest share of unusable records (an answer that is not at its offset, a query without text,
    a document that cannot be converted), rounded up. psibench drops them and lists them in the log
    and the table of dropped items. With more unusable records the build fails."""


class SquadSource(_Source):
    """Question answering files in SQuAD's JSON format (v1.1, v2, XQuAD)."""

    kind: Literal["squad"]
    paths: list[str] = Field(min_length=1)
    """Files in reading order, relative to the working directory."""


class HubSource(_Source):
    """A dataset on the hub, or a folder laid out as one, read through ``datasets``."""

    kind: Literal["hub"]
    name: str
    """Dataset name such as rajpurkar/squad_v2, or a local folder."""
    config: str | None = None
    """The dataset's configuration (subset) name."""
    revision: str | None = None
    """Commit of the dataset. Pin it: a branch name moves."""
    data_files: list[str] | None = Field(default=None, min_length=1)
    """Read only these files instead of splits: paths or globs inside the repository or folder, as
    for `load_dataset(data_files=...)`, e.g. [english/*/*.parquet]."""
    splits: list[str] = Field(default=["train"], min_length=1)
    """Splits in reading order."""
    text_column: str = "text"
    """Column that holds the text (document recipes)."""
    id_column: str | None = None
    """Column with the document id; null: ids are made from file and record number."""
    cluster_column: str | None = None
    """Column with the cluster of a document (its article, site or thread); clusters are the units
    of tests and intervals. Passages cut from one document are always a cluster."""
    streaming: bool = False
    """Read over the network and store nothing; from Parquet files only the needed columns and
    records."""
    max_documents: int | None = Field(default=None, ge=1)
    """Most records to read: the first ones of each file, an equal number per file."""

    @model_validator(mode="after")
    def _files_or_splits(self) -> "HubSource":
        if self.data_files is not None and self.splits != ["train"]:
            raise ValueError(
                "data_files and splits: give one of the two; named files have no splits"
            )
        if self.data_files is not None and self.config is not None:
            raise ValueError(
                "data_files and config: give one of the two; a configuration names its files"
            )
        if sliced := [split for split in self.splits if "[" in split]:
            raise ValueError(
                f"splits: {sliced[0]!r} is a slice; give the split's name, and max_documents for "
                "the first records"
            )
        return self


class FilesSource(_Source):
    """A folder or a list of files: jsonl (also .gz), parquet, txt, md, pdf, docx, html.

    pdf, docx and html need `pip install 'psibench-ir[documents]'`, which extracts their text.
    """

    kind: Literal["files"]
    paths: list[str] = Field(min_length=1)
    """Files, folders (read recursively, sorted) or globs, relative to the working directory."""
    text_column: str = "text"
    """Field with the text in a jsonl or parquet record."""
    id_column: str | None = None
    """Field with the document id; null: ids are made from file and record number."""
    cluster_column: str | None = None
    """Field with the cluster of a document (its article, site or thread); clusters are the units of
    tests and intervals. Passages cut from one document are always a cluster."""
    max_documents: int | None = Field(default=None, ge=1)
    """Most records to read: the first ones of each file, an equal number per file. 1,000 txt or md
    files, or 50 pdf, docx or html files, count as one file."""


class PythonDocsSource(Section):
    """The documentation that comes with the running Python interpreter; needs no network."""

    kind: Literal["python_docs"]
    part: Literal["all", "language", "network", "library"] = "all"
    """Which pages. language: topics of the language; network: modules about networks, mail and the
    web; library: the other modules."""
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


class PosirReleaseSource(Section):
    """Folders {language}/{domain}/{corpus,queries,qrels}/test.parquet, local or on the hub."""

    kind: Literal["posir_release"] = "posir_release"
    path: str
    """The release's folder, relative to the working directory; or owner/name on the hub."""
    revision: str | None = None
    """Commit of the dataset on the hub. Pin it: a branch name moves."""


class BeirSource(_Source):
    """A dataset in BEIR's layout, local or on the hub as MTEB keeps it.

    A folder holds corpus.jsonl and queries.jsonl (or .jsonl.gz, .parquet) and qrels/{split}.tsv (or
    .jsonl, .parquet); a dataset on the hub the configurations corpus, queries and default.
    """

    kind: Literal["beir"] = "beir"
    path: str
    """The dataset's folder, relative to the working directory; or owner/name on the hub."""
    split: str = "test"
    """Split of the qrels; only queries in these qrels are used."""
    revision: str | None = None
    """Commit of the dataset on the hub. Pin it: a branch name moves."""


class FarRelevantSource(_Source):
    """MS MARCO FarRelevant, or a collection in its layout, in a local folder."""

    kind: Literal["far_relevant"] = "far_relevant"
    path: str
    """The unpacked collection, or its folder input_data, relative to the working directory."""
    split: str = "dev_official_sample1K"
    """Folder with QuestionFields.jsonl and qrels.txt; the default is the sample of 1,000 queries
    that the paper uses."""
    documents: str = "dev_official"
    """Folder with AnswerFields.jsonl.gz; a sample uses the documents of the whole."""


RecordSource = Annotated[FilesSource | HubSource, Field(discriminator="kind")]
QuestionSource = Annotated[SquadSource | HubSource, Field(discriminator="kind")]
DocumentSource = Annotated[
    SquadSource | HubSource | FilesSource | PythonDocsSource, Field(discriminator="kind")
]
