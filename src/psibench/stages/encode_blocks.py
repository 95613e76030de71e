"""The texts of an encoding job, block by block: those of a language do not fit into memory."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from psibench.config.settings import Encoding
from psibench.models.encoding import encode_texts
from psibench.models.protocols import Encoder, Role, TokenizedText
from psibench.store.embeddings import EmbeddingStore
from psibench.tables.columns import read_columns
from psibench.tables.io import conform, read_any_table
from psibench.tables.schemas import CORPUS, QUERIES, TableSpec

logger = logging.getLogger("psibench")

BLOCK_CHARS = 64_000_000
"""Characters of the texts in memory: about 0.4 GB with their tokens."""

BATCH_ROWS = 4096
SAMPLE_TEXTS = 32
"""Texts on which a reduced number format is checked."""

ENCODED = {"key": pl.Binary, "n_tokens": pl.Int32, "visible_char_end": pl.Int32}


@dataclass(frozen=True)
class Source:
    """Where the texts of one role in one domain are."""

    role: Role
    domain: str
    path: Path
    spec: TableSpec


@dataclass(frozen=True)
class Block:
    """Texts of a source from row ``start`` on, tokenized."""

    start: int
    texts: list[str]
    items: list[TokenizedText]


@dataclass
class FirstPass:
    """What one reading of all texts gives.

    Attributes
    ----------
    n_tokens
        (n_texts,) int32 per source.
    kept
        The blocks per source, if the whole job fits into ``BLOCK_CHARS``; else None.
    """

    n_tokens: list[np.ndarray] = field(default_factory=list)
    kept: list[list[Block]] | None = field(default_factory=list)


def list_sources(
    domains: Sequence[str], corpora: Sequence[str | Path], queries: Sequence[str | Path]
) -> list[Source]:
    """List the job's texts in the order of the encodings table."""
    sources = []
    for domain, corpus, asked in zip(domains, corpora, queries, strict=True):
        sources.append(Source("document", domain, Path(corpus), CORPUS))
        sources.append(Source("query", domain, Path(asked), QUERIES))
    return sources


def read_ids(source: Source) -> pl.Series:
    """Read the ids of a source; InputError if its table does not fit the schema."""
    return read_columns(source.path, source.spec, ["_id"]).get_column("_id")


def read_blocks(encoder: Encoder, source: Source) -> Iterator[Block]:
    """Read and tokenize a source in blocks of at most ``BLOCK_CHARS`` (or of one text)."""
    start, texts, chars = 0, list[str](), 0
    for text in _read_texts(source):
        if texts and chars + len(text) > BLOCK_CHARS:
            yield Block(start, texts, encoder.tokenize(texts, source.role))
            start, texts, chars = start + len(texts), [], 0
        texts.append(text)
        chars += len(text)
    if texts:
        yield Block(start, texts, encoder.tokenize(texts, source.role))


def encode_source(
    encoder: Encoder,
    source: Source,
    blocks: Iterable[Block],
    *,
    model: str,
    store: EmbeddingStore,
    settings: Encoding,
) -> pl.DataFrame:
    """Encode what the store lacks of a source; returns its columns of the encodings table."""
    frames = [pl.DataFrame(schema=ENCODED)]
    n_new = 0
    for block in blocks:
        part = f", from text {block.start + 1}" if block.start else ""
        encoded = encode_texts(
            encoder,
            block.texts,
            block.items,
            salt=encoder.salt(source.role),
            store=store,
            tokens_per_batch=settings.tokens_per_batch,
            tokens_per_shard=settings.tokens_per_shard,
            description=f"encoding {model}: {source.domain}, {source.role}{part}",
        )
        columns = (encoded.keys, encoded.n_tokens, encoded.visible_char_end)
        frames.append(pl.DataFrame(dict(zip(ENCODED, columns, strict=True)), schema=ENCODED))
        n_new += encoded.n_new
    rows = pl.concat(frames)
    logger.info("%s, %s: %d texts, %d encoded now", source.domain, source.role, rows.height, n_new)
    return rows


def first_pass(encoder: Encoder, sources: Sequence[Source]) -> FirstPass:
    """Count the tokens of all texts, and keep the texts if they are few."""
    result, chars = FirstPass(), 0
    for source in sources:
        counts, kept = [np.empty(0, np.int32)], list[Block]()
        for block in read_blocks(encoder, source):
            counts.append(np.array([item.n_tokens for item in block.items], dtype=np.int32))
            chars += sum(len(text) for text in block.texts)
            if chars > BLOCK_CHARS:
                result.kept, kept = None, []
            else:
                kept.append(block)
        result.n_tokens.append(np.concatenate(counts))
        if result.kept is not None:
            result.kept.append(kept)
    return result


def sample_texts(
    encoder: Encoder, sources: Sequence[Source], n_tokens: Sequence[np.ndarray]
) -> list[TokenizedText]:
    """Tokenize ``SAMPLE_TEXTS`` texts of all lengths, the shortest first."""
    order = np.argsort(np.concatenate(n_tokens), kind="stable")
    chosen = order[spread(len(order))]
    found: dict[int, TokenizedText] = {}
    first = 0
    for source, counts in zip(sources, n_tokens, strict=True):
        wanted = {int(row) for row in chosen if first <= row < first + len(counts)}
        if wanted:
            for row, text in enumerate(_read_texts(source), start=first):
                if row in wanted:
                    (found[row],) = encoder.tokenize([text], source.role)
        first += len(counts)
    return [found[int(row)] for row in chosen]


def spread(n_texts: int) -> np.ndarray:
    """Choose at most ``SAMPLE_TEXTS`` places among texts in order of length, ends included."""
    return (
        np.unique(np.linspace(0, n_texts - 1, SAMPLE_TEXTS).astype(int))
        if n_texts
        else (np.empty(0, dtype=int))
    )


def _read_texts(source: Source) -> Iterator[str]:
    """Read the texts of a source in order, few at a time."""
    text = next(column for column in source.spec.columns if column.name == "text")
    spec = TableSpec(source.spec.name, (text,), key=())
    try:
        file = pq.ParquetFile(source.path, page_checksum_verification=True, buffer_size=1 << 20)
        start = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=["text"]):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
            where = f"{source.path}, rows from {start} on"
            rows = conform(pl.DataFrame(pl.from_arrow(table)), spec, where=where)
            yield from rows.column("text").to_pylist()
            start += batch.num_rows
    except (OSError, pa.ArrowException):
        read_any_table(source.path)  # says what is wrong with the file
        raise
