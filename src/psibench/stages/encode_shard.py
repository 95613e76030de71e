"""Encode the texts of a benchmark in one language that fall to one job, by one model."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import EncoderModel
from psibench.config.settings import Encoding
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import pick_device
from psibench.models.encoding import Batching
from psibench.models.load import load_encoder
from psibench.models.protocols import Encoder
from psibench.models.text_encoding import TextEncoding
from psibench.progress import Progress
from psibench.stages.encode_blocks import Source, list_sources
from psibench.stages.encode_dtype import dtype_of, loaded_dtype, tokenize_each, with_dtype
from psibench.stages.encode_overview import Overview, look_over
from psibench.stages.encode_stream import Shard, ahead, keyed_blocks
from psibench.stages.stopping import watched_stop
from psibench.stages.tables import derived
from psibench.store.embeddings import EmbeddingStore, store_fingerprint
from psibench.tables import write_table
from psibench.tables.encoding_schemas import SHARD_ENCODINGS

logger = logging.getLogger("psibench")

ENCODED = {"key": pl.Binary, "n_tokens": pl.Int32, "visible_char_end": pl.Int32}


@dataclass(frozen=True)
class EncodedShard:
    """What a job encoded.

    Attributes
    ----------
    rows
        SHARD_ENCODINGS, one row per distinct text.
    params
        For the provenance: what of entry and settings decides the vectors.
    salts
        The encoder's, by role.
    """

    rows: pl.DataFrame
    params: dict[str, Any]
    salts: dict[str, str]


def run_encode_shard(
    entry: EncoderModel,
    *,
    model: str,
    domains: Sequence[str],
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    store: str | Path,
    settings: Encoding,
    shard: str,
    output: str | Path,
) -> None:
    """Encode one shard's texts into the store and write where their vectors lie.

    Parameters
    ----------
    shard
        As ``2-of-7``. A text belongs to the shard that its address falls to, whatever others there
        are: shards are of equal size to about the square root of their texts.
    output
        A SHARD_ENCODINGS table; see ``stages.join_shards``.

    Raises
    ------
    InputError
        If a table or the checkpoint cannot be read, or a text does not fit into the memory.
    Stopped
        If the job has to end early; what it finished is stored.
    """
    sources, part = list_sources(domains, corpora, queries), Shard.parse(shard)
    encoded = encode_sources(
        entry, sources, model=model, store=store, settings=settings, shard=part
    )
    provenance = derived(
        "encode",
        [*corpora, *queries],
        params=encoded.params | {"shard": shard, "salts": encoded.salts},
        revisions=revisions_of(model, entry),
    )
    write_table(encoded.rows, output, SHARD_ENCODINGS, provenance=provenance)


def encode_sources(
    entry: EncoderModel,
    sources: Sequence[Source],
    *,
    model: str,
    store: str | Path,
    settings: Encoding,
    shard: Shard,
) -> EncodedShard:
    """Encode what the store lacks of a shard's texts, each distinct one once."""
    device = pick_device(settings.device)
    overview = look_over(entry, sources, settings, device=device)
    encoder = _load(entry, settings, overview, device=device)
    folder = Path(store) / "embeddings" / model
    vectors = EmbeddingStore(folder, encoder.fingerprint, storage=settings.storage)
    about: dict[str, Any] = {"model": model, "device": device, "dtype": dtype_of(encoder)}
    if shard.n > 1:
        about["shard"] = f"{shard.number}-of-{shard.n}"
    with (
        watched_stop() as stop,
        Progress(
            f"encoding {model}", total=overview.n_chars // shard.n, unit="characters"
        ) as progress,
    ):
        encoding = TextEncoding(
            encoder, vectors, batching_of(entry, settings), stop=stop, advance=progress.advance
        )
        try:
            rows = _encode(encoder, sources, shard, encoding)
        finally:
            encoding.stats.log(**about)
    params = retrieval_params(entry) | {
        "dtype": about["dtype"],
        "fingerprint": store_fingerprint(encoder.fingerprint, settings.storage),
    }
    return EncodedShard(rows, params, {r: encoder.salt(r) for r in ("query", "document")})


def _load(entry: EncoderModel, settings: Encoding, overview: Overview, *, device: str) -> Encoder:
    loaded = load_encoder(entry, device=device, dtype=loaded_dtype(entry, settings))
    return with_dtype(
        loaded,
        entry,
        settings,
        device=device,
        n_chars=overview.n_chars,
        sample=lambda: tokenize_each(loaded, overview.sample),
    )


def batching_of(entry: EncoderModel, settings: Encoding) -> Batching:
    """Return how the work of an entry is cut."""
    limits = [getattr(entry, name, None) for name in ("max_tokens", "query_tokens")]
    return Batching(
        settings.tokens_per_batch,
        settings.tokens_per_part,
        longest=max((limit for limit in limits if limit is not None), default=None),
        seconds_per_part=settings.seconds_per_part,
    )


def revisions_of(model: str, entry: EncoderModel) -> dict[str, str]:
    """Return which checkpoint a model is, for the provenance."""
    return {f"model:{model}": checkpoint_identity(entry.checkpoint, entry.revision)}


def _encode(
    encoder: Encoder, sources: Sequence[Source], shard: Shard, encoding: TextEncoding
) -> pl.DataFrame:
    frames = [pl.DataFrame(schema=ENCODED)]
    counts = {number: [0, 0] for number in range(len(sources))}
    for block in ahead(keyed_blocks(encoder, sources, shard), encoding.stats):
        n_tokens = [item.n_tokens for item in block.items]
        visible = [item.visible_char_end for item in block.items]
        columns = (block.keys, n_tokens, visible)
        frames.append(pl.DataFrame(dict(zip(ENCODED, columns, strict=True)), schema=ENCODED))
        counts[block.source][0] += len(block.keys)
        counts[block.source][1] += encoding.add(block.keys, block.items, block.sizes)
    encoding.finish()
    for source, (n_texts, n_new) in zip(sources, counts.values(), strict=True):
        logger.info(
            "%s, %s: %d distinct texts, %d encoded now", source.domain, source.role, n_texts, n_new
        )
    return pl.concat(frames)
