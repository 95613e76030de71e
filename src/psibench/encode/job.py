"""Stages ``encode``, ``list_texts`` and ``join_shards``: the vectors of a language's texts.

A job encodes what the store lacks of the texts of a benchmark in one language, by one model, and
writes where each text's vectors are and what the model saw of it. Texts come in blocks: those of a
language do not fit into memory. Where there are many, several jobs share them by address, and
``join_shards`` writes the table that one job would have written.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
from psibench.progress import Progress
from psibench.stopping import watched_stop
from psibench.tables import read_provenance
from psibench.tables.atomic import write_text
from psibench.tables.hashing import hash_file
from psibench.tables.job import DomainJob, Job
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES, SHARD_ENCODINGS
from psibench.tables.slices import Slice
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage, version_of
from psibench.text.lengths import in_blocks

logger = logging.getLogger("psibench")

ENCODED = SHARD_ENCODINGS.empty().schema
TEXTS: tuple[tuple[Role, str, TableSpec], ...] = (
    ("document", "corpora", CORPUS),
    ("query", "queries", QUERIES),
)
"""What is encoded: role, input, its tables."""
BLOCK_CHARS = 4_000_000
"""Characters of a block: about 30 MB with their tokens, three of which are in memory."""


# --- The texts of a job ---


@dataclass(frozen=True)
class Source:
    """The texts of one role in one domain, and the input that has them."""

    role: Role
    domain: DomainJob
    table: str
    spec: TableSpec

    def ids(self) -> pl.Series:
        """Read the ids; InputError if the table does not fit its schema."""
        return self.domain.columns(self.table, self.spec, ("_id",)).get_column("_id")

    def labelled(self, encoded: pl.DataFrame) -> pl.DataFrame:
        """Return ENCODINGS rows of the ``ENCODED`` columns of all texts, in order."""
        role, domain = pl.lit(self.role).alias("role"), pl.lit(self.domain.name).alias("domain")
        return encoded.select(role, domain, self.ids(), *ENCODED)

    def texts(self) -> Iterator[str]:
        """Read the texts in order, few at a time."""
        for batch in self.domain.batches(self.table, ("text",)):
            yield from batch.column("text").to_pylist()


def list_sources(job: Job) -> list[Source]:
    """List the job's texts in the order of the encodings table."""
    return [
        Source(role, domain, table, spec) for domain in job.domains() for role, table, spec in TEXTS
    ]


Block = tuple[list[bytes], list[TokenizedText], int]
"""Distinct texts of one source: addresses and tokens; characters of all texts read until then."""


def read_blocks(encoder: Encoder, sources: Sequence[Source], shard: Slice) -> Iterator[Block]:
    """Read and tokenize each distinct text of a shard once.

    A block has at most ``BLOCK_CHARS`` characters, or one text.
    """
    seen: set[bytes] = set()
    n_chars = 0
    for source in sources:
        new = _new_texts(source, encoder.salt(source.role), shard, seen, n_chars)
        for block in in_blocks(new, lambda keyed: len(keyed[1]), BLOCK_CHARS):
            keys, texts, read = map(list, zip(*block, strict=True))
            n_chars = read[-1]
            yield keys, encoder.tokenize(texts, source.role), n_chars


def _new_texts(
    source: Source, salt: str, shard: Slice, seen: set[bytes], n_chars: int
) -> Iterator[tuple[bytes, str, int]]:
    """Yield the texts of a shard that are not ``seen`` yet, each with its address.

    And with the characters of all texts up to it, ``n_chars`` of them in earlier sources.
    """
    for text in source.texts():
        n_chars += len(text)
        key = text_key(text, salt=salt)
        if key not in seen and shard.has(key):
            seen.add(key)
            yield key, text, n_chars


def count_chars(sources: Sequence[Source]) -> int:
    """Count the characters of all texts; those of documents are in their table."""
    total = 0
    for source in sources:
        if source.role == "document":
            lengths = source.domain.columns(source.table, source.spec, ("char_length",))
            total += int(lengths.get_column("char_length").sum())
        else:
            total += sum(map(len, source.texts()))
    return total


