"""The stage ``sample``: the documents of a generated benchmark, drawn from its source by length.

Long documents are cut into passages first where the config says so. A source of files is drawn file
by file: since a bin takes the documents of the smallest priorities, those of all files are among
those of each. What may be drawn of a file is written to the store under the hash of all that
decides it, joined at the end, and removed once the tables are written. So a run that was stopped
reads the files that are missing, several are read side by side, and in memory is what one file may
give for each process.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import polars as pl

from psibench.config.base import Section
from psibench.config.sources import DocumentSource, FilesSource, HubSource, RecordSource
from psibench.errors import InputError
from psibench.generate.sampling import (
    Candidates,
    Passages,
    Sample,
    cut_into_passages,
    draw,
    length_measure,
    prefixed,
    read_candidates,
)
from psibench.sources.bad_records import BadRecords
from psibench.sources.batches import batch_documents
from psibench.sources.documents import document_columns, document_rows, no_text, read_documents
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.records import (
    NumberedRecord,
    Portion,
    RecordFile,
    next_look,
    place_of,
    portion_records,
    record_files,
)
from psibench.tables import atomic_path, content_hash
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.dropped import dropped_frame
from psibench.tables.job import Job
from psibench.tables.schemas import ATTRITION, DOCUMENTS
from psibench.tables.stage import stage, version_of

logger = logging.getLogger("psibench")

COUNTS_KEY = "psibench.counts"
PART_FORMAT = 4
"""Raised when the layout of a part's file changes: older parts are not read then."""
WHICH_FILES = set(
    "name paths revision data_files splits streaming max_documents max_bad_share".split()
)
"""Keys of a source that choose files and how much is read; a file's documents stay the same."""


@stage("sample", version=6)
def run_sample(job: Job) -> None:
    """Draw the documents of each domain from its source; write them, the counts, and the left out.

    Left out are what the source itself leaves out, pieces too short to keep, and documents that
    repeat one drawn; not those that were not drawn. ``domains`` has a section for each, as of
    `sample_params`; its ``id_prefix`` comes before every id, also where ids decide the draw. Files
    are read by as many processes as there are ``threads``. Outputs: documents, sampling, dropped.
    """
    parts: list[Part] = []
    for domain in job.domains():
        drawing = Drawing.model_validate(domain.own)
        source = drawing.source
        if isinstance(source, FilesSource | HubSource):
            folder = Path(job.value("store", default="store")) / "samples"
            whose = f"{job.outputs['documents']}, domain {domain.name}"
            written = _write_parts(
                source, drawing, whose, folder=folder, processes=job.value("threads", default=1)
            )
            parts += written
            found, left_out = _joined(source, written)
        else:
            read = read_documents(source)
            found, pieces = drawing.candidates(read.batches)
            left_out = pl.concat([drawing.with_prefix(read.dropped), pieces])
        drawn = draw(found, where=f"sample of {domain.language}, {domain.name}")
        every = pl.concat([left_out, drawn.duplicates], how="diagonal").with_columns(
            language=pl.lit(domain.language), domain=pl.lit(domain.name)
        )
        origin: dict[str, Any] = {
            "params": {**domain.own, "length_tokenizer": drawing.length_tokenizer},
            "files": {path: content_hash(path) for path in local_files(source)},
            "revisions": dataset_revisions(source),
        }
        domain.write("documents", drawn.documents, DOCUMENTS, **origin)
        domain.write("sampling", drawn.sampling, SAMPLING, **origin)
        domain.write("dropped", every, ATTRITION, **origin)
    for part in parts:  # the tables are there; another draw has other parts
        part.path.unlink(missing_ok=True)
        part.pieces.unlink(missing_ok=True)


class Drawing(Section):
    """What is drawn from, and how: the parameters of a job (`sample_params`)."""

    source: DocumentSource
    passages: Passages | None
    sample: Sample
    length_tokenizer: str = "words"
    id_prefix: str = ""
    python: str | None = None
    """There to draw again under another interpreter."""

    def candidates(self, batches: Iterator[pl.DataFrame]) -> tuple[Candidates, pl.DataFrame]:
        """Return what may be drawn of DOCUMENTS rows, and the pieces left out when they are cut."""
        pieces = [dropped_frame()]

        def cut() -> Iterator[pl.DataFrame]:
            for batch in batches:
                kept = batch
                if self.passages is not None:
                    kept, short = cut_into_passages(batch, self.passages)
                    pieces.append(self.with_prefix(short))
                yield prefixed(kept, self.id_prefix, "_id")

        measure = length_measure(self.sample.unit, self.length_tokenizer)
        return read_candidates(cut(), self.sample, measure), pl.concat(pieces)

    def with_prefix(self, dropped: pl.DataFrame) -> pl.DataFrame:
        """Put the prefix before the ids of what was left out."""
        return prefixed(dropped, self.id_prefix, "item_id", "doc_id")


# --- File by file


