"""Checks every source shares."""

from pathlib import Path

import polars as pl

from psibench.errors import InputError
from psibench.formats.sniff import binary_kind


def read_text_file(path: str | Path, *, expected: str) -> str:
    """Read a UTF-8 text file.

    Raises
    ------
    InputError
        If the file is missing, binary (a PDF, say) or not UTF-8. ``expected`` names what was
        wanted.
    """
    return decode_text(read_bytes(path, expected=expected), path, expected=expected)


def read_bytes(path: str | Path, *, expected: str) -> bytes:
    """Read a file whole; raise InputError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected {expected}"
        ) from error


def decode_text(data: bytes, path: str | Path, *, expected: str) -> str:
    """Decode a file's bytes; refuse binary content, saying what it looks like."""
    found = binary_kind(data)
    if found is None:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            found = f"bytes that are not UTF-8 (at byte {error.start})"
    raise InputError(f"{path}: found {found}, expected {expected}. Convert it to UTF-8 text first.")


def require_text(value: object, field: str, *, origin: str) -> str:
    """Return a record's value if it is text that can be written as UTF-8.

    Raises
    ------
    InputError
        If it is not a string, or holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise InputError(
            f"{origin}: field {field!r} is {'null' if value is None else type(value).__name__}, "
            "expected text"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{origin}: field {field!r} holds half of a surrogate pair at character "
            f"{error.start}, which is no text; mend the file that it was made from"
        ) from error
    return value


def require_id(value: object, field: str, *, origin: str) -> str:
    """Return a record's id as text; raise InputError if it is neither text nor a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return require_text(value, field, origin=origin)


def refuse_repeated(frame: pl.DataFrame, column: str, *, where: str) -> None:
    """Raise InputError if a non-null value of ``column`` occurs twice, naming the first."""
    values = frame.filter(pl.col(column).is_not_null())
    repeated = values.filter(pl.col(column).is_duplicated())
    if repeated.is_empty():
        return
    first = repeated.get_column(column)[0]
    origins = repeated.filter(pl.col(column) == first).get_column("origin").to_list()
    raise InputError(
        f"{where}: id {first!r} occurs {len(origins)} times ({'; '.join(origins[:3])}); "
        f"{repeated.get_column(column).n_unique()} ids are repeated. Ids must be unique."
    )
