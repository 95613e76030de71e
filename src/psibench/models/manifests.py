"""What was downloaded of a hub checkpoint: a file per repository and revision, in the store.

Jobs find a checkpoint by it, so that a machine without network needs nothing but the files. They
may be copied to a node's own disk: read over the network once per node, not per job.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from psibench.errors import InputError
from psibench.tables.atomic import write_text

logger = logging.getLogger("psibench")

FOLDER_VARIABLE = "PSIBENCH_CHECKPOINTS"
"""Environment variable with the folder of the manifests; unset: there are none."""
CACHE_VARIABLE = "PSIBENCH_NODE_CACHE"
"""Environment variable with the folder of the copies; unset: checkpoints stay where they lie."""
SPARE_BYTES = 1 << 30
"""Left free on the node's disk: other jobs write there, too."""
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
    code
        Further repositories whose code the checkpoint runs -> commit.
    """

    repo: str
    revision: str | None
    commit: str
    folder: str
    files: Mapping[str, int]
    part: Part = "model"
    code: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all."""
        write_text(json.dumps(asdict(self), indent=2) + "\n", path)


def manifest_name(repo: str, revision: str | None, part: Part = "model") -> str:
    """Return the file name of a manifest: OWNER--NAME@REVISION.json."""
    name = f"{repo}@{revision or MAIN}".replace("/", "--")
    return f"{name}.json" if part == "model" else f"{name}.{part}.json"


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest.

    Raises
    ------
    InputError
        If it cannot be read or is none.
    """
    try:
        plain: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return Manifest(**plain)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: not a manifest of a downloaded checkpoint ({error}). Delete the file; the "
            "next run downloads it again."
        ) from error


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
            if gone := missing_files(manifest.folder, manifest.files):
                raise InputError(
                    f"checkpoint {repo!r}: {len(gone)} of {len(manifest.files)} downloaded files "
                    f"are no longer in {manifest.folder} ({gone[0]}). Delete {path} and run the "
                    "workflow again: it downloads them on the machine where snakemake runs."
                )
            return manifest
    return None


def is_commit(revision: str | None) -> bool:
    """Say whether a revision is a commit rather than a branch or a tag."""
    return revision is not None and COMMIT.fullmatch(revision) is not None


def missing_files(folder: str | Path, sizes: Mapping[str, int]) -> list[str]:
    """List the files, path in the folder -> bytes, that are not there or have another size."""

    def is_there(name: str, size: int) -> bool:
        try:
            return (Path(folder) / name).stat().st_size == size
        except OSError:
            return False

    return [name for name, size in sizes.items() if not is_there(name, size)]


# --- The copy on a node's disk ---


def cached_on_node(folder: str | Path, files: Mapping[str, int]) -> Path:
    """Return this node's copy of a checkpoint's folder, made if it is not there yet.

    Jobs that start together on a node wait for the first of them to copy. Links are followed: the
    copy has plain files. Where there is no room, or the node's disk cannot be written, that is
    logged and the folder itself is returned.

    Parameters
    ----------
    files
        Path in the folder -> bytes: what is copied.
    """
    source = Path(folder)
    root = _root()
    if root is None:
        return source
    try:
        root.mkdir(parents=True, exist_ok=True)
        target = root / _copy_name(source, files)
        with open(target.with_name(f"{target.name}.lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # freed when the process ends, however it ends
            if target.is_dir() and target.stat().st_uid != os.getuid():
                raise PermissionError(f"{target} belongs to somebody else")
            if target.is_dir() and not missing_files(target, files):  # a cleaner may have been here
                return target
            needed, free = sum(files.values()), shutil.disk_usage(root).free
            if needed + SPARE_BYTES > free:
                logger.warning(
                    "node cache %s: no room for %s (%d MB, %d MB free); it is read from where it "
                    "lies",
                    *(root, source, needed >> 20, free >> 20),
                )
                return source
            _copy(source, target, files)
            logger.info("node cache: copied %s to %s, %d MB", source, target, needed >> 20)
            return target
    except OSError as error:
        logger.warning("node cache %s: %s; %s is read from where it lies", root, error, source)
        return source


def _root() -> Path | None:
    given = os.environ.get(CACHE_VARIABLE, "")
    if not given:
        return None
    expanded = os.path.expanduser(os.path.expandvars(given))
    if "$" in expanded or not os.path.isabs(expanded):
        logger.warning(
            "node cache %r is %r on this node, not an absolute path; checkpoints are read from "
            "where they lie. Is the variable set on compute nodes?",
            *(given, expanded),
        )
        return None
    return Path(expanded)


def _copy_name(source: Path, sizes: Mapping[str, int]) -> str:
    """Name a copy by its source, and by the files as they are there now."""
    real = source.resolve()
    stamps = [(name, size, (real / name).stat().st_mtime_ns) for name, size in sizes.items()]
    digest = hashlib.sha256(json.dumps([str(real), sorted(stamps)]).encode()).hexdigest()
    readable = real.parent.parent.name if real.parent.name == "snapshots" else real.name
    return f"{readable.removeprefix('models--')}-{digest[:16]}"


def _copy(source: Path, target: Path, sizes: Mapping[str, int]) -> None:
    """Copy under another name and rename; what a killed copy left is removed first."""
    for left in target.parent.glob(f".{target.name}.*.tmp"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        for name, size in sizes.items():
            place = temporary / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, place)
            if place.stat().st_size != size:
                raise OSError(f"{source / name} has another size than it had when downloaded")
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
