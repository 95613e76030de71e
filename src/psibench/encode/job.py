"""Stage ``encode``: the vectors of a language's texts.

A job encodes the texts of a benchmark in one language that a model's store lacks. It writes the
address of each text's vectors and how much of the text the model read. Texts are read in blocks,
because all texts of a language may not fit in memory. Several jobs can share the texts of a
language: each takes the texts whose address is in its slice, and writes their rows.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import EncoderEntry, EncoderModel
from psibench.config.sections import Encoding
from psibench.encode.batches import TextEncoding
from psibench.encode.store import EmbeddingStore, open_store, store_fingerprint, text_key
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import fast_dtype, pick_device
from psibench.models.load import load_encoder
from psibench.models.protocols import Encoder, Role, TokenizedText
from psibench.prefetch import prefetched
from psibench.progress import Progress
from psibench.stopping import watched_stop
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES
from psibench.tables.slices import Slice
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage
from psibench.text.lengths import in_blocks

logger = logging.getLogger("psibench")

ENCODED = ENCODINGS.empty().select("key", "n_tokens", "visible_char_end").schema
"""Result of encoding a text: the address of its vectors, and how much the model read."""
_TEXT_INPUTS: tuple[tuple[Role, str, TableSpec], ...] = (
    ("document", "corpora", CORPUS),
    ("query", "queries", QUERIES),
)
"""Role, input and table of the texts to encode."""
BLOCK_CHARS = 4_000_000
"""Characters of a block: about 30 MB with their tokens; three blocks are in memory."""


# --- The texts of a job ---


@dataclass(frozen=True)
class Source:
    """The texts of one role in one domain, and the input that has them."""

    role: Role
    domain: DomainJob
    table: str
    spec: TableSpec

    def ids(self) -> pl.Series:
        """Return the ids; raises InputError if the table does not fit its schema."""
        return self.domain.columns(self.table, self.spec, ("_id",)).get_column("_id")

    def labelled(self, encoded: pl.DataFrame) -> pl.DataFrame:
        """Return ENCODINGS rows from the ``ENCODED`` columns of all texts, in order."""
        role, domain = pl.lit(self.role).alias("role"), pl.lit(self.domain.name).alias("domain")
        return encoded.select(role, domain, self.ids(), *ENCODED)

    def texts(self) -> Iterator[str]:
        """Yield the texts in order, reading a few at a time."""
        for batch in self.domain.batches(self.table, ("text",)):
            yield from batch.column("text").to_pylist()


def list_sources(job: Job) -> list[Source]:
    """List the job's sources in the order of the encodings table.

    Raises InputError if a table does not fit its schema, before a model is loaded or paid for.
    """
    sources = [
        Source(role, domain, table, spec)
        for domain in job.domains()
        for role, table, spec in _TEXT_INPUTS
    ]
    for source in sources:
        source.ids()
    return sources


TextBlock = tuple[list[bytes], list[TokenizedText], int]
"""Distinct texts of one source: addresses and tokens; number of characters read so far."""


def read_blocks(encoder: Encoder, sources: Sequence[Source], shard: Slice) -> Iterator[TextBlock]:
    """Read and tokenize each distinct text of a shard once.

    A block has at most ``BLOCK_CHARS`` characters, or one text.
    """
    seen: set[bytes] = set()
    n_chars = 0
    for source in sources:
        new = _new_texts(source, encoder.salt(source.role), shard, seen, n_chars)
        for block in in_blocks(new, lambda keyed: len(keyed[1]), BLOCK_CHARS):
            keys, texts, chars_read = map(list, zip(*block, strict=True))
            n_chars = chars_read[-1]
            yield keys, encoder.tokenize(texts, source.role), n_chars


def _new_texts(
    source: Source, salt: str, shard: Slice, seen: set[bytes], n_chars: int
) -> Iterator[tuple[bytes, str, int]]:
    """Yield address, text and characters read so far for a shard's texts that are not ``seen``.

    ``n_chars`` characters were read from earlier sources.
    """
    for text in source.texts():
        n_chars += len(text)
        key = text_key(text, salt=salt)
        if key not in seen and shard.has(key):
            seen.add(key)
            yield key, text, n_chars


def count_chars(sources: Sequence[Source]) -> int:
    """Return the number of characters of all texts; the documents' table has theirs."""
    total = 0
    for source in sources:
        if source.role == "document":
            lengths = source.domain.columns(source.table, source.spec, ("char_length",))
            total += int(lengths.get_column("char_length").sum())
        else:
            total += sum(map(len, source.texts()))
    return total


# --- The job ---


