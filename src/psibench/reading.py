"""Reading of untrusted input: files, text, JSON, numbers and ids.

For any content, these functions return a value or raise one `InputError` that names the file.
"""

import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from psibench.errors import InputError, MissingError

SNIFFED_BYTES = 4096
MOST_VALUES = 1_000_000
"""Values in a config. Real configs have a few thousand; nested aliases may expand to more."""
BINARY_KINDS = (
    (b"%PDF", "a PDF document"),
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = _shown.maxlong = 100


def shown(value: object) -> str:
    """Return a value as text for a message, shortened if it is long or deep."""
    return _shown.repr(value)


def one_line(text: object, most: int) -> str:
    """Return the first ``most`` characters of a text, with line ends and controls escaped."""
    cut = str(text)[:most]
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


# --- Files and their text --------------------------------------------------------------------


def require_file(path: str | Path, *, expected: str) -> Path:
    """Return the path of a regular file.

    Raises
    ------
    MissingError
        If it does not exist.
    InputError
        If it is a folder, or a pipe, socket or device, which may have no end.
    """
    file = Path(path)
    if file.is_file():
        return file
    if file.is_dir():
        raise InputError(f"{path}: a folder, expected {expected}")
    if file.exists():
        raise InputError(
            f"{path}: a pipe, socket or device, expected {expected}; save its content to a file"
        )
    raise MissingError(f"{path}: no such file; expected {expected}")


def read_bytes(path: str | Path, *, expected: str) -> bytes:
    """Return the bytes of a file; raise InputError if it cannot be read."""
    try:
        return require_file(path, expected=expected).read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected {expected}"
        ) from error


def read_text_file(path: str | Path, *, expected: str) -> str:
    """Return the text of a UTF-8 file; ``expected`` describes it in messages.

    Raises InputError if the file is missing, binary (e.g. a PDF) or not UTF-8.
    """
    data = read_bytes(path, expected=expected)
    found = binary_kind(data)
    if found is None:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            found = f"bytes that are not UTF-8 (line {line}, byte {error.start} of the file)"
    raise InputError(f"{path}: found {found}, expected {expected}. Convert it to UTF-8 text first.")


def binary_kind(head: bytes) -> str | None:
    """Return a name for binary content; None if the bytes may be text."""
    for magic, name in BINARY_KINDS:
        if head.startswith(magic):
            return name
    return "binary data" if b"\0" in head[:SNIFFED_BYTES] else None


# --- JSON and YAML ---------------------------------------------------------------------------


def parse_json(
    text: str | bytes, *, where: str, what: str = "not JSON", unique: bool = True
) -> Any:
    """Parse JSON.

    Raises InputError if the text is not JSON, is nested too deep, has a number that is too large,
    or has a key twice. Without ``unique`` the last value of a key counts.
    """
    try:
        return json.loads(text, object_pairs_hook=_object if unique else None, parse_float=_finite)
    except RecursionError:
        raise InputError(f"{where}: {what}: nested too deep") from None
    except ValueError as error:  # not JSON, or an integer of thousands of digits
        raise InputError(f"{where}: {what} ({error})") from error


def refuse_aliases(
    value: Any, inside: Callable[[Any], Iterable[Any]], sizes: dict[int, int] | None = None
) -> int:
    """Return the number of values in a value, counting repeated values each time.

    Parameters
    ----------
    inside
        Returns the values in a value; empty for a scalar.

    Raises
    ------
    ValueError
        If the value contains itself, or has more than `MOST_VALUES`.
    """
    sizes = {} if sizes is None else sizes
    known = sizes.get(id(value))
    if known is None:
        sizes[id(value)] = -1
        known = 1 + sum(refuse_aliases(one, inside, sizes) for one in inside(value))
        sizes[id(value)] = known
    if known < 0:
        raise ValueError(f"a value contains itself{getattr(value, 'start_mark', '')}")  # of YAML's
    if known > MOST_VALUES:
        raise ValueError(f"aliases expand to more than {MOST_VALUES:,} values")
    return known


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(twice)} occurs twice in an object")
    return made


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"the number {shown(text)} is too large")
    return found


# --- Numbers, ids and texts ------------------------------------------------------------------

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def _plain(value: Any) -> Any:
    """Return scalars of NumPy and PyTorch, and decimals, as Python values; others unchanged."""
    if isinstance(value, Decimal):
        return str(value)
    try:
        return value.item() if hasattr(value, "item") else value
    except (TypeError, ValueError, RuntimeError):  # an array of several values
        return value


_WHOLE = re.compile(r"-?[0-9]{1,15}")


def whole_number(text: str, *, least: int = 0, most: int = 10**15 - 1) -> int | None:
    """Parse a whole number in ASCII digits; return None unless it is in [least, most].

    Unlike `int` it accepts no other digits, no underscores and no white space.
    """
    found = int(text) if _WHOLE.fullmatch(text) else None
    return found if found is not None and least <= found <= most else None


def parse_number(value: object, *, where: str, column: str) -> float:
    """Parse a number, also the names of NaN and infinity.

    Raises InputError with file, line and column if the value is not a number or too large.
    Underscores (``1_0``) and digits outside ASCII are not accepted.
    """
    value = _plain(value)
    text = value.strip(" \t\r\n") if isinstance(value, str) else ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or _NUMBER.fullmatch(text) or _NO_NUMBER.fullmatch(text):
        try:
            found = float(text or value)  # type: ignore[arg-type]
        except OverflowError:
            found = math.inf
        if not math.isinf(found) or _NO_NUMBER.fullmatch(text) or isinstance(value, float):
            return found
        raise InputError(f"{where}: {column} is {shown(value)}; expected a number below 1.8e308")
    raise InputError(f"{where}: {column} is {shown(value)}; expected a number")


def identifier(value: object, *, where: str, column: str) -> str:
    """Return an id as text; raise InputError unless it is a whole number or non-empty text."""
    value = _plain(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: {column} is {shown(value)}; expected an id")
    return utf8(value, where=where, column=column)


def utf8(text: str, *, where: str, column: str) -> str:
    """Return the text; raise InputError if it has half of a surrogate pair, which is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: field {column!r} has half of a surrogate pair at character "
            f"{error.start}, which is not valid text; repair the source file"
        ) from error
    return text
