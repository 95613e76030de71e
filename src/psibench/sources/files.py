"""Documents from folders and files of jsonl, parquet, json, txt and md."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.config.paths import CONFIG_FOLDER, SHIPPED, shipped
from psibench.config.sources import FilesSource
from psibench.errors import InputError, MissingError
from psibench.formats.text import read_records
from psibench.reading import parse_json, read_text_file, require_file
from psibench.sources.batches import Row, batch_documents
from psibench.sources.checks import require_id, require_text
from psibench.sources.where import keep_records

logger = logging.getLogger("psibench")

Record = tuple[str, dict[str, Any]]
PARQUET_ROWS = 256
PARQUET_BUFFER = 1 << 20


def read_document_files(paths: Sequence[str | Path], **options: Any) -> pl.DataFrame:
    """Read documents into one frame of DOCUMENTS rows; options as a `FilesSource` has them."""
    source = FilesSource(kind="files", paths=[str(path) for path in paths], **options)
    return pl.concat(document_file_batches(source))


def document_file_batches(source: FilesSource) -> Iterator[pl.DataFrame]:
    """Yield DOCUMENTS rows in batches, in the order given; folders in sorted order.

    A txt or md file is one document with its path (without suffix) as id. Records of jsonl and
    parquet files take their id from ``id_column``, else from ``_id`` or ``id`` where a record has
    one, else from file name and record number (from 0; what ``where`` leaves out is counted).
    Blank texts are left out. The origin of a shipped file names it as the config does, on every
    machine.

    Raises InputError if nothing is found, a file is not what its suffix says, a record lacks its
    text or a column of ``where``, ``where`` leaves nothing, or an id occurs twice.
    """
    paths = [shipped(path) for path in source.paths]
    place = ", ".join(paths)
    empty = f"{place}: every document is empty; expected text"
    if skipped := unread_files(paths):
        logger.warning("%s: %s", place, skipped)
    batches = batch_documents(lambda: _rows(source, paths, place), place=place, empty=empty)
    if paths == source.paths:
        yield from batches
        return
    origin, folder = pl.col("origin"), f"{CONFIG_FOLDER}/"
    named = pl.lit(SHIPPED) + origin.str.strip_prefix(folder)
    is_shipped = origin.str.starts_with(folder)
    for batch in batches:
        yield batch.with_columns(origin=pl.when(is_shipped).then(named).otherwise(origin))


def _rows(source: FilesSource, paths: Sequence[str], place: str) -> Iterator[Row]:
    column = source.text_column
    ids = ("_id", "id") if source.id_column is None else (source.id_column,)
    columns = [column, *ids, *(one.column for one in source.where)]

    def records() -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield (origin, record, id by file and number); a whole file is a record."""
        for path, root in find_files(paths):
            suffix = _suffix(path)
            name = path.relative_to(root).as_posix()[: -len(suffix)]
            if suffix not in WHOLE_FILE:
                for number, found in enumerate(READERS[suffix](path, columns)):
                    yield *found, f"{name}:{number}"
            elif source.where:
                raise InputError(f"{path}: a {suffix} file has no columns; take `where` away")
            else:
                text = read_text_file(path, expected="plain text")
                yield str(path), {ids[0]: name, column: text}, ""

    for origin, record, counted in keep_records(records(), source.where, place=place):
        if not isinstance(record.get(column), str):
            raise InputError(
                f"{origin}: no text in field {column!r}; found fields "
                f"{', '.join(record) or 'none'}. Set text_column."
            )
        text = require_text(record[column], column, origin=origin)
        own = next((name for name in ids if record.get(name) is not None), None)
        if own is not None:
            yield require_id(record[own], own, origin=origin), text, origin
        elif source.id_column is None:
            yield counted, text, origin
        else:
            raise InputError(f"{origin}: no id in field {ids[0]!r}; found {', '.join(record)}")


def file_records(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Record]:
    """Yield ``(origin, record)`` of jsonl, json and parquet files, folders in sorted order.

    Of Parquet files only ``columns`` are read, if they have them all.

    Raises InputError if nothing is found, or a file has no records or is not what its suffix says.
    """
    for path, _ in find_files([shipped(path) for path in paths]):
        if _suffix(path) in WHOLE_FILE:
            raise InputError(f"{path}: text without columns; expected {', '.join(READERS)}")
        yield from READERS[_suffix(path)](path, columns)


