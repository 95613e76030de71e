"""Write a file whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import polars as pl


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success fsync it and rename it.

    The folder is made if missing. After an exception the temporary file is removed and the old
    file stays.

    Raises
    ------
    OSError
        If the file cannot be written whole; with the target as its `filename` if the disk is full.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except (OSError, pl.exceptions.ComputeError) as error:  # polars does not raise OSError
        if is_full(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        if isinstance(error, OSError):
            raise
        raise OSError(f"{target}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Return whether an error means a full disk or quota; libraries have it only in the message."""
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return True
    texts = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
    return any(text.lower() in str(error).lower() for text in texts)


def write_whole(handle: int, data: bytes, path: Path) -> None:
    """Write all bytes to an open file.

    Raises
    ------
    OSError
        If not all bytes can be written, with ``path`` as its `filename`.
    """
    written = 0
    try:
        while written < len(data):
            written += os.write(handle, data[written:])
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(text: str, path: str | Path) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