def prefetched(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks while a thread makes the next one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


# --- The job ---


@stage("encode", version=3, offline=True)
def run_encode(job: Job) -> None:
    """Encode all domains of a language into the store and write where each text's vectors are.

    Inputs: ``corpora`` and ``queries``. Writes an ENCODINGS table. A job with a ``shard``, as
    ``2-of-7``, encodes the texts whose address falls to it; it has the paths of the tables as
    values, and writes SHARD_ENCODINGS, see `run_join_shards`.

    Raises
    ------
    InputError
        If a table or the checkpoint cannot be read, or a text does not fit into the memory.
    Stopped
        If the job has to end early; what it finished is stored.
    """
    model, shard = job.value("model"), job.value("shard", default="")
    entry, settings = job.value("entry", EncoderEntry), job.settings(Encoding)
    if shard:
        tables = {name: job.value(name) for name in ("corpora", "queries")}
        job = replace(job, inputs={**job.inputs, **tables})
    sources = list_sources(job)
    for source in sources:  # before a model is loaded: a GPU would wait
        source.ids()
    encoder, dtype = open_encoder(entry, settings)
    vectors = open_store(
        model,
        store=job.value("store"),
        fingerprint=encoder.fingerprint,
        storage=settings.storage,
    )
    encoded = encode_texts(
        encoder, vectors, sources, settings, shard=Slice.parse(shard), title=f"encoding {model}"
    )
    params = retrieval_params(entry) | {
        "dtype": dtype,
        "fingerprint": store_fingerprint(encoder.fingerprint, settings.storage),
    }
    salts: dict[str, str] = {role: encoder.salt(role) for role, *_ in TEXTS}
    table, spec = encoded, SHARD_ENCODINGS
    if shard:
        params |= {"shard": shard, "salts": salts}
    else:
        table, spec = _rows_of(sources, encoded, salts), ENCODINGS
    job.write("encodings", table, spec, params=params, revisions=revisions_of(model, entry))


def encode_texts(
    encoder: Encoder,
    vectors: EmbeddingStore,
    sources: Sequence[Source],
    settings: Encoding,
    *,
    shard: Slice,
    title: str,
) -> pl.DataFrame:
    """Encode the texts of a shard that the store lacks, block by block.

    Returns SHARD_ENCODINGS rows of all texts of the shard, each once.
    """
    n_chars, read_chars = max(1, count_chars(sources)), 0
    frames = [pl.DataFrame(schema=ENCODED)]
    with watched_stop() as stop, Progress(title, total=0, unit="tokens") as progress:
        encoding = TextEncoding(
            encoder,
            vectors,
            settings,
            stop=stop,
            # Texts that are not read yet are taken to be like those that are.
            expect=lambda n_tokens: progress.expect(n_tokens, share=read_chars / n_chars),
            advance=progress.advance,
        )
        try:
            for keys, items, until in prefetched(read_blocks(encoder, sources, shard)):
                read_chars = until
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


def open_encoder(entry: EncoderModel, settings: Encoding) -> tuple[Encoder, str]:
    """Load an encoder on the device that the settings ask for.

    Also returns its number format: the entry's, else that of the settings.
    """
    device = pick_device(settings.device)
    dtype = getattr(entry, "dtype", None) or settings.dtype
    if dtype == "auto":
        dtype = fast_dtype(device)
    encoder = load_encoder(entry, device=device, dtype=dtype)
    # Some encoders have one number format only.
    used = str(getattr(encoder, "dtype", "float32"))
    logger.info("device %s, dtype %s", device, used)
    return encoder, used


def revisions_of(model: str, entry: EncoderModel) -> dict[str, str]:
    """Return which checkpoint a model is, for the provenance."""
    return {f"model:{model}": checkpoint_identity(entry.checkpoint, entry.revision)}


# --- Shards ---


@stage("list_texts", version=1)
def run_list_texts(job: Job) -> None:
    """Write a line per table: sha256, a tab, path. It changes when any of their contents does."""
    paths = [path for _, table, _ in TEXTS for path in job.paths(table)]
    lines = [f"{hash_file(path)}\t{path}\n" for path in paths]
    write_text("".join(lines), str(job.outputs["texts"]))


@stage("join_shards", version=3)
def run_join_shards(job: Job) -> None:
    """Write the table that encoding everything in one job would have written.

    Inputs: ``corpora``, ``queries`` and ``shards``, the SHARD_ENCODINGS of all of 1-of-n to n-of-n,
    in any order.

    Raises
    ------
    InputError
        If shards are missing or were encoded in different ways, or a text is in none of them.
    """
    params = _common_params(job.paths("shards"))
    salts, entry = params.pop("salts"), job.value("entry", EncoderEntry)
    encoded = job.read("shards", SHARD_ENCODINGS)
    whole = replace(job, stage="encode", version=version_of("encode"))  # as if it had made it
    whole.write(
        "encodings",
        _rows_of(list_sources(whole), encoded, salts),
        ENCODINGS,
        params=retrieval_params(entry) | {name: params[name] for name in ("dtype", "fingerprint")},
        revisions=revisions_of(job.value("model"), entry),
    )


def _rows_of(
    sources: Sequence[Source], encoded: pl.DataFrame, salts: Mapping[str, str]
) -> pl.DataFrame:
    """Return the rows of an encodings table: every text of every source, in its order."""
    frames = []
    for source in sources:
        salt = salts[source.role]
        keys = pl.Series("key", (text_key(t, salt=salt) for t in source.texts()), pl.Binary)
        found = keys.to_frame().join(encoded, on="key", how="left", maintain_order="left")
        n_missing = found.get_column("n_tokens").null_count()
        if n_missing:
            raise InputError(
                f"{source.domain}, {source.table}: {n_missing} of {found.height} texts are in no "
                "shard; the table was made anew after encoding. Delete the shards' tables and run "
                "again."
            )
        frames.append(source.labelled(found.select(*ENCODED)))
    return pl.concat(frames)


def _common_params(shards: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of the shards, which have to be the same; InputError if not."""
    records = [dict((read_provenance(path) or {}).get("params", {})) for path in shards]
    found = [Slice.parse(params.pop("shard", "0-of-0")) for params in records]
    if sorted(found, key=lambda one: one.number) != Slice.every(len(found)):
        names = ", ".join(map(str, found))
        raise InputError(f"shards {names}: all of 1-of-n to n-of-n are needed, each once")
    for path, params in zip(shards, records, strict=True):
        if params != records[0]:
            raise InputError(
                f"{shards[0]} and {path} were encoded by different models or versions, or in the "
                f"number formats {records[0]['dtype']} and {params['dtype']}, as different GPUs "
                "choose them: set encoding.dtype, delete the shards and run again"
            )
    return records[0]
