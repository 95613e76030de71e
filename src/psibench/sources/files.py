"""Documents from folders and files: jsonl, parquet, txt, md, pdf, docx and html."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob, has_magic
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from psibench.config.paths import CONFIG_FOLDER, SHIPPED, shipped
from psibench.errors import FEW, InputError, MissingError
from psibench.lines import read_records
from psibench.reading import one_line, read_text_file, require_file
from psibench.sources.convert import CONVERTERS
from psibench.sources.converter import convert
from psibench.tables import content_hash

Record = tuple[str, dict[str, Any]]
logger = logging.getLogger("psibench")

PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")
MOST_TEXT_BYTES = 1 << 28
"""Of a text file, which is one document and is copied several times: fifty long novels."""
PARQUET_ROWS = 256
PARQUET_BUFFER = 1 << 20
UNREADABLE = "psibench:unreadable"
"""Field of a record, not of any file's, that says why a file has no text."""
TEXTS, CONVERTED = 1000, 50
"""So many text files are read as one file of records: they are small, and a corpus has many. And so
many whose text has to be extracted."""


@dataclass(frozen=True)
class LocalFile:
    """A file of records.

    Attributes
    ----------
    path, key
        Where it is; and where it is below its root, without suffix unless another file's name is
        the same without it: ids start with it.
    is_shipped
        Origins then name it as the config does, on every machine.
    """

    path: Path
    key: str
    is_shipped: bool = False
    is_whole: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.path)

    def identity(self) -> str:
        """Return what changes when the file's content or its place does."""
        return f"{self.path} {content_hash(str(self.path))}"

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """Yield ``(origin, record)``; of Parquet files only ``columns`` are read, if all are there.

        Raises InputError if the file is not what its suffix says.
        """
        for origin, record in READERS[_suffix(self.path)](self.path, columns):
            yield self.named(origin), record

    def named(self, origin: str) -> str:
        """Return an origin as the config names the file."""
        return SHIPPED + origin.removeprefix(f"{CONFIG_FOLDER}/") if self.is_shipped else origin


@dataclass(frozen=True)
class TextFiles:
    """Files that are a document each, some after another in reading order: records of one file."""

    files: tuple[LocalFile, ...]
    is_whole: ClassVar[bool] = True

    def __str__(self) -> str:
        return str(self.files[0])

    @property
    def key(self) -> str:
        """The first file's."""
        return self.files[0].key

    def identity(self) -> str:
        """Return what changes when a file's content or its place does."""
        return "\n".join(file.identity() for file in self.files)

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """Yield ``(origin, record)``: a file's text and its key, as the first two columns.

        Logs which files hold no text, as scanned pages do. The record of a file that cannot be read
        has no text, and the reason under `UNREADABLE`.
        """
        blank = []
        for file in self.files:
            try:
                text = WHOLE_FILE[_suffix(file.path)](file.path)
            except InputError as error:
                known = dict(zip(columns, (None, file.key), strict=False))
                yield file.named(str(file.path)), known | {UNREADABLE: str(error)}
                continue
            if not text.strip():
                blank.append(str(file))
            yield file.named(str(file.path)), dict(zip(columns, (text, file.key), strict=False))
        if blank:
            more = f", ... ({len(blank)} in all)" if len(blank) > FEW else ""
            named = f"{', '.join(blank[:FEW])}{more}"
            logger.warning("left out, without any text (scanned pages need OCR): %s", named)


def local_record_files(paths: Sequence[str]) -> list[LocalFile | TextFiles]:
    """List the files under paths of a config, in reading order; `TEXTS` at a time, if they are.

    Keys are without suffix, but where two names differ in it alone. Logs what is skipped.

    Raises InputError as `find_files`.
    """
    files, names, skipped = [], [], Counter[str]()
    for given in paths:
        is_shipped = shipped(given) != given
        for path, root in find_files([shipped(given)], skipped):
            name = path.relative_to(root).as_posix()
            names.append(name)
            files.append(LocalFile(path, name[: -len(_suffix(path))], is_shipped))
    if skipped:
        logger.warning("%s: %s", ", ".join(paths), skipped_text(skipped))
    suffixed = Counter(file.key for file in files)
    files = [
        replace(file, key=name) if suffixed[file.key] > 1 else file
        for file, name in zip(files, names, strict=True)
    ]
    found: list[LocalFile | TextFiles] = []
    for at_once, group in groupby(files, key=lambda file: AT_ONCE.get(_suffix(file.path))):
        members = list(group)
        if at_once:
            starts = range(0, len(members), at_once)
            found += [TextFiles(tuple(members[start : start + at_once])) for start in starts]
        else:
            found += members
    return found


