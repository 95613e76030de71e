"""Whether outside files hold what they held: their bytes decide what runs again, not their dates.

Snakemake compares the checksum of an input only if its date is newer than the outputs, and
``cp -p``, ``rsync -a``, ``tar`` and ``git`` bring changed files with older dates. The rules
therefore have one hash of all their outside files as a parameter. A record in the store holds
the hash of each file beside its size, dates and inode, so that a file is read again only if one
of these changed.
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
"""Where the rules write; beside it only the manifests of downloads."""
MISSING = "missing"
SETTLED_NS = 2_000_000_000
"""Age from which a file's dates tell two versions apart: the coarsest clock of a file system."""

MOST_AHEAD_S = 60.0
"""By which a file may be dated in the future: its jobs take longer than that."""

Stamp = list[int]
"""Size, date of the content and of the entry in nanoseconds, and inode of a file."""


def is_outside(path: str) -> bool:
    """Say whether no rule makes a file."""
    manifests = os.environ[FOLDER_VARIABLE]
    return not path.startswith(MADE) and not Path(path).absolute().is_relative_to(manifests)


def refuse_future_dates(paths: Iterable[str]) -> None:
    """Refuse outside files that are dated in the future; those that are not there are no matter.

    When a job has ended, Snakemake removes outputs that are older than an input of it, `ancient`
    ones included.

    Raises
    ------
    InputError
        Naming the first file, its date and how many there are. A machine whose clock is ahead, or
        an archive in another time zone, gives such dates.
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
        f"{path}: dated {date}, which is in the future{more}; Snakemake would remove everything "
        f"that is made of it. Its content counts, not its date: run `{remedy}`"
    )


def outside_content(paths: Iterable[str]) -> str:
    """Return one hash of the outside files among some inputs, by their paths and bytes.

    The order of the files and their dates do not count; a file that is not there is `MISSING`.
    The hash of each file is read from the record in the store, and stored there.
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
        with suppress(OSError):  # a store that cannot be written: the files are hashed again
            # Other jobs may have added files since; an entry that is lost is hashed again.
            write_text(json.dumps(_read(record) | new), record)
    return f"content of {len(outside)} outside files sha256:{digest.hexdigest()}"


def refuse_changed(paths: Iterable[str], before: str) -> None:
    """Raise InputError if outside files changed since a job began, ``before`` being their hash."""
    paths = list(paths)
    if outside_content(paths) != before:
        outside = [path for path in paths if is_outside(path)]
        newest = max(filter(os.path.exists, outside), key=lambda path: os.stat(path).st_ctime_ns)
        raise InputError(
            f"a file changed while this job read it (the last to change: {newest}); its output is "
            "not kept. Run again once the files are complete"
        )


def _file_hash(
    path: str, known: dict[str, tuple[Stamp, str]], new: dict[str, tuple[Stamp, str]]
) -> str:
    now, stamp = time.time_ns(), _stamp(path)
    if path in known and known[path][0] == stamp:
        return known[path][1]
    content = hash_file(path)
    # A file that was written a moment ago may change again without another date.
    if _stamp(path) == stamp and max(stamp[1:3]) < now - SETTLED_NS:
        new[path] = stamp, content
    return content


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(record: Path) -> dict[str, tuple[Stamp, str]]:
    """Read the record; one that is not there or is damaged is empty."""
    try:
        return _parse(record, tuple(_stamp(str(record))))
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=1)
def _parse(record: Path, _version: tuple[int, ...]) -> dict[str, tuple[Stamp, str]]:
    found: dict[str, tuple[Stamp, str]] = json.loads(record.read_text(encoding="utf-8"))
    return dict(found or {})
