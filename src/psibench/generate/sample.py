"""Stage ``sample``: draws the documents of a generated benchmark from its source by length.

If the config asks for it, long documents are first cut into passages. Files are drawn one by one: a
bin takes the documents of smallest priority, so the draw of a whole source is contained in the
draws of its files. The candidates of each file are written to the store under a hash of everything
that decides them, joined at the end, and removed once the tables are written. A restarted job
therefore reads only the missing files, several processes can read at once, and each process holds
only one file's candidates in memory.
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
    next_portions,
    portion_records,
    record_files,
    source_name,
)
from psibench.tables import atomic_path, content_hash
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.dropped import dropped_frame
from psibench.tables.job import Job
from psibench.tables.schemas import ATTRITION, DOCUMENTS
from psibench.tables.stage import stage, version_of

logger = logging.getLogger("psibench")

_COUNTS_KEY = "psibench.counts"
_PART_FORMAT = 4
"""Version of the layout of a part's file; a new one makes older files unused."""
_FILE_CHOICE_KEYS = set(
    "name paths revision data_files splits streaming max_documents max_bad_share".split()
)
"""Keys of a source that choose files and how many documents are read, but change no document."""


@stage("sample", version=6)
def run_sample(job: Job) -> None:
    """Draw the documents of each domain; write them, the counts by bin, and what was left out.

    ``dropped`` has records that the source leaves out, pieces too short to keep, and documents that
    repeat a drawn one, but not the documents that were not drawn. ``domains`` has for each domain
    the parameters of `sample_params`; every id begins with its ``id_prefix``, also where ids decide
    the draw. ``threads`` processes read the files. Outputs: documents, sampling, dropped.
    """
    parts: list[SamplePart] = []
    for domain in job.domains():
        drawing = Drawing.model_validate(domain.own)
        source = drawing.source
        if isinstance(source, FilesSource | HubSource):
            folder = Path(job.value("store", default="store")) / "samples"
            owner = f"{job.outputs['documents']}, domain {domain.name}"
            written = _write_parts(
                source, drawing, owner, folder=folder, processes=job.value("threads", default=1)
            )
            parts += written
            candidates, left_out = _joined(source, written)
        else:
            read = read_documents(source)
            candidates, pieces = drawing.candidates(read.batches)
            left_out = pl.concat([drawing.with_prefix(read.dropped), pieces])
        drawn = draw(candidates, where=f"sample of {domain.language}, {domain.name}")
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
    for part in parts:  # all tables are written
        part.path.unlink(missing_ok=True)
        part.pieces.unlink(missing_ok=True)


class Drawing(Section):
    """Parameters of a domain's draw (`sample_params`)."""

    source: DocumentSource
    passages: Passages | None
    sample: Sample
    length_tokenizer: str = "words"
    id_prefix: str = ""
    python: str | None = None
    """Python version; a parameter only so that another interpreter reruns the draw."""

    def candidates(self, batches: Iterator[pl.DataFrame]) -> tuple[Candidates, pl.DataFrame]:
        """Return the candidates of DOCUMENTS rows, and the pieces left out when they are cut."""
        pieces = [dropped_frame()]

        def cut() -> Iterator[pl.DataFrame]:
            for batch in batches:
                documents = batch
                if self.passages is not None:
                    documents, short = cut_into_passages(batch, self.passages)
                    pieces.append(self.with_prefix(short))
                yield prefixed(documents, self.id_prefix, "_id")

        measure = length_measure(self.sample.unit, self.length_tokenizer)
        return read_candidates(cut(), self.sample, measure), pl.concat(pieces)

    def with_prefix(self, dropped: pl.DataFrame) -> pl.DataFrame:
        """Put the prefix before the ids of dropped rows."""
        return prefixed(dropped, self.id_prefix, "item_id", "doc_id")


# --- File by file