def find_files(
    paths: Sequence[str | Path], skipped: Counter[str] | None = None
) -> list[tuple[Path, Path]]:
    """List ``(file, root)`` for files, folders and globs; the root is what ids are relative to.

    That of a glob is the folder before its first wildcard. ``skipped`` counts what is in folders
    and is not read: files by suffix, hidden ones left aside.

    Raises InputError if a path is missing or no file, a glob matches nothing, a named file has an
    unknown suffix, or a folder holds no document or cannot be read.
    """
    found: list[tuple[Path, Path]] = []
    skipped = Counter() if skipped is None else skipped
    for path in map(Path, paths):
        if has_magic(str(path)) and not path.exists():
            matched = sorted(map(Path, glob(str(path), recursive=True)))
            if not matched:
                raise MissingError(f"{path}: no file or folder matches")
            root = Path(*takewhile(lambda part: not has_magic(part), path.parts))
            found += [(file, root) for file, _ in find_files(matched, skipped)]
        elif path.is_dir():
            inside, others = _inside(path)
            skipped += others
            if not inside:
                more = f"; {skipped_text(others)}" if others else ""
                raise MissingError(
                    f"{path}: no document in this folder. Supported: {SUPPORTED}{more}"
                )
            found += [(p, path) for p in inside]
        elif not path.exists():
            raise MissingError(f"{path}: no such file or folder")
        elif _suffix(path) not in SUFFIXES:
            raise InputError(f"{path}: unknown suffix {path.suffix!r}. Supported: {SUPPORTED}")
        else:
            found.append((require_file(path, expected="a file of documents"), path.parent))
    return found


def _inside(folder: Path) -> tuple[list[Path], Counter[str]]:
    """List the documents below a folder, sorted, and count the rest by kind.

    Level by level, since walks by recursion end at a thousand nested folders. Links to folders are
    not followed.
    """
    files, others, waiting = list[Path](), Counter[str](), [folder]
    while waiting:
        place = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            raise InputError(f"{place}: cannot be read ({error.strerror})") from error
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
            elif _is_file(entry) and _suffix(path) in SUFFIXES:
                files.append(path)
            elif not any(part.startswith(".") for part in path.relative_to(folder).parts):
                others[_kind(path)] += 1
    return sorted(files), others


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """Say whether an entry is a file or links to one; False for links in a circle."""
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def _kind(path: Path) -> str:
    """Name what is not read: a suffix, of compressed files with the one before it."""
    if os.path.isdir(path):
        return "links to folders"
    if not os.path.isfile(path):
        return "broken links, pipes and devices"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_packed = suffixes[-1:] and suffixes[-1] in PACKED
    return "".join(suffixes[-2 if is_packed else -1 :]) or "without suffix"


def skipped_text(skipped: Counter[str]) -> str:
    """Say what was skipped in folders, the most frequent first, and what to do."""
    kinds = sorted(skipped.items(), key=lambda one: (-one[1], one[0]))
    named = ", ".join(f"{one_line(kind, 40)} {count:,}" for kind, count in kinds[:FEW])
    more = f", ... ({len(kinds)} kinds)" if len(kinds) > FEW else ""
    return (
        f"skipped {skipped.total():,} files of kinds that are not read: {named}{more}. Convert "
        "those that you want read (text: .txt or .md; records: .jsonl or .parquet), or unpack them"
    )


def _read_text(path: Path) -> str:
    n_bytes = require_file(path, expected="plain text").stat().st_size
    if n_bytes > MOST_TEXT_BYTES:
        raise InputError(
            f"{path}: {n_bytes:,} bytes, at most {MOST_TEXT_BYTES:,} of one document are read; "
            "split it, or write its documents as .jsonl"
        )
    return read_text_file(path, expected="plain text")


def read_jsonl(path: Path, _columns: Sequence[str] = ()) -> Iterator[Record]:
    """Yield ``(origin, record)`` of a jsonl file, gzipped or not."""
    for number, record in read_records(path):
        yield f"{path}, line {number}", record


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Yield ``(origin, record)``; of the other columns nothing is read, whatever they hold."""
    require_file(path, expected="a Parquet file")
    row = 0
    try:
        # Arrow would keep every column chunk it has read ahead until the file is closed.
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER)
        names = file.schema_arrow.names
        present = [n for n in names if any(is_inside(c, n) for c in columns)]
        if twice := [name for name in dict.fromkeys(present) if present.count(name) > 1]:
            raise InputError(f"{path}: columns that occur twice: {', '.join(twice)}")
        needed = [c for c in columns if c not in ("_id", "id")]
        is_whole = all(any(is_inside(c, n) for n in names) for c in needed)
        wanted = present if is_whole else None  # else a message names what there is
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
            for record in batch.to_pylist():
                yield f"{path}, row {row}", record
                row += 1
    except InputError:
        raise
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # ValueError: text that is not UTF-8, times beyond year 9999
        said = " ".join(str(error).split())  # of several lines, if a page is damaged
        raise InputError(f"{path}: not a readable Parquet file ({said})") from error


def is_inside(column: str, name: str) -> bool:
    """Say whether a column, maybe ``a.b``, is the one of that name or inside it."""
    return column == name or column.startswith(f"{name}.")


def _suffix(path: Path) -> str:
    return ".jsonl.gz" if path.name.lower().endswith(".jsonl.gz") else path.suffix.lower()


READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[Record]]] = {
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": _read_parquet,
}
WHOLE_FILE: dict[str, Callable[[Path], str]] = {
    **dict.fromkeys((".txt", ".md"), _read_text),
    **{suffix: partial(convert, suffix=suffix) for suffix in CONVERTERS},
}
AT_ONCE = {
    suffix: TEXTS if read is _read_text else CONVERTED for suffix, read in WHOLE_FILE.items()
}
SUFFIXES = (*READERS, *WHOLE_FILE)
SUPPORTED = ", ".join(SUFFIXES)