@dataclass(frozen=True)
class Part:
    """What may be drawn of a portion of a file: who reads it, from what, and where it is written.

    ``path`` has the candidates and the counts, and is written last; the pieces left out are beside
    it.
    """

    source: RecordSource
    file: RecordFile
    portion: Portion
    drawing: Drawing
    path: Path

    @property
    def pieces(self) -> Path:
        """Path of the pieces left out when documents were cut."""
        return self.path.with_suffix(".pieces.parquet")


def _write_parts(
    source: RecordSource,
    drawing: Drawing,
    whose: str,
    *,
    folder: Path,
    processes: int,
) -> list[Part]:
    """Write what may be drawn of each file of a source where it is not there, in reading order.

    Two tables (``whose``) of one source have parts of their own: who is done removes them.

    Raises InputError if the source cannot be read.
    """
    files = record_files(source)
    keys = [_key(file, drawing, whose) for file in files]
    given: dict[Portion, int] = {}
    parts: list[Part] = []
    while look := next_look(source.max_documents, len(files), given):
        asked = []
        for portion in look:
            name = sha256(f"{keys[portion.file]}{portion[1:]}".encode()).hexdigest()
            path = folder / f"{name}.parquet"
            asked.append(Part(source, files[portion.file], portion, drawing, path))
        _write_missing(asked, processes)
        given |= {part.portion: _read_counts(part).n_read for part in asked}
        parts += asked
    return sorted(parts, key=lambda part: part.portion[:2])


def _key(file: RecordFile, drawing: Drawing, whose: str) -> str:
    """Return all that decides what may be drawn of a file, as text."""
    versions = [version_of("sample"), PART_FORMAT]
    decides = drawing.model_dump(mode="json", exclude={"python": True, "source": WHICH_FILES})
    return json.dumps([whose, versions, file.identity(), file.key, decides], sort_keys=True)


def _write_missing(parts: Sequence[Part], processes: int) -> None:
    """Write the parts that are not there, each as soon as its file is read."""
    missing = [part for part in parts if not part.path.is_file()]
    if len(missing) < len(parts):
        logger.info("%d of %d files were read before", len(parts) - len(missing), len(parts))
    if min(processes, len(missing)) < 2:
        for part in missing:
            write_part(part)
        return
    # Started anew, not forked: polars' threads do not survive a fork.
    with ProcessPoolExecutor(
        min(processes, len(missing)), mp_context=get_context("spawn"), initializer=_begin_reader
    ) as pool:
        for _ in pool.map(write_part, missing):
            pass


def _begin_reader() -> None:
    """Bind a process that reads files to one core, and to the life of the one that started it."""
    os.environ["RAYON_NUM_THREADS"] = "1"  # of tokenizers: the others count theirs
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def write_part(part: Part) -> None:
    """Read a portion of a file and write what may be drawn of it.

    Raises InputError if the file cannot be read.
    """
    n_read = 0

    def counted() -> Iterator[NumberedRecord]:
        nonlocal n_read
        for record in portion_records(part.file, part.portion, document_columns(part.source)):
            n_read += 1
            yield record

    bad = BadRecords(part.source.max_bad_share)
    batches = batch_documents(document_rows(part.source, counted(), bad))
    found, pieces = part.drawing.candidates(batches)
    if part.drawing.passages is not None:
        with atomic_path(part.pieces) as path:
            pieces.write_parquet(path)
    counts = PartCounts(n_read, found.n_seen, found.shortest, found.longest, bad.found)
    with atomic_path(part.path) as path:
        found.rows.write_parquet(path, metadata={COUNTS_KEY: json.dumps(counts)})


class PartCounts(NamedTuple):
    """How many records were read, of `Candidates` the counts, and the bad ones of `BadRecords`."""

    n_read: int
    n_seen: list[int]
    shortest: int | None
    longest: int | None
    bad: dict[str, str]


def _read_counts(part: Part) -> PartCounts:
    return PartCounts(*json.loads(pl.read_parquet_metadata(part.path)[COUNTS_KEY]))


def _joined(source: RecordSource, parts: Sequence[Part]) -> tuple[Candidates, pl.DataFrame]:
    """Return what may be drawn of a source, and the pieces left out, from its parts in order.

    Raises InputError if the source holds no text, or too many files cannot be read.
    """
    found = Candidates(parts[0].drawing.sample)
    pieces, bad = [dropped_frame()], BadRecords(source.max_bad_share)
    for part in parts:
        counts = _read_counts(part)
        bad.found |= counts.bad
        bad.n_good += counts.n_read - len(counts.bad)
        found.add(pl.read_parquet(part.path), counts.n_seen, counts.shortest, counts.longest)
        if part.drawing.passages is not None:
            pieces.append(pl.read_parquet(part.pieces))
    bad.refuse_many(where=place_of(source), unit="documents")
    unreadable = dropped_frame(bad.dropped("files", "documents"))
    left_out = pl.concat([*pieces, parts[0].drawing.with_prefix(unreadable)])
    if not sum(found.n_seen) and left_out.is_empty():
        raise InputError(no_text(source))
    return found, left_out
