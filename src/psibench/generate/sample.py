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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from psibench.config.sources import DocumentSource, FilesSource, HubSource
from psibench.errors import InputError
from psibench.generate.sampling import (
    PART_ROWS,
    Candidates,
    Held,
    Passages,
    Sample,
    cut_into_passages,
    draw,
    length_measure,
    prefixed,
    priority,
    read_candidates,
    sample_params,
)
from psibench.sources.batches import TextCounts, batch_rows
from psibench.sources.documents import (
    document_columns,
    document_rows,
    no_text,
    note_unread,
    read_documents,
)
from psibench.sources.local import dataset_revisions, local_files
from psibench.sources.records import (
    Portion,
    RecordFile,
    next_look,
    place_of,
    portion_records,
    record_files,
)
from psibench.sources.where import Chosen
from psibench.tables import atomic_path, content_hash, write_table
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.derived import provenance
from psibench.tables.domains import OutputPath
from psibench.tables.dropped import dropped_frame
from psibench.tables.io import write_table_parts
from psibench.tables.schemas import ATTRITION, DOCUMENTS
from psibench.tables.stage import stage, version_of

logger = logging.getLogger("psibench")

PART_SCHEMA = pa.schema(
    {"place": pa.int64(), "bin": pa.int32(), "length": pa.int32()}
    | {"_id": pa.string(), "packed": pa.binary(), "origin": pa.string()}
)
COUNTS_KEY = b"psibench.counts"


@stage("sample", version=4, each="sections")
def run_sample(
    section: Mapping[str, Any],
    *,
    language: str,
    domain: str,
    documents: OutputPath,
    sampling: OutputPath,
    dropped: OutputPath,
    store: str = "store",
    threads: int = 1,
) -> Callable[[], None]:
    """Draw a corpus' documents from its source and write them, the counts, and what was left out.

    Left out are what the source itself leaves out, pieces too short to keep, and documents that
    repeat one drawn; not those that were not drawn. ``section`` is as of `sample_params`; its
    ``id_prefix`` comes before every id, also where ids decide the draw. Files are read by as many
    processes as there are ``threads``.

    Returns
    -------
    What removes the parts of the files, for when the tables are there.
    """
    source: DocumentSource = TypeAdapter(DocumentSource).validate_python(section["source"])
    drawing = Drawing(
        Passages.model_validate(section["passages"]) if section["passages"] else None,
        Sample.model_validate(section["sample"]),
        section.get("length_tokenizer", "words"),
        section.get("id_prefix", ""),
    )
    parts: list[Part] = []
    if isinstance(source, FilesSource | HubSource):
        folder = Path(store) / "samples"
        parts = _write_parts(source, drawing, str(documents), folder=folder, processes=threads)
        found, left_out = _joined(source, parts, drawing.sample)
    else:
        read = read_documents(source)
        found, pieces = drawing.candidates(read.batches)
        left_out = pl.concat([prefixed(read.dropped, drawing.prefix, "item_id", "doc_id"), pieces])
    drawn = draw(found, drawing.sample)
    tokenizer = drawing.length_tokenizer
    origin = provenance(
        "sample",
        params=sample_params(
            source,
            drawing.passages,
            drawing.sample,
            length_tokenizer=tokenizer,
            id_prefix=drawing.prefix,
        )
        | {"length_tokenizer": tokenizer},
        inputs={path: content_hash(path) for path in local_files(source)},
        revisions=dataset_revisions(source),
    )
    write_table_parts(drawn.parts, documents, DOCUMENTS, provenance=origin)
    write_table(drawn.sampling, sampling, SAMPLING, provenance=origin)
    every = pl.concat([left_out, drawn.duplicates], how="diagonal").with_columns(
        language=pl.lit(language), domain=pl.lit(domain)
    )
    write_table(every, dropped, ATTRITION, provenance=origin)

    def remove_parts() -> None:
        for part in parts:  # another draw has other parts
            part.path.unlink(missing_ok=True)
            part.pieces.unlink(missing_ok=True)

    return remove_parts


@dataclass(frozen=True)
class Drawing:
    """What is done with the documents of a source, whatever file they are from."""

    passages: Passages | None
    sample: Sample
    length_tokenizer: str
    prefix: str

    def candidates(self, batches: Iterator[pl.DataFrame]) -> tuple[Candidates, pl.DataFrame]:
        """Return what may be drawn of DOCUMENTS rows, and the pieces left out when they are cut."""
        pieces = [dropped_frame()]

        def cut() -> Iterator[pl.DataFrame]:
            for batch in batches:
                kept = batch
                if self.passages is not None:
                    kept, short = cut_into_passages(batch, self.passages)
                    pieces.append(prefixed(short, self.prefix, "item_id", "doc_id"))
                yield prefixed(kept, self.prefix, "_id")

        measure = length_measure(self.sample.unit, self.length_tokenizer)
        return read_candidates(cut(), self.sample, measure), pl.concat(pieces)


# --- File by file


@dataclass(frozen=True)
class Part:
    """What may be drawn of a portion of a file: who reads it, from what, and where it is written.

    ``path`` has the candidates and the counts, and is written last; the pieces left out are beside
    it.
    """

    source: FilesSource | HubSource
    file: RecordFile
    portion: Portion
    drawing: Drawing
    path: Path

    @property
    def pieces(self) -> Path:
        """Path of the pieces left out when documents were cut."""
        return self.path.with_suffix(".pieces.parquet")


