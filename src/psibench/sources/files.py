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

from psibench.config.paths import CONFIG_FOLDER, RESULTS_FOLDER, SHIPPED, STORE_LOCK, shipped
from psibench.errors import FEW, InputError, MissingError, missing_extra
from psibench.lines import read_records
from psibench.reading import one_line, read_text_file, require_file
from psibench.sources.convert import CONVERTERS
from psibench.sources.converter import convert
from psibench.tables import content_hash

Record = tuple[str, dict[str, Any]]
logger = logging.getLogger("psibench")

PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")
MACOS_FOLDER = "__MACOSX"
"""Folder of a zip archive of macOS, with a small binary file for each file of the archive."""
MOST_TEXT_BYTES = 1 << 28
"""Largest text file, about fifty long novels; it is one document and is copied several times."""
PARQUET_ROWS = 256
"""Rows of a Parquet file that are in memory at once."""
PARQUET_BUFFER = 1 << 20
UNREADABLE_FIELD = "psibench:unreadable"
"""Field that psibench adds to a record if its file could not be read: the reason."""
_TEXT_FILES_AT_ONCE, _CONVERTED_FILES_AT_ONCE = 1000, 50
"""Number of files that are read as one file of records: text files, which are small and many, and
files that need a conversion."""


@dataclass(frozen=True)
class LocalFile:
    """A file of records.

    Attributes
    ----------
    path, key
        Its path; and its path below its root, without suffix unless another file's name differs
        only in the suffix. Ids start with the key.
    is_shipped
        Whether psibench ships the file; origins then have its name in the config, the same on every
        machine.
    """

    path: Path
    key: str
    is_shipped: bool = False
    is_whole: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.path)

    def identity(self) -> str:
        """Return a text that changes when the file's content or path does."""
        return f"{self.path} {content_hash(str(self.path))}"

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """Yield ``(origin, record)``; of Parquet only ``columns``, if the file has them all.

        Raises InputError if the file does not have the format of its suffix.
        """
        for origin, record in RECORD_READERS[_suffix(self.path)](self.path, columns):
            yield self.named(origin), record

    def named(self, origin: str) -> str:
        """Return an origin with the file's name as in the config."""
        return SHIPPED + origin.removeprefix(f"{CONFIG_FOLDER}/") if self.is_shipped else origin


@dataclass(frozen=True)
class TextFiles:
    """Consecutive files in reading order with one document each, read like one file of records."""

    files: tuple[LocalFile, ...]
    is_whole: ClassVar[bool] = True

    def __str__(self) -> str:
        return str(self.files[0])

    @property
    def key(self) -> str:
        """The key of the first file."""
        return self.files[0].key

    def identity(self) -> str:
        """Return a text that changes when a file's content or path does."""
        return "\n".join(file.identity() for file in self.files)

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """Yield ``(origin, record)``: a file's text and its key, as the first two columns.

        Logs the files without text, e.g. scanned pages. If a file cannot be read, its record has no
        text, and the reason under `UNREADABLE_FIELD`.
        """
        blank = []
        for file in self.files:
            try:
                text = WHOLE_FILE[_suffix(file.path)](file.path)
            except InputError as error:
                record = dict(zip(columns, (None, file.key), strict=False))
                yield file.named(str(file.path)), record | {UNREADABLE_FIELD: str(error)}
                continue
            except ModuleNotFoundError as error:
                raise InputError(f"{file.path}: {missing_extra(error) or error}") from error
            if not text.strip():
                blank.append(str(file))
            yield file.named(str(file.path)), dict(zip(columns, (text, file.key), strict=False))
        if blank:
            more = f", ... ({len(blank)} in all)" if len(blank) > FEW else ""
            listed = f"{', '.join(blank[:FEW])}{more}"
            logger.warning("left out files without text (scanned pages need OCR): %s", listed)


