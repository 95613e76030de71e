"""Rerankers that are sequence classifiers with one output for a query and a text.

sentence-transformers' `CrossEncoder` loads and runs them. The output is a logit. Its sigmoid is the
score, even if a checkpoint declares none (mmarco-mMiniLMv2), because the papers compare scores in
[0, 1].

- ``cross-encoder``: the longer of query and text is cut first. Ports (`architecture`) load
  gte-multilingual-reranker and Jina's two rerankers, because the checkpoints' code does not run
  with transformers 5.
- ``flag``: reads pairs as FlagEmbedding's `FlagReranker` (version 1.4.2, by the BGE authors): a
  query is cut to three quarters of ``max_tokens``, the text to the rest. float16 on a GPU, as in
  the papers.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.rerankers import CrossEncoderReranker, FlagReranker
from psibench.errors import InputError
from psibench.models.architectures import port
from psibench.models.checkpoints import checkpoint_folder, checkpoint_identity, read_json_object
from psibench.models.compiled import LOGIT_BOUND, Compiled, compile_network
from psibench.models.library_keys import (
    refuse_for_port,
    refuse_other_classifier,
    refuse_unread,
    transformer_config,
)
from psibench.models.networks import check_positions
from psibench.models.tokenizing import load_checkpoint_tokenizer, n_input_embeddings, pad_rows
from psibench.models.weights import check_files, load_model
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    Tokens,
    encode,
    linear_in_float32,
    number_format,
)
from psibench.rerankers.protocols import TextPair

logger = logging.getLogger("psibench")

Classifier = CrossEncoderReranker | FlagReranker
CLASSIFIER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
RunNetwork = Callable[[Mapping[str, Any]], Any]
"""Padded inputs -> (n_pairs, 1) logits."""


def load_sequence_classifier(name: str, entry: Classifier, *, device: str) -> CheckpointScorer:
    """Load a sequence classifier; on a GPU ``flag`` has float16 weights, others run under autocast.

    Raises InputError if it has several outputs or an untrained one, takes fewer tokens than the
    entry sets, or its files declare another use.
    """
    import torch

    is_flag = isinstance(entry, FlagReranker)
    dtype = number_format(entry, device)
    load = _load_library if getattr(entry, "architecture", "auto") == "auto" else _load_ported
    folder = checkpoint_folder(entry)
    check_files(folder)
    refuse_other_classifier(folder)
    network, tokenizer, run = load(folder, entry)
    _check_padding(tokenizer, getattr(network, "transformers_model", network), entry.checkpoint)
    network.to(device).eval()
    if dtype != "float32":
        network.to(getattr(torch, dtype) if is_flag else torch.float32)
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear) and layer.out_features == 1:
                layer.forward = partial(linear_in_float32, layer)  # type: ignore[method-assign]
    names = [name for name in CLASSIFIER_INPUTS if name in tokenizer.model_input_names]

    def logits(items: Sequence[Tokens], run: RunNetwork = run) -> Any:
        rows = {
            "input_ids": [item.ids for item in items],
            "attention_mask": [np.ones_like(item.ids) for item in items],
            "token_type_ids": [item.types for item in items],
        }
        fill, side = {"input_ids": tokenizer.pad_token_id}, tokenizer.padding_side
        inputs = {key: pad_rows(rows[key], fill.get(key, 0), side=side).to(device) for key in names}
        casts = dtype != "float32" and not is_flag
        with torch.inference_mode(), torch.autocast(device, getattr(torch, dtype), enabled=casts):
            return run(inputs)[:, 0]

    read = partial(_read_flag if is_flag else _read_pairs, tokenizer, entry.max_tokens)
    scorer = CheckpointScorer(name, entry, dtype, entry.max_tokens, read, logits)
    is_plain = load is _load_library and not getattr(entry, "trust_remote_code", False)
    if is_plain and len(network) == 1 and (device, dtype) == ("cpu", "float32"):
        compiled = _compile(scorer, network.transformers_model, names, run)
        if compiled is not None:
            return replace(scorer, logits=partial(logits, run=compiled))
    return scorer


def _check_padding(tokenizer: Any, network: Any, checkpoint: str) -> None:
    """Raise InputError if the network does not know the tokenizer's pad token."""
    pad_id = tokenizer.pad_token_id
    size = n_input_embeddings(network, 1 + (pad_id or 0))
    if pad_id is None or pad_id >= size:
        raise InputError(
            f"checkpoint {checkpoint!r}: its tokenizer's pad token is {tokenizer.pad_token!r} with "
            f"id {pad_id}, but the network has embeddings for {size:,} tokens only, so texts of "
            "different lengths cannot be in one batch. Save the tokenizer with a pad token that "
            "the network knows"
        )


