"""Write a file whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import polars as pl


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success fsync it and rename it.

    The folder is made if missing. After an exception nothing is left and the old file stays.

    Raises
    ------
    OSError
        If the file cannot be written whole.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except pl.exceptions.ComputeError as error:  # how polars tells that the disk is full
        raise OSError(f"{target}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(text: str, path: str | Path) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
