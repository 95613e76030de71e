"""What was downloaded of a hub checkpoint: a file per repository and revision, in the store.

Jobs find a checkpoint by it, so that a machine without network needs nothing but the files.
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
"""Environment variable with the folder of the manifests; unset: there are none."""
MAIN = "main"
COMMIT = re.compile(r"[0-9a-f]{7,40}")

Part = Literal["model", "tokenizer"]
"""What is downloaded: everything that is read of a checkpoint, or its tokenizer alone."""


@dataclass(frozen=True)
class Manifest:
    """One repository as it lies in the hub's cache.

    Attributes
    ----------
    revision
        As asked for; None is the default branch.
    commit
        What it was at the time of the download; ``folder`` is its snapshot.
    files
        Path in the folder -> bytes.
    """

    repo: str
    revision: str | None
    commit: str
    folder: str
    files: Mapping[str, int]
    part: Part = "model"

    def write(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        write_text(json.dumps(asdict(self), indent=2) + "\n", path)


def manifest_name(repo: str, revision: str | None, part: Part = "model") -> str:
    """Return the file name of a manifest: OWNER--NAME@REVISION.json."""
    name = f"{repo}@{revision or MAIN}".replace("/", "--")
    return f"{name}.json" if part == "model" else f"{name}.{part}.json"


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest, as ``Manifest.write`` wrote it; of 0.1.0 it has one key more."""
    plain = json.loads(Path(path).read_text(encoding="utf-8"))
    plain.pop("code", None)
    return Manifest(**plain)


def find_manifest(repo: str, revision: str | None, part: Part = "model") -> Manifest | None:
    """Return what was downloaded of a repository; None without a manifest.

    A tokenizer is found in a whole checkpoint, too.

    Raises
    ------
    InputError
        If the manifest is there and its files are not.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    names = [manifest_name(repo, revision, kind) for kind in dict.fromkeys((part, "model"))]
    for path in (Path(folder) / name for name in names):
        if path.is_file():
            manifest = read_manifest(path)
            there = file_sizes(Path(manifest.folder))
            gone = [name for name, size in manifest.files.items() if there.get(name) != size]
            if gone:
                raise InputError(
                    f"checkpoint {repo!r}: {len(gone)} of {len(manifest.files)} downloaded files "
                    f"are no longer in {manifest.folder} ({gone[0]}). Delete {path} and run the "
                    "workflow again: it downloads them on the machine where snakemake runs."
                )
            return manifest
    return None


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file in a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def is_commit(revision: str | None) -> bool:
    """Say whether a revision is a commit rather than a branch or a tag."""
    return revision is not None and COMMIT.fullmatch(revision) is not None
