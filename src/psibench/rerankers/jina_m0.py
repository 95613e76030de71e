"""The text side of jina-reranker-m0, read and scored as its own code (modeling.py) does.

A pair is one prompt, the text first, and a token behind it that means nothing else there. Two dense
layers over that token's state give the logit; the score is the sigmoid of the logit less 2.65. The
network is Qwen2-VL's text model, which is Qwen2 where there is no picture.

Own code runs it: the checkpoint's own needs `trust_remote_code`, and FlagEmbedding and
`CrossEncoder` have no such head.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from psibench.config.rerankers import JinaM0Reranker
from psibench.models.architectures.jina_v4 import NAMES, OTHER_PARTS, text_config
from psibench.models.checkpoints import read_json
from psibench.models.dtypes import fast_dtype
from psibench.models.weights import load_port, quiet, read_tensors, set_weights
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    check_positions,
    checkpoint_folder,
    encode,
    fast_tokenizer,
)
from psibench.rerankers.protocols import Pair

BEFORE_TEXT = "**Document**:\n"
BEFORE_QUERY = "\n**Query**:\n"
SCORE_TOKEN = 100
BIAS = 2.65
HEAD = "score."


def load_jina_m0(name: str, entry: JinaM0Reranker, *, device: str) -> CheckpointScorer:
    """Load the network in the entry's number format, its two last layers in float32."""
    from transformers import Qwen2Model

    dtype = fast_dtype(device) if entry.dtype == "auto" else entry.dtype
    folder = checkpoint_folder(entry)
    tokenizer = fast_tokenizer(folder)
    config = text_config(
        folder, read_json(folder / "config.json"), kind="jina-m0", model_types=("qwen2_vl",)
    )
    with quiet():
        network = load_port(
            Qwen2Model, folder, "jina-m0",
            leftover=rf"{OTHER_PARTS}|{HEAD}", key_mapping=NAMES, config=config, dtype=dtype,
        )  # fmt: skip
    check_positions(network, entry, entry.max_tokens)
    head = _load_head(folder, config.hidden_size, entry).to(device)
    logits = partial(_logits, tokenizer, network.to(device).eval(), head, entry)
    read = partial(_read, tokenizer, entry)
    return CheckpointScorer(name, entry, dtype, entry.max_tokens, read, logits)


def _load_head(folder: Path, hidden: int, entry: JinaM0Reranker) -> Any:
    from torch import nn

    head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    found = read_tensors(folder, lambda name: name.startswith(HEAD))
    weights = {name.removeprefix(HEAD): tensor for name, tensor in found.items()}
    return set_weights(head, weights, entry).eval()


def _logits(
    tokenizer: Any, network: Any, head: Any, entry: JinaM0Reranker, pairs: list[Pair]
) -> Any:
    """Score a batch, padded behind its texts, where no token of a causal network sees it."""
    import torch

    ids = [torch.tensor(found) for _, found in _inputs(tokenizer, entry, pairs)]
    last = torch.tensor([len(found) - 1 for found in ids])
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    with torch.inference_mode():
        states = network(input_ids=padded.to(network.device)).last_hidden_state
        logits = head(states[torch.arange(len(ids)), last].float())
    return logits[:, 0].cpu() - BIAS


def _read(tokenizer: Any, entry: JinaM0Reranker, pairs: Sequence[Pair]) -> Iterator[Reading]:
    for text, ids in _inputs(tokenizer, entry, pairs):
        yield Reading(len(ids), text)


def _inputs(
    tokenizer: Any, entry: JinaM0Reranker, pairs: Sequence[Pair]
) -> Iterator[tuple[Any, list[int]]]:
    """Yield each text's own encoding, cut, and the ids of the whole input.

    A text is cut at ``max_tokens - query_tokens``, then the prompt's end at ``max_tokens``, score
    token included. The text is cut at characters here; the original decodes its tokens instead,
    which differs where one ends within a character.
    """
    cut: dict[str, Any] = {"add_special_tokens": False, "truncation": True}
    room = entry.max_tokens - entry.query_tokens
    texts = encode(tokenizer, [text for _, text in pairs], max_length=room, **cut)
    prompts = [
        BEFORE_TEXT
        + (text[: found.offsets[-1][1]] if found.overflowing else text)
        + BEFORE_QUERY
        + query
        for (query, text), found in zip(pairs, texts, strict=True)
    ]
    whole = encode(tokenizer, prompts, max_length=entry.max_tokens - 1, **cut)
    for text, found in zip(texts, whole, strict=True):
        yield text, [*found.ids, SCORE_TOKEN]
