"""Stage ``encode``: the vectors of a benchmark's texts in one language, by one model."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from psibench.config.models import EncoderModel, SentenceTransformerModel
from psibench.config.settings import Encoding
from psibench.models import dtypes
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.dtypes import pick_device
from psibench.models.load import load_encoder, retrieval_params
from psibench.models.protocols import Encoder, TokenizedText
from psibench.models.transformer import TransformerEncoder
from psibench.stages.encode_blocks import (
    Block,
    Source,
    encode_source,
    first_pass,
    list_sources,
    read_blocks,
    read_ids,
    sample_texts,
    spread,
)
from psibench.stages.tables import derived
from psibench.store.embeddings import EmbeddingStore
from psibench.tables import write_table
from psibench.tables.schemas import ENCODINGS

logger = logging.getLogger("psibench")


def run_encode(
    entry: EncoderModel,
    *,
    model: str,
    domains: Sequence[str],
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    store: str | Path,
    settings: Encoding,
    output: str | Path,
) -> None:
    """Encode all domains of a language into the store and write where each text's vectors lie.

    Texts are in memory block by block. They are tokenized twice only where the number format
    depends on all of them and they are many.
    """
    sources = list_sources(domains, corpora, queries)
    ids = [read_ids(source) for source in sources]
    device = pick_device(settings.device)
    encoder = load_encoder(entry, device=device)
    encoder, kept = _prepare(encoder, entry, sources, settings, device)
    vectors = EmbeddingStore(Path(store) / "embeddings" / model, encoder.fingerprint)
    frames = []
    for number, source in enumerate(sources):
        blocks = read_blocks(encoder, source) if kept is None else kept[number]
        rows = encode_source(encoder, source, blocks, model=model, store=vectors, settings=settings)
        role, domain = pl.lit(source.role).alias("role"), pl.lit(source.domain).alias("domain")
        frames.append(rows.select(role, domain, ids[number], "*"))
    provenance = derived(
        "encode",
        [*corpora, *queries],
        params=retrieval_params(entry)
        | {"dtype": getattr(encoder, "dtype", "float32"), "fingerprint": encoder.fingerprint},
        revisions=_revisions(model, entry),
    )
    write_table(pl.concat(frames), output, ENCODINGS, provenance=provenance)


def open_store(model: str, *, store: str | Path, fingerprint: str) -> EmbeddingStore:
    """Open the store an encodings table points into."""
    return EmbeddingStore(Path(store) / "embeddings" / model, fingerprint)


def _prepare(
    encoder: Encoder,
    entry: EncoderModel,
    sources: Sequence[Source],
    settings: Encoding,
    device: str,
) -> tuple[Encoder, list[list[Block]] | None]:
    """Choose the number format; returns the blocks too, if all were read and kept for it."""
    if not isinstance(encoder, TransformerEncoder):
        return encoder, None
    if _wanted_dtype(entry, settings) != "auto" or dtypes.fast_dtype(device) == "float32":
        return with_dtype(encoder, entry, [], settings, device), None
    seen = first_pass(encoder, sources)
    chosen = _choose(
        encoder,
        "auto",
        settings,
        device,
        n_tokens=sum(int(counts.sum(dtype=np.int64)) for counts in seen.n_tokens),
        sample=lambda: sample_texts(encoder, sources, seen.n_tokens),
    )
    return chosen, seen.kept


def with_dtype(
    encoder: Encoder,
    entry: EncoderModel,
    tokenized: Sequence[Sequence[TokenizedText]],
    settings: Encoding,
    device: str,
) -> Encoder:
    """Give a transformer the number format the settings, the machine and the job ask for."""
    if not isinstance(encoder, TransformerEncoder):
        return encoder
    items = [item for group in tokenized for item in group]
    return _choose(
        encoder,
        _wanted_dtype(entry, settings),
        settings,
        device,
        n_tokens=sum(item.n_tokens for item in items),
        sample=lambda: items,
    )


def _wanted_dtype(entry: EncoderModel, settings: Encoding) -> str:
    own = entry.dtype if isinstance(entry, SentenceTransformerModel) else None
    return own or settings.dtype


def _choose(
    encoder: TransformerEncoder,
    wanted: str,
    settings: Encoding,
    device: str,
    *,
    n_tokens: int,
    sample: Callable[[], Sequence[TokenizedText]],
) -> TransformerEncoder:
    dtype = dtypes.choose_dtype(
        wanted,
        device=device,
        n_tokens=n_tokens,
        float32_below_tokens=settings.float32_below_tokens,
        cosine=lambda reduced: smallest_cosine(encoder, reduced, sample()),
    )
    logger.info("device %s, dtype %s", device, dtype)
    return replace(encoder, dtype=dtype)


def smallest_cosine(
    encoder: TransformerEncoder, dtype: str, items: Sequence[TokenizedText]
) -> float:
    """Return the smallest cosine of a reduced format to float32 over texts of all lengths.

    1.0 without texts.
    """
    if not items:
        return 1.0
    by_length = sorted(items, key=lambda item: item.n_tokens)
    places = spread(len(by_length))
    windows = [by_length[place].windows[0] for place in places]
    content = [by_length[place].content[0] for place in places]
    smallest = 1.0
    for window, keep in zip(windows, content, strict=True):  # alone: no batch outgrows the memory
        (exact,) = encoder.forward([window], [keep])
        (reduced,) = replace(encoder, dtype=dtype).forward([window], [keep])
        smallest = min(smallest, float((exact * reduced).sum(axis=1).min(initial=1.0)))
    return smallest


def _revisions(model: str, entry: EncoderModel) -> Mapping[str, str]:
    return {f"model:{model}": checkpoint_identity(entry.checkpoint, entry.revision)}
