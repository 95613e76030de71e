"""Records of a source, file by file: what the files of a hub dataset and local ones have in common.

A source is a list of files that are read apart from each other, in any order and several at once:
which records of a file are read depends on the file and the limit's share. A limit is met in looks:
in the first each file is asked for an even share; what short files lack is shared out in the next
among those that gave all they were asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from psibench.config.sources import FilesSource, RecordSource
from psibench.errors import InputError
from psibench.sources.files import READERS, LocalFile, TextFiles, local_record_files
from psibench.sources.hub import HubFile, hub_record_files

NumberedRecord = tuple[str, dict[str, Any], str]
"""Origin, record, and its id by file and number."""


RecordFile = LocalFile | TextFiles | HubFile
"""A file of a source; it can be sent to another process."""


class Portion(NamedTuple):
    """Records of a file from ``start`` up to ``stop``; None: to the end.

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


def next_portions(limit: int | None, n_files: int, given: Mapping[Portion, int]) -> list[Portion]:
    """Return the portions to be read next; none when the limit is met, or all files are read.

    Of files that get one record more than others where a share is no whole number, one is as far
    from the next as can be: the first files are not preferred.

    Parameters
    ----------
    given
        How many records each portion gave so far, in the order in which they were read.
    """
    if limit is None:
        return [] if given else [Portion(number, 0, None) for number in range(n_files)]
    read, is_short = [0] * n_files, [False] * n_files
    for (number, start, stop), n in given.items():
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
    """Yield the records of a portion; raises InputError if the file cannot be read."""
    records = islice(enumerate(file.records(columns)), portion.start, portion.stop)
    for number, (origin, record) in records:
        yield origin, record, f"{file.key}:{number}"


def numbered_records(source: RecordSource, columns: Sequence[str]) -> Iterator[NumberedRecord]:
    """Yield ``(origin, record, id by file and number)`` of what is read of a source, in order.

    Raises InputError if the source cannot be read.
    """
    files = record_files(source)
    given: dict[Portion, int] = {}
    while look := next_portions(source.max_documents, len(files), given):
        for portion in look:
            given[portion] = 0
            for record in portion_records(files[portion.file], portion, columns):
                given[portion] += 1
                yield record


def source_records(
    source: RecordSource, columns: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``(origin, record)`` of what is read of a source, in order.

    Raises InputError if the source cannot be read, or is text without columns.

    Parameters
    ----------
    columns
        What is read of Parquet files.
    """
    for file in record_files(source) if isinstance(source, FilesSource) else ():
        if file.is_whole:
            raise InputError(f"{file}: text without columns; expected {', '.join(READERS)}")
    for origin, record, _ in numbered_records(source, columns):
        yield origin, record


def place_of(source: RecordSource) -> str:
    """Name a source in messages."""
    return ", ".join(source.paths) if isinstance(source, FilesSource) else source.name
