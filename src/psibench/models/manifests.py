"""Manifests of downloaded checkpoints: a file per repository and revision, in the store.

Jobs find a checkpoint by its manifest, so that a machine without network needs only the files.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from psibench.errors import InputError
from psibench.tables.atomic import write_text

FOLDER_VARIABLE = "PSIBENCH_CHECKPOINTS"
"""Environment variable with the folder of the manifests; if unset, no manifests are read."""
MAIN = "main"
COMMIT = re.compile(r"[0-9a-f]{7,40}")

CheckpointPart = Literal["model", "tokenizer"]
"""What is downloaded: all files of a checkpoint that psibench reads, or only its tokenizer."""


@dataclass(frozen=True)
class Manifest:
    """A downloaded snapshot of a hub repository.

    Attributes
    ----------
    revision
        As requested; None is the default branch.
    commit
        Commit of the revision at the time of the download; ``folder`` is its snapshot.
    files
        Path in the folder -> bytes.
    """

    repo: str
    revision: str | None
    commit: str
    folder: str
    files: Mapping[str, int]
    part: CheckpointPart = "model"

    def write(self, path: str | Path) -> None:
        """Write the manifest as JSON, atomically."""
        write_text(json.dumps(asdict(self), indent=2) + "\n", path)


def manifest_name(repo: str, revision: str | None, part: CheckpointPart = "model") -> str:
    """Return the file name of a manifest: OWNER--NAME@REVISION.json."""
    name = f"{repo}@{revision or MAIN}".replace("/", "--")
    return f"{name}.json" if part == "model" else f"{name}.{part}.json"


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest that ``Manifest.write`` wrote; version 0.1.0 wrote one more key."""
    plain = json.loads(Path(path).read_text(encoding="utf-8"))
    plain.pop("code", None)
    return Manifest(**plain)


def find_manifest(
    repo: str, revision: str | None, part: CheckpointPart = "model"
) -> Manifest | None:
    """Return the manifest of a repository's download; None if it was not downloaded.

    The manifest of a whole checkpoint serves for its tokenizer, too.

    Raises
    ------
    InputError
        If the manifest exists but its files do not.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    names = [manifest_name(repo, revision, kind) for kind in dict.fromkeys((part, "model"))]
    for path in (Path(folder) / name for name in names):
        if path.is_file():
            manifest = read_manifest(path)
            present = file_sizes(Path(manifest.folder))
            gone = [name for name, size in manifest.files.items() if present.get(name) != size]
            if gone:
                raise InputError(
                    f"checkpoint {repo!r}: {len(gone)} of {len(manifest.files)} downloaded files "
                    f"are no longer in {manifest.folder} ({gone[0]}). Delete {path} and run the "
                    "workflow again: it downloads them on the machine where snakemake runs."
                )
            return manifest
    return None


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the size of each file in a folder, in bytes, by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def is_commit(revision: str | None) -> bool:
    """Return whether a revision is a commit, not a branch or tag."""
    return revision is not None and COMMIT.fullmatch(revision) is not None