@stage("encode", version=3, offline=True)
def run_encode(job: Job) -> None:
    """Encode all domains of a language into the store and write an ENCODINGS table.

    Inputs: ``corpora`` and ``queries``. A job with a ``portion``, e.g. ``/2-of-7``, encodes and
    lists the texts whose address is in this slice.

    Raises
    ------
    InputError
        If a table or the checkpoint cannot be read, or a text does not fit into the memory.
    Stopped
        If the job has to end early; finished texts are stored.
    """
    model, shard = job.value("model"), Slice.parse(job.value("portion", default=""))
    entry, settings = job.value("entry", EncoderEntry), job.settings(Encoding)
    sources = list_sources(job)
    encoder, vectors, record = open_for_job(job, entry, settings)
    encoded = encode_sources(
        encoder, vectors, sources, settings, shard=shard, title=f"encoding {model}"
    )
    rows = pl.concat(
        rows_of(source, encoded, encoder.salt(source.role), shard) for source in sources
    )
    job.write("encodings", rows, ENCODINGS, **record)


def encode_sources(
    encoder: Encoder,
    vectors: EmbeddingStore,
    sources: Sequence[Source],
    settings: Encoding,
    *,
    shard: Slice,
    title: str,
) -> pl.DataFrame:
    """Encode the texts of a shard that the store lacks, block by block.

    Returns the ``ENCODED`` columns of the texts of the shard, a row for each distinct text.
    """
    n_chars, read_chars = max(1, count_chars(sources)), 0
    frames = [pl.DataFrame(schema=ENCODED)]
    with watched_stop() as stop, Progress(title, total=0, unit="tokens") as progress:
        encoding = TextEncoding(
            encoder,
            vectors,
            settings,
            stop=stop,
            # Assumes that the remaining texts have as many tokens per character.
            expect=lambda n_tokens: progress.expect(n_tokens, share=read_chars / n_chars),
            advance=progress.advance,
        )
        try:
            for keys, items, chars_so_far in prefetched(read_blocks(encoder, sources, shard)):
                read_chars = chars_so_far
                rows = [
                    (key, item.n_tokens, item.visible_char_end)
                    for key, item in zip(keys, items, strict=True)
                ]
                frames.append(pl.DataFrame(rows, schema=ENCODED, orient="row"))
                encoding.add(keys, items)
            encoding.finish()
            progress.expect(0)
        finally:
            encoding.stats.log()
    return pl.concat(frames)


def open_encoder(
    entry: EncoderModel, settings: Encoding, *, needs_torch: bool = False
) -> tuple[Encoder, str]:
    """Load an encoder on the device in the settings; ``needs_torch`` as in `load_encoder`.

    Also returns its number format, from the entry, else from the settings.
    """
    device = pick_device(settings.device)
    dtype = getattr(entry, "dtype", None) or settings.dtype
    if dtype == "auto":
        dtype = fast_dtype(device)
    encoder = load_encoder(entry, device=device, dtype=dtype, needs_torch=needs_torch)
    # Some encoders have only one number format.
    used = str(getattr(encoder, "dtype", "float32"))
    logger.info("device %s, dtype %s", device, used)
    return encoder, used


def open_for_job(
    job: Job, entry: EncoderModel, settings: Encoding
) -> tuple[Encoder, EmbeddingStore, dict[str, Any]]:
    """Load a job's encoder and open its store.

    Also returns ``params`` and ``revisions`` for the provenance of its encodings table.
    """
    model = job.value("model", str)
    encoder, dtype = open_encoder(entry, settings)
    fingerprint, storage = encoder.fingerprint, settings.storage
    vectors = open_store(model, store=job.value("store"), fingerprint=fingerprint, storage=storage)
    stored = {"dtype": dtype, "fingerprint": store_fingerprint(fingerprint, storage)}
    params = retrieval_params(entry) | stored
    return encoder, vectors, {"params": params, "revisions": revisions_of(model, entry)}


def revisions_of(model: str, entry: EncoderModel) -> dict[str, str]:
    """Return the identity of a model's checkpoint, for the provenance."""
    return {f"model:{model}": checkpoint_identity(entry.checkpoint, entry.revision)}


def rows_of(source: Source, encoded: pl.DataFrame, salt: str, shard: Slice) -> pl.DataFrame:
    """Return ENCODINGS rows of a source's texts that are in a shard, in the source's order.

    Raises
    ------
    InputError
        If a text was not encoded because its table changed while the job was running.
    """
    keys = [text_key(text, salt=salt) for text in source.texts()]
    addressed = pl.DataFrame(
        [source.ids(), pl.Series("key", keys, pl.Binary)],
    ).filter(pl.Series([shard.has(key) for key in keys], dtype=pl.Boolean))
    rows = addressed.join(encoded, on="key", how="left", maintain_order="left")
    if n_missing := rows.get_column("n_tokens").null_count():
        raise InputError(
            f"{source.domain}, {source.table}: {n_missing} of {rows.height} texts are not encoded, "
            "because the table changed while the job was running. Run again."
        )
    role, domain = pl.lit(source.role).alias("role"), pl.lit(source.domain.name).alias("domain")
    return rows.select(role, domain, "_id", *ENCODED)
