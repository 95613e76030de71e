"""Copies of checkpoints on a node's own disk: read over the network once per node, not per job."""

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from psibench.models.manifests import missing_files

VARIABLE = "PSIBENCH_NODE_CACHE"
"""Environment variable with the folder of the copies; unset: checkpoints stay where they lie."""
SPARE_BYTES = 1 << 30
"""Left free on the node's disk: other jobs write there, too."""

logger = logging.getLogger("psibench")


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
    given = os.environ.get(VARIABLE, "")
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