class Counts(NamedTuple):
    """What is counted of a part."""

    chosen: Chosen
    texts: TextCounts
    n_documents: int
    shortest: int
    longest: int
    n_seen: list[int]


def _write_parts(
    source: FilesSource | HubSource,
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
    note_unread(source)
    files = record_files(source)
    keys = [_key(source, file, drawing, whose) for file in files]
    given: dict[Portion, int] = {}
    parts: list[Part] = []
    while look := next_look(source.max_documents, len(files), given):
        asked = [
            Part(
                source,
                files[portion.file],
                portion,
                drawing,
                folder
                / f"{sha256(f'{keys[portion.file]}{portion[1:]}'.encode()).hexdigest()}.parquet",
            )
            for portion in look
        ]
        _write_missing(asked, processes)
        given |= {part.portion: _read_counts(part.path).chosen.n_kept for part in asked}
        parts += asked
    return sorted(parts, key=lambda part: part.portion[:2])


def _key(source: FilesSource | HubSource, file: RecordFile, drawing: Drawing, whose: str) -> str:
    """Return all that decides what may be drawn of a file, as text."""
    section = source.model_dump(
        mode="json", include={"kind", "config", "text_column", "id_column", "where"}
    )
    decides = {
        "whose": whose,
        "version": version_of("sample"),
        "file": [file.identity(), file.key],
        "source": section,
        "passages": drawing.passages and drawing.passages.model_dump(mode="json"),
        "sample": drawing.sample.model_dump(mode="json"),
        "length_tokenizer": drawing.length_tokenizer,
        "prefix": drawing.prefix,
    }
    return json.dumps(decides, sort_keys=True)


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

    Raises InputError if the file cannot be read, or an id occurs twice in it.
    """
    chosen, texts, source = Chosen(), TextCounts(), part.source

    def rows() -> Iterator[tuple[str, str, str]]:
        columns = document_columns(source)
        records = portion_records(source, part.file, part.portion, columns, chosen=chosen)
        return document_rows(source, records)

    batches = batch_rows(rows, place=place_of(source), texts=texts)
    found, pieces = part.drawing.candidates(batches)
    n_seen = [own.n_seen for own in found.bins]
    counts = Counts(chosen, texts, found.n_documents, found.shortest or 0, found.longest, n_seen)
    told = json.dumps(counts._asdict() | {"chosen": asdict(chosen), "texts": asdict(texts)})
    if part.drawing.passages is not None:
        with atomic_path(part.pieces) as path:
            pieces.write_parquet(path)
    held = sorted(
        ((entry, number) for number, own in enumerate(found.bins) for entry in own.held),
        key=lambda pair: pair[0].place,
    )
    schema = PART_SCHEMA.with_metadata({COUNTS_KEY: told.encode()})
    with atomic_path(part.path) as path, pq.ParquetWriter(path, schema) as file:
        for start in range(0, len(held), PART_ROWS):
            block = [
                (entry.place, number, entry.length, entry.doc_id, entry.packed, entry.origin)
                for entry, number in held[start : start + PART_ROWS]
            ]
            columns = zip(*block, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            file.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _read_counts(path: Path) -> Counts:
    told = json.loads(pq.read_schema(path).metadata[COUNTS_KEY])
    return Counts(
        **told | {"chosen": Chosen(**told["chosen"]), "texts": TextCounts(**told["texts"])}
    )


def _joined(
    source: FilesSource | HubSource, parts: Sequence[Part], sample: Sample
) -> tuple[Candidates, pl.DataFrame]:
    """Return what may be drawn of a source, and the pieces left out, from its parts in order.

    Raises InputError if ``where`` leaves nothing, the source holds no text, or two documents that
    may be drawn have one id.
    """
    found, chosen, texts = Candidates.none(sample), Chosen(), TextCounts()
    pieces = [dropped_frame()]
    for part in parts:
        counts = _read_counts(part.path)
        chosen.add(counts.chosen)
        texts.add(counts.texts)
        for own, n in zip(found.bins, counts.n_seen, strict=True):
            own.n_seen += n
        for batch in pq.ParquetFile(part.path).iter_batches(batch_size=PART_ROWS):
            for place, number, length, doc_id, packed, origin in zip(
                *batch.to_pydict().values(), strict=True
            ):
                own, order = found.bins[number], -priority(sample.seed, doc_id)
                entry = Held(order, found.n_documents + place, doc_id, packed, origin, length)
                if own.has_room(order, entry.place):
                    own.hold(entry)
        found.n_documents += counts.n_documents
        if counts.n_documents:
            found.extend_range(counts.shortest, counts.longest)
        if part.drawing.passages is not None:
            pieces.append(pl.read_parquet(part.pieces))
    chosen.tell(place_of(source))
    if not texts.n:
        raise InputError(no_text(source))
    texts.tell(place_of(source))
    _refuse_repeated(found, place_of(source))
    return found, pl.concat(pieces)


def _refuse_repeated(found: Candidates, place: str) -> None:
    """Raise InputError if two documents that may be drawn, of whatever files, have one id."""
    origins: dict[str, str] = {}
    for own in found.bins:
        for entry in own.held:
            if (other := origins.setdefault(entry.doc_id, entry.origin)) != entry.origin:
                raise InputError(
                    f"{place}: id {entry.doc_id!r} occurs 2 times ({other}; {entry.origin}) or "
                    "more. Ids must be unique."
                )