def find_files(paths: Sequence[str | Path]) -> list[tuple[Path, Path]]:
    """List ``(file, root)`` for files and folders; the root is what ids are relative to.

    Raises InputError if a path is missing, a named file has an unknown suffix, or a folder holds no
    document.
    """
    found: list[tuple[Path, Path]] = []
    for path in map(Path, paths):
        if path.is_dir():
            files = (inner for inner in sorted(path.rglob("*")) if inner.is_file())
            inside = [inner for inner in files if _suffix(inner) in IN_FOLDERS]
            if not inside:
                raise MissingError(f"{path}: no document in this folder. Supported: {FOLDERS}")
            found += [(p, path) for p in inside]
        elif not path.exists():
            raise MissingError(f"{path}: no such file or folder")
        elif _suffix(path) not in SUFFIXES:
            raise InputError(f"{path}: unknown suffix {path.suffix!r}. Supported: {SUPPORTED}")
        else:
            found.append((path, path.parent))
    return found


def unread_files(paths: Sequence[str | Path]) -> str:
    """Say how many files in folders are of a kind that is not read; empty if none is."""
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    others = Counter(
        path.suffix.lower() or "no suffix"
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and _suffix(path) not in IN_FOLDERS
    )
    if not others:
        return ""
    listed = ", ".join(f"{suffix} {count}" for suffix, count in others.most_common(5))
    return f"{others.total():,} files are not read ({listed}). Supported: {FOLDERS}"


def read_jsonl(path: Path, _columns: Sequence[str] = ()) -> Iterator[Record]:
    """Yield ``(origin, record)`` of a jsonl file, gzipped or not."""
    for number, record in read_records(path):
        yield f"{path}, line {number}", record


def _read_json(path: Path, _columns: Sequence[str]) -> Iterator[Record]:
    """Yield ``(origin, record)`` of a JSON file that is one list of records."""
    text = read_text_file(path, expected="a JSON file")
    records = parse_json(text, where=str(path), what="not valid JSON")
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise InputError(f"{path}: no list of records; expected [{{...}}, {{...}}], or jsonl")
    yield from ((f"{path}, record {number}", one) for number, one in enumerate(records))


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Yield ``(origin, record)``; of the other columns nothing is read, whatever they hold."""
    require_file(path, expected="a Parquet file")
    row = 0
    try:
        # Arrow would keep every column chunk it has read ahead until the file is closed.
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER)
        names = file.schema_arrow.names
        own = [n for n in names if any(_inside(c, n) for c in columns)]
        if twice := [name for name in dict.fromkeys(own) if own.count(name) > 1]:
            raise InputError(f"{path}: columns that occur twice: {', '.join(twice)}")
        needed = [c for c in columns if c not in ("_id", "id")]
        is_whole = all(any(_inside(c, n) for n in names) for c in needed)
        wanted = own if is_whole else None  # else a message names what there is
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
            for record in batch.to_pylist():
                yield f"{path}, row {row}", record
                row += 1
    except InputError:
        raise
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # ValueError: text that is not UTF-8, times beyond year 9999
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error


def _inside(column: str, name: str) -> bool:
    """Say whether a column, maybe ``a.b``, is the one of that name or inside it."""
    return column == name or column.startswith(f"{name}.")


def _suffix(path: Path) -> str:
    return ".jsonl.gz" if path.name.lower().endswith(".jsonl.gz") else path.suffix.lower()


READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[Record]]] = {
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": _read_parquet,
    ".json": _read_json,
}
WHOLE_FILE = (".txt", ".md")
SUFFIXES = (*READERS, *WHOLE_FILE)
SUPPORTED = ", ".join(SUFFIXES)
IN_FOLDERS = tuple(suffix for suffix in SUFFIXES if suffix != ".json")
"""What is read of a folder: a .json file in one may be anything, and is read where it is named."""
FOLDERS = ", ".join(IN_FOLDERS)
