"""Rerankers that are sequence classifiers with one output for a query and a text.

The output is a logit. Its sigmoid is the score, even if a checkpoint declares none
(mmarco-mMiniLMv2), because the papers compare scores in [0, 1].

- ``cross-encoder``: sentence-transformers' `CrossEncoder` loads and runs them. The longer of query
  and text is cut first. Ports (`architecture`) load gte-multilingual-reranker and Jina's two
  rerankers, because the checkpoints' code does not run with transformers 5.
- ``flag``: FlagEmbedding's `FlagReranker` loads them and reads pairs: it cuts a query to three
  quarters of ``max_tokens`` and the text to the rest. float16 on a GPU, as in the papers.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from psibench.models.packing import Packed, pack_network
from psibench.models.tokenizing import load_checkpoint_tokenizer, n_input_embeddings, pad_rows
from psibench.models.weights import (
    check_files,
    check_tokenizer,
    checking_weights,
    load_model,
)
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    Tokens,
    encode,
    linear_in_float32,
    number_format,
    visible_chars,
)
from psibench.rerankers.flag_pairs import read_flag_pairs
from psibench.rerankers.protocols import TextPair

logger = logging.getLogger("psibench")

Classifier = CrossEncoderReranker | FlagReranker
CLASSIFIER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
PACKED_BOUND = {"float32": LOGIT_BOUND, "float16": 0.01, "bfloat16": 0.05}
"""Largest difference of logits of packed and of single pairs, relative to max(1, logit)."""
RunNetwork = Callable[[Mapping[str, Any]], Any]
"""Padded inputs -> (n_pairs, 1) logits."""


@dataclass(frozen=True)
class Loaded:
    """A classifier as its library loaded it."""

    network: Any
    """What moves to the device."""
    tokenizer: Any
    run: RunNetwork
    plain: Any = None
    """The network that OpenVINO can compile: a class of transformers without further modules."""


def load_sequence_classifier(name: str, entry: Classifier, *, device: str) -> CheckpointScorer:
    """Load a sequence classifier; on a GPU ``flag`` has float16 weights, others run under autocast.

    Raises InputError if it has several outputs or an untrained one, takes fewer tokens than the
    entry sets, or its files declare another use.
    """
    import torch

    dtype = number_format(entry, device)
    folder = checkpoint_folder(entry)
    check_files(folder)
    refuse_other_classifier(folder)
    is_flag = isinstance(entry, FlagReranker)
    loaded = _load(folder, entry)
    network, tokenizer = loaded.network, loaded.tokenizer
    _check_padding(tokenizer, getattr(network, "transformers_model", network), entry.checkpoint)
    network.to(device).eval()
    if dtype != "float32" or is_flag:  # transformers keeps the format of a file
        network.to(getattr(torch, dtype) if is_flag else torch.float32)
    if dtype != "float32":
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear) and layer.out_features == 1:
                layer.forward = partial(linear_in_float32, layer)  # type: ignore[method-assign]
    names = [name for name in CLASSIFIER_INPUTS if name in tokenizer.model_input_names]

    def logits(
        items: Sequence[Tokens], run: RunNetwork = loaded.run, packed: Packed | None = None
    ) -> Any:
        rows = {
            "input_ids": [item.ids for item in items],
            "attention_mask": [np.ones_like(item.ids) for item in items],
            "token_type_ids": [item.types for item in items],
        }
        fill = {"input_ids": tokenizer.pad_token_id}
        side = "right" if packed else tokenizer.padding_side
        inputs = {key: pad_rows(rows[key], fill.get(key, 0), side=side).to(device) for key in names}
        types = rows["token_type_ids"] if "token_type_ids" in names else None
        casts = dtype != "float32" and not is_flag
        with torch.inference_mode(), torch.autocast(device, getattr(torch, dtype), enabled=casts):
            if packed is None:
                return run(inputs)[:, 0]
            with packed.replacing(rows["input_ids"], types):  # only the head runs padded
                return run(inputs)[:, 0]

    read = partial(read_flag_pairs if is_flag else _read_pairs, tokenizer, entry.max_tokens)
    scorer = CheckpointScorer(name, entry, dtype, entry.max_tokens, read, logits)
    if loaded.plain is not None and (device, dtype) == ("cpu", "float32"):
        compiled = _compile(scorer, loaded.plain, names, loaded.run)
        if compiled is not None:
            return replace(scorer, logits=partial(logits, run=compiled))
    packed = _pack(scorer, getattr(network, "transformers_model", network), device)
    without_padding = partial(logits, packed=packed)
    if packed is None or not _agrees(scorer, without_padding):
        return scorer
    return replace(scorer, logits=without_padding, packs=True)


def _load(folder: Path, entry: Classifier) -> Loaded:
    if isinstance(entry, FlagReranker):
        return _load_flag(folder, entry)
    is_ported = getattr(entry, "architecture", "auto") != "auto"
    return _load_ported(folder, entry) if is_ported else _load_library(folder, entry)


def _pack(scorer: CheckpointScorer, network: Any, device: str) -> Packed | None:
    """Return the transformer below a classifier's head, for packed pairs."""

    def tokenize(texts: Sequence[str]) -> list[np.ndarray]:
        return [item.ids for item in scorer.tokenize([(texts[-1], text) for text in texts])]

    return pack_network(
        getattr(network, "base_model", network),
        device=device,
        dtype=scorer.dtype,
        tokenize=tokenize,
        title=f"checkpoint {scorer.entry.checkpoint!r}",
    )


