"""Stage ``encode_chunks``: the vectors of a language's queries, and of the chunks of its documents.

A job of a slice takes whole documents, by their address, because a splitter and late chunking need
all of a document. If two jobs encode equal chunks of different documents at the same time, the
first vector in the store counts.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from psibench.config.models import ChunkedEntry, Chunks
from psibench.config.sections import Encoding
from psibench.encode.batches import EncodeStats
from psibench.encode.chunks import (
    Rulers,
    cut_documents,
    encode_chunks,
    refuse_no_titles,
    title_of,
    with_tokens,
)
from psibench.encode.job import (
    BLOCK_CHARS,
    Source,
    count_chars,
    encode_sources,
    list_sources,
    open_for_job,
    rows_of,
)
from psibench.encode.store import EmbeddingStore, text_key
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.counting import load_tokenizer
from psibench.models.protocols import Encoder
from psibench.progress import Progress
from psibench.stopping import watched_stop
from psibench.tables.job import Job
from psibench.tables.schemas import CHUNK_ENCODINGS, CORPUS
from psibench.tables.slices import Slice
from psibench.tables.stage import stage
from psibench.text.lengths import in_blocks
from psibench.text.splitting import after_space

OF_CHUNKS = {"start": pl.Int32, "end": pl.Int32, "tokens": pl.Int32}
"""Columns that are null for queries."""


@stage("encode_chunks", version=1, offline=True)
def run_encode_chunks(job: Job) -> None:
    """Cut and encode all domains of a language, and write a CHUNK_ENCODINGS table.

    Inputs: ``corpora`` and ``queries``. ``length_tokenizer`` counts the column ``tokens``, equally
    for all models. A job with a ``portion``, e.g. ``/2-of-7``, encodes and lists the texts whose
    address is in this slice, and the chunks of these documents.

    Raises
    ------
    InputError
        If a table, the checkpoint or a tokenizer cannot be read, the documents cannot be cut, or a
        text does not fit into the memory.
    Stopped
        If the job has to end early; finished chunks are stored.
    """
    model, shard = job.value("model"), Slice.parse(job.value("portion", default=""))
    entry, settings = job.value("entry", ChunkedEntry), job.settings(Encoding)
    sources = list_sources(job)
    asked = [source for source in sources if source.role == "query"]
    held = [source for source in sources if source.role == "document"]
    encoder, vectors, record = open_for_job(job, entry, settings)
    tokenizers = [
        load_tokenizer(resolve_checkpoint(entry.checkpoint, entry.revision), option="checkpoint"),
        load_tokenizer(job.value("length_tokenizer", str), option="length_tokenizer"),
    ]
    title = f"encoding {model}"
    encoded = encode_sources(encoder, vectors, asked, settings, shard=shard, title=title)
    queries = [rows_of(one, encoded, encoder.salt("query"), shard) for one in asked]
    absent = [pl.lit(None, kind).alias(name) for name, kind in OF_CHUNKS.items()]
    documents = _encode_documents(
        encoder,
        vectors,
        held,
        settings,
        entry.chunks,
        tokenizers=tokenizers,
        shard=shard,
        title=title,
    )
    rows = [*documents, *(frame.with_columns(absent) for frame in queries)]
    record["params"] |= {"length_tokenizer": job.value("length_tokenizer")}
    frames = [frame.select(CHUNK_ENCODINGS.column_names) for frame in rows]
    table = pl.concat([CHUNK_ENCODINGS.empty(), *frames])
    job.write("encodings", table, CHUNK_ENCODINGS, **record)


def _document_blocks(
    sources: Sequence[Source], salt: str, shard: Slice
) -> Iterator[tuple[str, list[tuple[str, str]], int]]:
    """Yield domain, ids and texts of a shard's documents, and the characters read so far."""
    n_chars = 0

    def of_source(source: Source) -> Iterator[tuple[str, str]]:
        nonlocal n_chars
        for doc_id, text in zip(source.ids(), source.texts(), strict=True):
            n_chars += len(text)
            if shard.has(text_key(text, salt=salt)):
                yield doc_id, text

    for source in sources:
        for block in in_blocks(of_source(source), lambda row: len(row[1]), BLOCK_CHARS):
            yield source.domain.name, block, n_chars


def _encode_documents(
    encoder: Encoder,
    vectors: EmbeddingStore,
    sources: Sequence[Source],
    settings: Encoding,
    chunks: Chunks,
    *,
    tokenizers: Sequence[Any],
    shard: Slice,
    title: str,
) -> Iterator[pl.DataFrame]:
    """Cut and encode the documents of a shard block by block; yield CHUNK_ENCODINGS rows."""
    titles = _titles(sources) if chunks.context == "title" else None
    total, salt, stats = max(1, count_chars(sources)), encoder.salt("document"), EncodeStats()
    with watched_stop() as stop, Progress(title, total=0, unit="tokens") as progress:
        for domain, block, n_chars in _document_blocks(sources, salt, shard):
            frame = pl.DataFrame(block, ["_id", "text"], orient="row")
            sizes, counted = map(Rulers, tokenizers)
            texts = dict(block)
            cut = with_tokens(cut_documents(frame, chunks, sizes), texts, counted)
            encoded = encode_chunks(
                encoder,
                vectors,
                frame,
                cut,
                settings,
                context=chunks.context,
                titles=None if titles is None else {one: titles[domain, one] for one in texts},
                stop=stop,
                # Assumes that the remaining documents have as many tokens per character.
                expect=partial(progress.expect, share=n_chars / total),
                advance=progress.advance,
            )
            stats.add(encoded.stats)
            read = zip(cut["doc_id"], cut["start"] + pl.Series(encoded.read_chars), strict=True)
            yield cut.select(
                role=pl.lit("document"),
                domain=pl.lit(domain),
                _id="doc_id",
                start=pl.col("start").cast(pl.Int32),
                end=pl.col("end").cast(pl.Int32),
                tokens=pl.col("tokens").cast(pl.Int32),
                key=pl.Series(encoded.keys, dtype=pl.Binary),
                n_tokens=pl.Series(encoded.n_tokens, dtype=pl.Int32),
                visible_char_end=pl.Series(
                    [after_space(texts[one], end) for one, end in read], dtype=pl.Int32
                ),
            )
        progress.expect(0)
    stats.log()


def _titles(sources: Sequence[Source]) -> dict[tuple[str, str], str]:
    """Return the titles by domain and document id; raise InputError if no document has a title."""
    titles = dict[tuple[str, str], str]()
    for source in sources:
        known = source.domain.columns(source.table, CORPUS, ("_id",), optional=("title",))
        rows = known.to_dict(as_series=False)
        given = rows.get("title") or [None] * known.height
        for doc_id, title, text in zip(rows["_id"], given, source.texts(), strict=True):
            titles[source.domain.name, doc_id] = title_of(text, title)
    if titles:
        refuse_no_titles(titles.values())
    return titles
