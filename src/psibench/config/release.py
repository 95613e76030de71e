"""Config of benchmarks that are read in a published layout: PosIR's release, BEIR."""

from typing import Literal

from psibench.config.base import Section


class PosirReleaseSource(Section):
    """Folders {language}/{domain}/{corpus,queries,qrels}/test.parquet, local or on the hub."""

    kind: Literal["posir_release"] = "posir_release"
    path: str
    """The release's folder, relative to the working directory; or owner/name on the hub."""
    revision: str | None = None
    """Commit of the dataset on the hub. Pin it: a branch name moves."""


class BeirSource(Section):
    """A dataset in BEIR's layout, local or on the hub as MTEB keeps it.

    A folder holds corpus.jsonl and queries.jsonl (or .jsonl.gz, .parquet) and qrels/{split}.tsv (or
    .jsonl, .parquet); a dataset on the hub the configurations corpus, queries and default.
    """

    kind: Literal["beir"] = "beir"
    path: str
    """The dataset's folder, relative to the working directory; or owner/name on the hub."""
    split: str = "test"
    """Whose qrels count: the queries are those that they judge."""
    revision: str | None = None
    """Commit of the dataset on the hub. Pin it: a branch name moves."""