def _load_library(folder: Path, entry: Classifier) -> tuple[Any, Any, RunNetwork]:
    from sentence_transformers import CrossEncoder

    trusts = bool(getattr(entry, "trust_remote_code", False))
    model = load_model(CrossEncoder, folder, trust_remote_code=trusts, dtype="float32")
    network = model.transformers_model
    made_for = (network.config.architectures or ["none"])[0]
    if made_for.endswith("ForCausalLM") and not trusts:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: was saved as {made_for}, without a classifier's "
            "output layer; see config/rerankers.yaml for other backends"
        )
    if model.num_labels != 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: has {model.num_labels} outputs, but a reranker has "
            "1. Is it another kind of classifier?"
        )
    refuse_unread(model[0], entry.checkpoint, lengths=False)  # pairs have no role
    check_positions(network, entry.checkpoint, entry.max_tokens)
    if entry.backend == "cross-encoder":
        _warn_of_length(entry, folder, model.max_seq_length)
    return model, model.tokenizer, lambda inputs: model(dict(inputs))["scores"]


def _warn_of_length(entry: Classifier, folder: Path, longest: int | None) -> None:
    """Log a longest input that differs from `CrossEncoder`'s."""
    _, config = transformer_config(folder)
    of_tokenizer = (config.get("processor_kwargs") or {}).get("model_max_length")
    is_set = config.get("max_seq_length") is not None or of_tokenizer is not None
    if longest is not None and (
        entry.max_tokens != longest if is_set else entry.max_tokens > longest
    ):
        logger.warning(
            "checkpoint %r: max_tokens: the entry has %s, the checkpoint %s; the entry's value is "
            "used",
            entry.checkpoint, entry.max_tokens, longest,
        )  # fmt: skip


def _load_ported(folder: Path, entry: Classifier) -> tuple[Any, Any, RunNetwork]:
    assert isinstance(entry, CrossEncoderReranker)
    refuse_for_port(folder)
    tokenizer = load_checkpoint_tokenizer(folder, as_stored=True)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    network = port(entry.architecture).load_classifier(
        folder, read_json_object(folder / "config.json")
    )
    check_positions(network, entry.checkpoint, entry.max_tokens)
    return network, tokenizer, lambda inputs: network(**inputs).logits


def _compile(scorer: CheckpointScorer, network: Any, names: list[str], run: RunNetwork) -> Any:
    """Compile a classifier with OpenVINO; return None if torch should run it."""

    def passes(texts: list[str], compiled: Compiled | None) -> list[np.ndarray]:
        items = scorer.tokenize([(texts[-1], text) for text in texts])
        logits: Any = scorer.logits
        return [logits(items, compiled or run).numpy().astype(np.float64)]

    return compile_network(
        network,
        dtype="float32",
        identity=checkpoint_identity(scorer.entry.checkpoint, scorer.entry.revision),
        passes=passes,
        signature=(tuple(names), "logits"),
        bound=LOGIT_BOUND,
    )


def _read_pairs(tokenizer: Any, max_tokens: int, pairs: Sequence[TextPair]) -> Iterator[Reading]:
    """Read pairs by the tokenizer's template; the longer of both is cut first."""
    return _read(tokenizer, pairs, truncation="longest_first", max_length=max_tokens)


def _read_flag(tokenizer: Any, max_tokens: int, pairs: Sequence[TextPair]) -> Iterator[Reading]:
    """Read pairs by the tokenizer's template; queries are cut first, then texts."""
    encodings = encode(
        tokenizer, [query for query, _ in pairs],
        add_special_tokens=False, truncation=True, max_length=max_tokens * 3 // 4,
    )  # fmt: skip
    shortened = [
        (query[: encoding.offsets[-1][1]] if encoding.overflowing else query, text)
        for (query, text), encoding in zip(pairs, encodings, strict=True)
    ]
    return _read(tokenizer, shortened, truncation="only_second", max_length=max_tokens)


def _read(tokenizer: Any, pairs: Sequence[TextPair], **cut: Any) -> Iterator[Reading]:
    queries, texts = (list(side) for side in zip(*pairs, strict=True))
    for encoding in encode(tokenizer, queries, texts, **cut):
        yield Reading(encoding.ids, encoding, sequence=1)
