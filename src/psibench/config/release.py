"""Config of a benchmark that is read in the layout of PosIR's release."""

from typing import Literal

from psibench.config.base import Section


class PosirReleaseSource(Section):
    """Folders {language}/{domain}/{corpus,queries,qrels}/test.parquet, local or on the hub."""

    kind: Literal["posir_release"] = "posir_release"
    path: str
    """The release's folder, relative to the working directory; or owner/name on the hub."""
    revision: str | None = None
    """Commit of the dataset on the hub. Pin it: a branch name moves."""