def local_record_files(paths: Sequence[str]) -> list[LocalFile | TextFiles]:
    """List the files under paths of a config, in reading order, with text files grouped.

    Keys have no suffix, unless two names differ only in the suffix. Logs the skipped files.

    Raises InputError as `find_files` does.
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
    record_files: list[LocalFile | TextFiles] = []
    for at_once, group in groupby(files, key=lambda file: _AT_ONCE.get(_suffix(file.path))):
        members = list(group)
        if at_once:
            starts = range(0, len(members), at_once)
            record_files += [TextFiles(tuple(members[start : start + at_once])) for start in starts]
        else:
            record_files += members
    return record_files


def find_files(
    paths: Sequence[str | Path], skipped: Counter[str] | None = None
) -> list[tuple[Path, Path]]:
    """List ``(file, root)`` for files, folders and globs; ids are relative to the root.

    The root of a glob is the folder before its first wildcard. ``skipped`` counts the files in
    folders that are not read, by suffix. Hidden files and folders, and a run's results and store,
    are neither read nor counted unless ``paths`` names them.

    Raises InputError if a path is missing or not a file, a glob matches nothing, a listed file has
    an unknown suffix, a folder has no document or cannot be read, or a folder or glob has queries
    beside a corpus.
    """
    files: list[tuple[Path, Path]] = []
    skipped = Counter() if skipped is None else skipped
    for path in map(Path, paths):
        if has_magic(str(path)) and not path.exists():
            matched = sorted(map(Path, glob(str(path), recursive=True)))
            if not matched:
                raise MissingError(f"{path}: no file or folder matches")
            root = Path(*takewhile(lambda part: not has_magic(part), path.parts))
            found = [file for file, _ in find_files(matched, skipped)]
            _refuse_queries(found)
            files += [(file, root) for file in found]
        elif path.is_dir():
            inside, others = _inside(path)
            skipped += others
            if not inside:
                more = f"; {skipped_text(others)}" if others else ""
                raise MissingError(
                    f"{path}: no document in this folder; hidden files are not read. Supported: "
                    f"{SUPPORTED}{more}"
                )
            files += [(p, path) for p in inside]
        elif not path.exists():
            raise MissingError(f"{path}: no such file or folder")
        elif _suffix(path) not in SUFFIXES:
            raise InputError(f"{path}: unknown suffix {path.suffix!r}. Supported: {SUPPORTED}")
        else:
            files.append((require_file(path, expected="a file of documents"), path.parent))
    return files


def _inside(folder: Path) -> tuple[list[Path], Counter[str]]:
    """List the documents below a folder, sorted, and count the other files by kind.

    The walk is iterative, since Python's recursion would fail at a thousand nested folders. Links
    to folders are not followed. Hidden files and folders are left out: they are copies
    (``.ipynb_checkpoints``, macOS's ``._NAME``) or belong to programs (``.git``, ``.venv``). So are
    the results and the store of a run.
    """
    files, others, waiting = list[Path](), Counter[str](), [folder]
    while waiting:
        parent = waiting.pop()
        try:
            entries = list(os.scandir(parent))
        except OSError as error:
            raise InputError(f"{parent}: cannot be read ({error.strerror})") from error
        for entry in entries:
            path = Path(entry.path)
            if path.name.startswith(".") or path.name == MACOS_FOLDER:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if _is_written_by_run(path) else [path]
            elif _is_file(entry) and _suffix(path) in SUFFIXES:
                files.append(path)
            else:
                others[_kind(path)] += 1
    _refuse_queries(files)
    return sorted(files), others


def _refuse_queries(files: Sequence[Path]) -> None:
    """Raise InputError if files of records are a corpus and queries, as in BEIR's layout."""
    names = {
        (path.parent, path.name[: -len(_suffix(path))].lower()): path
        for path in files
        if _suffix(path) in RECORD_READERS
    }
    for (folder, name), path in names.items():
        if name == "queries" and (corpus := names.get((folder, "corpus"))) is not None:
            raise InputError(
                f"{folder}: has {corpus.name} and {path.name}, so the queries would be read as "
                f"documents; give {corpus} instead"
            )


def _is_written_by_run(folder: Path) -> bool:
    """Return whether a folder has the results or the store of a run, whose tables have texts."""
    is_named = folder.name == RESULTS_FOLDER.name
    is_results = is_named and os.path.realpath(folder) == os.path.realpath(RESULTS_FOLDER)
    return is_results or (folder / STORE_LOCK).exists()


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a file or a link to one; False for circular links."""
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def _kind(path: Path) -> str:
    """Return the kind of a skipped file: its suffix, or both if it is compressed."""
    if os.path.isdir(path):
        return "links to folders"
    if not os.path.isfile(path):
        return "broken links, pipes and devices"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_packed = suffixes[-1:] and suffixes[-1] in PACKED
    return "".join(suffixes[-2 if is_packed else -1 :]) or "without suffix"


def skipped_text(skipped: Counter[str]) -> str:
    """Return a message about skipped files, the most frequent kinds first, with advice."""
    kinds = sorted(skipped.items(), key=lambda one: (-one[1], one[0]))
    listed = ", ".join(f"{one_line(kind, 40)} {count:,}" for kind, count in kinds[:FEW])
    more = f", ... ({len(kinds)} kinds)" if len(kinds) > FEW else ""
    return (
        f"skipped {skipped.total():,} files of unsupported kinds: {listed}{more}. To include them, "
        "convert them (text: .txt or .md; records: .jsonl or .parquet), or unpack them"
    )


def _read_text(path: Path) -> str:
    n_bytes = require_file(path, expected="plain text").stat().st_size
    if n_bytes > MOST_TEXT_BYTES:
        raise InputError(
            f"{path}: {n_bytes:,} bytes, the limit for one document is {MOST_TEXT_BYTES:,}; "
            "split it, or write its documents as .jsonl"
        )
    return read_text_file(path, expected="plain text")


def read_jsonl(path: Path, _columns: Sequence[str] = ()) -> Iterator[Record]:
    """Yield ``(origin, record)`` of a jsonl file, plain or gzipped."""
    for number, record in read_records(path):
        yield f"{path}, line {number}", record


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    """Yield ``(origin, record)`` with only ``columns``, if the file has them all."""
    require_file(path, expected="a Parquet file")
    row = 0
    try:
        # With pre_buffer, Arrow would keep all column chunks until the file is closed.
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER)
        names = file.schema_arrow.names
        present = [n for n in names if any(is_inside(c, n) for c in columns)]
        if twice := [name for name in dict.fromkeys(present) if present.count(name) > 1]:
            raise InputError(
                f"{path}: columns that occur twice: {', '.join(twice)}; rename or remove them"
            )
        needed = [c for c in columns if c not in ("_id", "id")]
        is_whole = all(any(is_inside(c, n) for n in names) for c in needed)
        wanted = present if is_whole else None  # None: a later message lists all columns
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=wanted):
            for record in batch.to_pylist():
                yield f"{path}, row {row}", record
                row += 1
    except InputError:
        raise
    except (OSError, pa.ArrowException, ValueError, OverflowError) as error:
        # ValueError: text that is not UTF-8, times beyond year 9999
        problem = " ".join(str(error).split())  # several lines if a page is damaged
        raise InputError(f"{path}: not a readable Parquet file ({problem})") from error


def is_inside(column: str, name: str) -> bool:
    """Return whether a column, e.g. ``a.b``, is the column ``name`` or inside it."""
    return column == name or column.startswith(f"{name}.")


def _suffix(path: Path) -> str:
    return ".jsonl.gz" if path.name.lower().endswith(".jsonl.gz") else path.suffix.lower()


RECORD_READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[Record]]] = {
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": _read_parquet,
}
WHOLE_FILE: dict[str, Callable[[Path], str]] = {
    **dict.fromkeys((".txt", ".md"), _read_text),
    **{suffix: partial(convert, suffix=suffix) for suffix in CONVERTERS},
}
_AT_ONCE = {
    suffix: _TEXT_FILES_AT_ONCE if read is _read_text else _CONVERTED_FILES_AT_ONCE
    for suffix, read in WHOLE_FILE.items()
}
SUFFIXES = (*RECORD_READERS, *WHOLE_FILE)
SUPPORTED = ", ".join(SUFFIXES)
