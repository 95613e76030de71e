"""Hashes of files outside of results/: their content, not their dates, decides what runs again.

Snakemake compares the checksum of an input only if its date is newer than the outputs, but
``cp -p``, ``rsync -a``, ``tar`` and ``git`` can write changed files with older dates. The rules
therefore have a hash of all their outside files as a parameter. A record in the store has the hash
of each file with its size, dates and inode, so that a file is hashed again only if one of these
changed.
"""

import hashlib
import json
import os
import shlex
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from psibench.errors import InputError
from psibench.models.manifests import FOLDER_VARIABLE
from psibench.tables.atomic import write_text
from psibench.tables.hashing import hash_file

MADE = "results/"
"""Folder of the rules' outputs; only the manifests of downloads are elsewhere."""
MISSING = "missing"
SETTLED_NS = 2_000_000_000
"""Smallest age at which a file's dates identify its version, given file systems' coarse clocks."""

MOST_AHEAD_S = 60.0
"""Tolerated offset of a file's date in the future; jobs that read the file take longer."""

Stamp = list[int]
"""Size in bytes, mtime and ctime in nanoseconds, and inode of a file."""


def is_outside(path: str) -> bool:
    """Return whether a file is not the output of a rule."""
    manifests = os.environ[FOLDER_VARIABLE]
    return not path.startswith(MADE) and not Path(path).absolute().is_relative_to(manifests)


def refuse_future_dates(paths: Iterable[str]) -> None:
    """Refuse files with a date in the future; missing files are ignored.

    After a job, Snakemake removes outputs that are older than its inputs, including `ancient`
    inputs. Future dates come from machines with a wrong clock, or from archives of another time
    zone.

    Raises
    ------
    InputError
        With the first file, its date, and the number of such files.
    """
    latest, ahead = time.time() + MOST_AHEAD_S, list[tuple[str, float]]()
    for path in paths:
        with suppress(OSError):
            dated = os.stat(path).st_mtime
            ahead += [(path, dated)] if dated > latest else []
    if not ahead:
        return
    path, dated = ahead[0]
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(dated))
    more, remedy = "", f"touch {shlex.quote(path)}"
    if len(ahead) > 1:
        folder = os.path.commonpath([os.path.dirname(os.path.abspath(one)) for one, _ in ahead])
        more = f" ({len(ahead):,} such files)"
        remedy = f"find {shlex.quote(os.path.relpath(folder))} -type f -exec touch {{}} +"
    raise InputError(
        f"{path}: its date {date} is in the future{more}; Snakemake would remove all outputs that "
        f"depend on it. The content counts, not the date: to set it to now, run `{remedy}`"
    )


def outside_content(paths: Iterable[str]) -> str:
    """Return one hash of the paths and contents of the outside files among some inputs.

    It does not depend on the files' order or dates; a missing file has the content `MISSING`.
    Reuses and updates the record of hashes in the store.
    """
    outside = sorted({path for path in paths if is_outside(path)})
    if not outside:
        return "no outside files"
    record = Path(os.environ[FOLDER_VARIABLE]).parent / "inputs.json"
    known, new, digest = _read(record), dict[str, tuple[Stamp, str]](), hashlib.sha256()
    for path in outside:
        content = MISSING
        with suppress(FileNotFoundError):
            content = _file_hash(os.path.abspath(path), known, new)
        digest.update(os.fsencode(path) + f"\0{content}\n".encode())
    if new:
        with suppress(OSError):  # without a writable store, the next job hashes the files again
            # Reads again, as other jobs may have added files; lost entries are hashed again.
            write_text(json.dumps(_read(record) | new), record)
    return f"content of {len(outside)} outside files sha256:{digest.hexdigest()}"


def refuse_changed(paths: Iterable[str], before: str) -> None:
    """Raise InputError if the hash of the outside files is not ``before``, the one at the start."""
    paths = list(paths)
    if outside_content(paths) != before:
        outside = [path for path in paths if is_outside(path)]
        newest = max(filter(os.path.exists, outside), key=lambda path: os.stat(path).st_ctime_ns)
        raise InputError(
            f"an input file changed during this job (the last one: {newest}), so its output is "
            "discarded. Run again when the files are complete"
        )


def _file_hash(
    path: str, known: dict[str, tuple[Stamp, str]], new: dict[str, tuple[Stamp, str]]
) -> str:
    now, stamp = time.time_ns(), _stamp(path)
    if path in known and known[path][0] == stamp:
        return known[path][1]
    content = hash_file(path)
    # A file that was just written may change again without a new date.
    if _stamp(path) == stamp and max(stamp[1:3]) < now - SETTLED_NS:
        new[path] = stamp, content
    return content


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(record: Path) -> dict[str, tuple[Stamp, str]]:
    """Read the record; empty if it is missing or damaged."""
    try:
        return _parse(record, tuple(_stamp(str(record))))
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=1)
def _parse(record: Path, _version: tuple[int, ...]) -> dict[str, tuple[Stamp, str]]:
    found: dict[str, tuple[Stamp, str]] = json.loads(record.read_text(encoding="utf-8"))
    return dict(found or {})