@dataclass(frozen=True)
class SamplePart:
    """The candidates of a portion of a file: how to read them, and where they are written.

    ``path`` has the candidates and the counts, and is written last; ``pieces`` is in the same
    folder.
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
    owner: str,
    *,
    folder: Path,
    processes: int,
) -> list[SamplePart]:
    """Write the candidates of each file of a source unless they exist; return the parts in order.

    Each ``owner`` (a table and domain) has separate parts, so that it can remove them when done.

    Raises InputError if the source cannot be read.
    """
    files = record_files(source)
    keys = [_key(file, drawing, owner) for file in files]
    n_read: dict[Portion, int] = {}
    parts: list[SamplePart] = []
    while portions := next_portions(source.max_documents, len(files), n_read):
        wanted = []
        for portion in portions:
            name = sha256(f"{keys[portion.file]}{portion[1:]}".encode()).hexdigest()
            path = folder / f"{name}.parquet"
            wanted.append(SamplePart(source, files[portion.file], portion, drawing, path))
        _write_missing(wanted, processes)
        n_read |= {part.portion: _read_counts(part).n_read for part in wanted}
        parts += wanted
    return sorted(parts, key=lambda part: part.portion[:2])


def _key(file: RecordFile, drawing: Drawing, owner: str) -> str:
    """Return everything that decides the candidates of a file, as text."""
    versions = [version_of("sample"), _PART_FORMAT]
    decides = drawing.model_dump(mode="json", exclude={"python": True, "source": _FILE_CHOICE_KEYS})
    return json.dumps([owner, versions, file.identity(), file.key, decides], sort_keys=True)


def _write_missing(parts: Sequence[SamplePart], processes: int) -> None:
    missing = [part for part in parts if not part.path.is_file()]
    if len(missing) < len(parts):
        logger.info("reusing %d of %d files read before", len(parts) - len(missing), len(parts))
    if min(processes, len(missing)) < 2:
        for part in missing:
            write_sample_part(part)
        return
    # spawn, not fork: polars' threads do not survive a fork
    with ProcessPoolExecutor(
        min(processes, len(missing)), mp_context=get_context("spawn"), initializer=_begin_reader
    ) as pool:
        for _ in pool.map(write_sample_part, missing):
            pass


def _begin_reader() -> None:
    """Limit a reading process to one thread, and end it when its parent ends."""
    os.environ["RAYON_NUM_THREADS"] = "1"  # for tokenizers; polars has another setting
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def write_sample_part(part: SamplePart) -> None:
    """Read a portion of a file and write its candidates.

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
    candidates, pieces = part.drawing.candidates(batches)
    if part.drawing.passages is not None:
        with atomic_path(part.pieces) as path:
            pieces.write_parquet(path)
    counts = PartCounts(
        n_read, candidates.n_seen, candidates.shortest, candidates.longest, bad.messages
    )
    with atomic_path(part.path) as path:
        candidates.rows.write_parquet(path, metadata={_COUNTS_KEY: json.dumps(counts)})


class PartCounts(NamedTuple):
    """Counts of a part: records read, counts of `Candidates`, and bad records (id -> message)."""

    n_read: int
    n_seen: list[int]
    shortest: int | None
    longest: int | None
    bad: dict[str, str]


def _read_counts(part: SamplePart) -> PartCounts:
    return PartCounts(*json.loads(pl.read_parquet_metadata(part.path)[_COUNTS_KEY]))


def _joined(source: RecordSource, parts: Sequence[SamplePart]) -> tuple[Candidates, pl.DataFrame]:
    """Return the candidates of a source, and the pieces left out, from its parts in order.

    Raises InputError if the source has no text, or too many files cannot be read.
    """
    candidates = Candidates(parts[0].drawing.sample)
    pieces, bad = [dropped_frame()], BadRecords(source.max_bad_share)
    for part in parts:
        counts = _read_counts(part)
        bad.messages |= counts.bad
        bad.n_good += counts.n_read - len(counts.bad)
        candidates.add(pl.read_parquet(part.path), counts.n_seen, counts.shortest, counts.longest)
        if part.drawing.passages is not None:
            pieces.append(pl.read_parquet(part.pieces))
    bad.refuse_many(where=source_name(source), unit="documents")
    unreadable = dropped_frame(bad.dropped("files", "documents"))
    left_out = pl.concat([*pieces, parts[0].drawing.with_prefix(unreadable)])
    if not sum(candidates.n_seen) and left_out.is_empty():
        raise InputError(no_text(source))
    return candidates, left_out