def _agrees(scorer: CheckpointScorer, packed: Callable[[Sequence[Tokens]], Any]) -> bool:
    """Return whether packed pairs have the logits of single pairs; log if not."""
    words = "evidence late in a long document is what many retrievers of today miss most".split()
    texts = [" ".join(words[i % len(words)] for i in range(n)) for n in (60, 2, 200, 13)]
    items = scorer.tokenize([(texts[1], text) for text in texts])
    logits: Any = scorer.logits
    try:
        found = packed(items).double().cpu().numpy()
        alone = np.array([float(logits([item])[0]) for item in items])
        apart = float((np.abs(found - alone) / np.maximum(1, np.abs(alone))).max())
        reason = f"logits differ by {apart:.1g}"
    except Exception as error:  # a head may raise anything
        apart, reason = np.inf, str(error).partition("\n")[0]
    if not apart <= PACKED_BOUND[scorer.dtype]:
        logger.info("checkpoint %r: texts are padded (%s)", scorer.entry.checkpoint, reason)
        return False
    return True


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


def _load_library(folder: Path, entry: Classifier) -> Loaded:
    from sentence_transformers import CrossEncoder

    trusts = bool(getattr(entry, "trust_remote_code", False))
    model = load_model(CrossEncoder, folder, trust_remote_code=trusts, dtype="float32")
    network = model.transformers_model
    if not trusts:
        _refuse_causal(entry, network.config.architectures)
    _check_outputs(entry, model.num_labels, network)
    refuse_unread(model[0], entry.checkpoint, lengths=False)  # pairs have no role
    _warn_of_length(entry, folder, model.max_seq_length)
    return Loaded(
        model,
        model.tokenizer,
        lambda inputs: model(dict(inputs))["scores"],
        plain=network if len(model) == 1 and not trusts else None,
    )


def _load_flag(folder: Path, entry: Classifier) -> Loaded:
    from FlagEmbedding import FlagReranker as Library

    _refuse_causal(entry, read_json_object(folder / "config.json").get("architectures"))
    with checking_weights(folder):
        model = Library(str(folder), max_length=entry.max_tokens, devices="cpu")
    network = model.model
    check_tokenizer(model.tokenizer, folder)
    _check_outputs(entry, network.config.num_labels, network)
    # The library moves the network to the CPU when it deletes `model`: `run` keeps it.
    return Loaded(
        network, model.tokenizer, lambda inputs: model.model(**inputs).logits, plain=network
    )


def _refuse_causal(entry: Classifier, architectures: list[str] | None) -> None:
    """Raise InputError if a checkpoint was saved as a language model."""
    made_for = (architectures or ["none"])[0]
    if made_for.endswith("ForCausalLM"):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: was saved as {made_for}, without a classifier's "
            "output layer; see config/rerankers.yaml for other backends"
        )


def _check_outputs(entry: Classifier, n_outputs: int, network: Any) -> None:
    """Raise InputError unless a network has one output and takes ``max_tokens`` tokens."""
    if n_outputs != 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: has {n_outputs} outputs, but a reranker has 1. Is "
            "it another kind of classifier?"
        )
    check_positions(network, entry.checkpoint, entry.max_tokens)


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


def _load_ported(folder: Path, entry: Classifier) -> Loaded:
    assert isinstance(entry, CrossEncoderReranker)
    refuse_for_port(folder)
    tokenizer = load_checkpoint_tokenizer(folder, as_stored=True)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    network = port(entry.architecture).load_classifier(
        folder, read_json_object(folder / "config.json")
    )
    check_positions(network, entry.checkpoint, entry.max_tokens)
    return Loaded(network, tokenizer, lambda inputs: network(**inputs).logits)


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
    queries, texts = (list(side) for side in zip(*pairs, strict=True))
    cut = {"truncation": "longest_first", "max_length": max_tokens}
    for encoding in encode(tokenizer, queries, texts, **cut):
        visible = partial(visible_chars, encoding, sequence=1)
        yield Reading(encoding.ids, visible, encoding.type_ids)
