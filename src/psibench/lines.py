"""Readers of text, JSON Lines, CSV and JSON files, plain or gzipped.

Their errors name file and line.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.reading import SNIFFED_BYTES, binary_kind, parse_json, require_file

MOST_LINE_CHARS = 1 << 28
MOST_JSON_CHARS = 1 << 30
"""Limit for a whole file; a gzip file of one megabyte may unpack to this size."""
csv.field_size_limit(MOST_LINE_CHARS)  # default 131,072; runs may have texts of documents


def read_lines(path: Path, *, most_chars: int = MOST_LINE_CHARS) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 text file, plain or .gz.

    Raises InputError if the file is missing, binary, not UTF-8 or a damaged gzip file, or a line
    has more than ``most_chars``.
    """
    require_file(path, expected="a text file")
    try:
        with _open(path, "rb") as stream:
            if (found := binary_kind(stream.read(SNIFFED_BYTES))) is not None:
                raise InputError(f"{path}: found {found}, expected a text file in UTF-8")
        with _open(path, "rt") as stream:
            for number, line in enumerate(iter(partial(stream.readline, most_chars + 1), ""), 1):
                if len(line) > most_chars:
                    raise InputError(f"{path}, line {number}: more than {most_chars:,} characters")
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {_undecodable_line(path)}: not UTF-8 text ({error.reason}); "
            "give a text file in UTF-8, or name its format"
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged or truncated gzip file ({error})") from error


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON Lines file; blank lines are skipped."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        record = parse_json(line, where=f"{path}, line {number}")
        if not isinstance(record, dict):
            raise InputError(
                f"{path}, line {number}: not a JSON object but {type(record).__name__}"
            )
        yield number, record


def read_delimited(path: Path, delimiter: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, fields by column name) of a CSV or TSV file with a header line.

    CSV fields may be quoted; TSV fields may not.
    """
    text = (line + "\n" for _, line in read_lines(path))
    rows = csv.reader(
        text,
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    try:
        header = next(rows, [])
        if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
            raise InputError(f"{path}, line 1: repeated columns: {', '.join(twice)}")
        for fields in filter(None, rows):
            if len(fields) != len(header):
                raise InputError(
                    f"{path}, line {rows.line_num}: {len(fields)} columns, "
                    f"expected the header's {len(header)} ({', '.join(header)})"
                )
            yield rows.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}") from error


def read_json(path: Path) -> Any:
    """Parse a whole JSON file, plain or .gz."""
    lines, n_chars = list[str](), 0
    for _, line in read_lines(path, most_chars=MOST_JSON_CHARS):
        lines.append(line)
        n_chars += len(line) + 8  # the list entry
        if n_chars > MOST_JSON_CHARS:
            raise InputError(
                f"{path}: more than {MOST_JSON_CHARS:,} characters; give JSON Lines instead"
            )
    return parse_json("\n".join(lines), where=str(path), what="not JSON, or truncated")


def _open(path: Path, mode: str) -> Any:
    encoding = "utf-8-sig" if "t" in mode else None
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, mode, encoding=encoding)


def _undecodable_line(path: Path) -> int:
    """Return the line, from 1, of the first byte that is not UTF-8."""
    with _open(path, "rb") as stream:
        lines = enumerate(iter(partial(stream.readline, MOST_JSON_CHARS), b""), 1)
        return next((n for n, line in lines if line.decode(errors="ignore").encode() != line), 1)
