"""Tiny learned sparse checkpoints with random weights, in SparseEncoder's layout."""

from pathlib import Path

from stored_networks import network
from tiny_checkpoints import SIZES, VOCABULARY, entry_of, save_tokenizer

from psibench.config.models import SparseModel


def save_splade(folder: Path, *, max_active_dims: int | None = None, **tokenizer) -> Path:
    """Save a BERT with its language-modelling head and SPLADE's pooling: 64 terms."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    network = Transformer(str(_save_network(folder / "bert")), transformer_task="fill-mask")
    pooling = SpladePooling(pooling_strategy="max")
    SparseEncoder(modules=[network, pooling], max_active_dims=max_active_dims).save(str(folder))
    return folder


def save_inference_free(folder: Path) -> Path:
    """Save the same for documents, and a table of weights, 1 to 64, for queries."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

    network = Transformer(str(_save_network(folder / "bert")), transformer_task="fill-mask")
    table = SparseStaticEmbedding(
        tokenizer=network.tokenizer, weight=torch.arange(1.0, len(VOCABULARY) + 1)
    )
    router = Router.for_query_document(
        query_modules=[table], document_modules=[network, SpladePooling(pooling_strategy="max")]
    )
    SparseEncoder(modules=[router], similarity_fn_name="dot").save(str(folder))
    return folder


def _save_network(folder: Path) -> Path:
    config = SIZES | {"max_position_embeddings": 64, "initializer_range": 0.5}
    network("BertForMaskedLM", seed=3, **config).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def sparse_entry(checkpoint: Path, **fields) -> SparseModel:
    """Make a registry entry."""
    return entry_of(checkpoint, backend="sparse-encoder", **fields)


def weights_of(rows) -> dict[int, float]:
    """Read stored rows back: weight by term."""
    return {int(high) * 1024 + int(low): float(weight) for high, low, weight in rows}
