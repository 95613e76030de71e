"""Local files of a source, and the revision of a dataset on the hub."""

import os
import platform
from pathlib import Path

from psibench.config.paths import shipped, workflow_path
from psibench.config.sources import (
    BeirSource,
    DocumentSource,
    FarRelevantSource,
    FilesSource,
    HubSource,
    PosirReleaseSource,
    PythonDocsSource,
    SquadSource,
)
from psibench.sources.files import find_files
from psibench.sources.hub import hub_record_files


def local_files(source: DocumentSource) -> list[str]:
    """List the local files of a source, in order; none for a dataset on the hub.

    Raises InputError if a file or folder in the config does not exist, or a path contains braces.
    """
    files: list[str] = []
    if isinstance(source, SquadSource):
        files = source.paths
    elif isinstance(source, FilesSource):
        files = [str(path) for path, _ in find_files([shipped(path) for path in source.paths])]
    elif isinstance(source, HubSource) and Path(source.name).is_dir():
        if source.data_files is None:
            files = sorted(str(path) for path in Path(source.name).rglob("*") if path.is_file())
        else:
            files = [os.path.relpath(file.url) for file in hub_record_files(source)]
    return [workflow_path(path) for path in files]


def interpreter_of(source: object) -> dict[str, str]:
    """Return the Python version, a rule parameter, if a source is Python's documentation."""
    is_docs = isinstance(source, PythonDocsSource)
    return {"python": platform.python_version()} if is_docs else {}


def dataset_revisions(
    source: DocumentSource | PosirReleaseSource | BeirSource | FarRelevantSource,
) -> dict[str, str]:
    """Return the pinned revision of a hub dataset, as provenance records it."""
    if isinstance(source, HubSource):
        return {f"dataset:{source.name}": source.revision or "not pinned"}
    if isinstance(source, PosirReleaseSource | BeirSource) and not Path(source.path).is_dir():
        return {f"dataset:{source.path}": source.revision or "not pinned"}
    return {}
