"""Records of a source, file by file, for files on the hub and local files.

Files can be read separately, in any order and several at once: the records to read depend only on
the file and its share of the limit. With a limit on the number of documents, reading takes several
rounds. In the first round each file gets an equal share. The next round divides the shortfall of
short files among the files that gave all of their share.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from psibench.config.sources import FilesSource, RecordSource
from psibench.errors import InputError
from psibench.sources.files import RECORD_READERS, LocalFile, TextFiles, local_record_files
from psibench.sources.hub import HubFile, hub_record_files

NumberedRecord = tuple[str, dict[str, Any], str]
"""Origin, record, and an id made of file and record number."""


RecordFile = LocalFile | TextFiles | HubFile
"""A file of a source; other processes can receive it."""


class Portion(NamedTuple):
    """Records of a file from ``start`` up to ``stop``, or to its end if ``stop`` is None.

    ``file`` is the number of the file in its source.
    """

    file: int
    start: int
    stop: int | None


def record_files(source: RecordSource) -> Sequence[RecordFile]:
    """List the files of a source in reading order.

    Raises InputError if the source cannot be found.
    """
    if isinstance(source, FilesSource):
        return local_record_files(source.paths)
    return hub_record_files(source)


def next_portions(limit: int | None, n_files: int, n_read: Mapping[Portion, int]) -> list[Portion]:
    """Return the portions of the next round; empty if the limit is met or all files are read.

    If the limit is not divisible by the number of files, some files get one more record. These are
    spread evenly, so that the first files are not preferred.

    Parameters
    ----------
    n_read
        Number of records that each portion gave so far, in reading order.
    """
    if limit is None:
        return [] if n_read else [Portion(number, 0, None) for number in range(n_files)]
    read, is_short = [0] * n_files, [False] * n_files
    for (number, start, stop), n in n_read.items():
        read[number] += n
        is_short[number] |= stop is not None and n < stop - start
    files = [number for number in range(n_files) if not is_short[number]]
    left = limit - sum(read)
    bounds = pairwise(-(-left * i // max(len(files), 1)) for i in range(len(files) + 1))
    shares = [high - low for low, high in bounds]
    return [
        Portion(number, read[number], read[number] + share)
        for number, share in zip(files, shares, strict=True)
        if share
    ]


def portion_records(
    file: RecordFile, portion: Portion, columns: Sequence[str]
) -> Iterator[NumberedRecord]:
    """Yield the records of a portion; raise InputError if the file cannot be read."""
    records = islice(enumerate(file.records(columns)), portion.start, portion.stop)
    for number, (origin, record) in records:
        yield origin, record, f"{file.key}:{number}"


def numbered_records(source: RecordSource, columns: Sequence[str]) -> Iterator[NumberedRecord]:
    """Yield ``(origin, record, id of file and number)`` of a source up to its limit, in order.

    Raises InputError if the source cannot be read.
    """
    files = record_files(source)
    n_read: dict[Portion, int] = {}
    while portions := next_portions(source.max_documents, len(files), n_read):
        for portion in portions:
            n_read[portion] = 0
            for record in portion_records(files[portion.file], portion, columns):
                n_read[portion] += 1
                yield record


def source_records(
    source: RecordSource, columns: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``(origin, record)`` of a source up to its limit, in order.

    Raises InputError if the source cannot be read, or has files without columns.

    Parameters
    ----------
    columns
        Columns to read from Parquet files.
    """
    for file in record_files(source) if isinstance(source, FilesSource) else ():
        if file.is_whole:
            raise InputError(
                f"{file}: a text file without columns; expected {', '.join(RECORD_READERS)}"
            )
    for origin, record, _ in numbered_records(source, columns):
        yield origin, record


def source_name(source: RecordSource) -> str:
    """Return the name of a source for messages."""
    return ", ".join(source.paths) if isinstance(source, FilesSource) else source.name
