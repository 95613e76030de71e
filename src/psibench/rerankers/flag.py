"""Rerankers that FlagEmbedding's classes score (version 1.4.2, the BGE authors' package).

- ``flag``: `FlagReranker`, a cross-encoder. A query is cut at three quarters of ``max_tokens``, the
  text at what remains; the score is the sigmoid of the logit.
- ``flag-llm``: `FlagLLMReranker`, the logit of "Yes" at the last position of a language model.
- ``mxbai``: that class again, for mxbai-rerank-v2, which its makers read alike: query, text and
  prompt tokenized apart, the query cut at three quarters of ``max_tokens``. The score is the logit
  of "1" less that of "0" (github.com/mixedbread-ai/mxbai-rerank). Their query's prefix is counted
  in ``max_tokens`` here, some 25 tokens.
- ``flag-layerwise``: `LayerWiseFlagLLMReranker`, the output of a middle layer of MiniCPM.

They run in float16 on a GPU, as the papers' did, and in float32 on a CPU.

Own code only loads the third's network: neither the MiniCPM that FlagEmbedding has nor the one that
comes with the checkpoint runs on transformers 5. MiniCPM (Hu et al. 2024, arXiv:2404.06395,
section 4) is Llama with embeddings times scale_emb and residual branches times scale_depth /
sqrt(layers): what transformers calls Granite. Its formats and batches are FlagEmbedding's again.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from psibench.config.rerankers import (
    FlagLayerwiseReranker,
    FlagLlmReranker,
    FlagReranker,
    MxbaiReranker,
    PromptedReranker,
)
from psibench.errors import InputError
from psibench.models.checkpoints import read_json
from psibench.models.weights import check_config, read_tensors, set_weights
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    answer_tokens,
    check_classifier,
    check_positions,
    checkpoint_folder,
    count_positions_from_text,
    encode,
    fast_tokenizer,
    keep_logits_of,
    last_product_in_float32,
    linear_in_float32,
    read_together,
    take_faster_engine,
)
from psibench.rerankers.protocols import Pair

SEPARATOR = "\n"


def load_flag(
    name: str, entry: FlagReranker | PromptedReranker, *, device: str
) -> CheckpointScorer:
    """Load one of FlagEmbedding's rerankers.

    Raises InputError if it has several outputs or none at ``cutoff_layer``, or takes fewer tokens
    than ``max_tokens`` and the prompt.
    """
    dtype = "float32" if device == "cpu" or entry.dtype == "float32" else "float16"
    folder = checkpoint_folder(entry)
    scorer = _scorer(
        folder, entry, devices=device, use_fp16=dtype == "float16", max_length=entry.max_tokens
    )
    tokenizer = scorer.tokenizer
    if isinstance(entry, FlagReranker):
        longest = entry.max_tokens
        check_classifier(scorer.model, entry, n_outputs=scorer.model.config.num_labels)
        network = scorer.model.float()  # loaded as stored, which may be bfloat16
        if device == "cpu":
            take_faster_engine(network, tokenizer, entry, partial(_compute, scorer))
        last_product_in_float32(network)
        read = partial(_read_pair, tokenizer, longest)
    else:
        separator, prompt = encode(tokenizer, [SEPARATOR, entry.prompt], add_special_tokens=False)
        start = tokenizer.bos_token_id
        if isinstance(entry, FlagLlmReranker | MxbaiReranker):
            answer, against = scorer.yes_loc, None
            if isinstance(entry, MxbaiReranker):
                answer, against = answer_tokens(tokenizer, "10", entry)
            keep_logits_of(scorer.model, [answer], against=against)
            scorer.yes_loc = 0
            start = None if start == tokenizer.pad_token_id else start
        before = len(separator) + (start is not None)
        after = len(separator) + len(prompt)
        longest = entry.max_tokens + 2 * after
        check_positions(scorer.model, entry, longest)
        count_positions_from_text(scorer.model)
        read = partial(_read_prompted, tokenizer, entry, before, after)
    _run_once(scorer)
    return CheckpointScorer(name, entry, dtype, longest, read, partial(_compute, scorer))


def _scorer(folder: Path, entry: FlagReranker | PromptedReranker, **options: Any) -> Any:
    """Make FlagEmbedding's object of a local checkpoint."""
    import FlagEmbedding
    from FlagEmbedding.abc.inference import AbsReranker

    if isinstance(entry, FlagReranker):
        return FlagEmbedding.FlagReranker(str(folder), **options)
    options |= {
        "prompt": entry.prompt,
        "query_instruction_for_rerank": entry.query_prefix,
        "passage_instruction_for_rerank": entry.text_prefix,
    }
    if isinstance(entry, FlagLayerwiseReranker):
        kind = FlagEmbedding.LayerWiseFlagLLMReranker
        scorer = kind.__new__(kind)  # its own __init__ loads a network that does not run
        AbsReranker.__init__(scorer, str(folder), **options)
        scorer.cutoff_layers = [entry.cutoff_layer]
        scorer.tokenizer = fast_tokenizer(folder)
        scorer.model = _load_minicpm(folder, entry)
        return scorer
    return FlagEmbedding.FlagLLMReranker(str(folder), **options)


class _ForwardError(Exception):
    """A RuntimeError of the network: compute_score takes any for lack of memory, and goes on."""

    def __init__(self, reason: RuntimeError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _run_once(scorer: Any) -> None:
    """Let compute_score run a batch once, and no error of it pass for lack of memory.

    It runs the first batch of a call to see whether it fits, and then again: the second time has
    the first one's logits. Hidden states of all layers, which it asks for, are not kept.
    """
    import torch

    forward = scorer.model.forward
    last: list[Any] = []

    def once(**inputs: Any) -> Any:
        ids = inputs["input_ids"]
        if not (last and torch.equal(last[0], ids)):
            last.clear()
            inputs.pop("output_hidden_states", None)
            try:
                last.extend((ids, forward(**inputs).logits))
            except RuntimeError as error:
                raise _ForwardError(error) from error
        return SimpleNamespace(logits=last[1])

    scorer.model.forward = once


def _compute(scorer: Any, pairs: list[Pair]) -> list[float]:
    from FlagEmbedding.inference.reranker.decoder_only import base, layerwise

    for module in (base, layerwise):
        module.trange = lambda *bounds, **_: range(*bounds)  # no progress bar for each batch
    try:
        # One more than there are: no bars of the others, either.
        found: list[float] = scorer.compute_score(pairs, batch_size=len(pairs) + 1)
    except _ForwardError as error:
        raise error.reason from None
    return found


def _read_pair(tokenizer: Any, max_tokens: int, pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Read pairs by the tokenizer's template, queries cut beforehand, then texts."""
    asked = encode(
        tokenizer, [query for query, _ in pairs],
        add_special_tokens=False, truncation=True, max_length=max_tokens * 3 // 4,
    )  # fmt: skip
    shortened = [
        (query[: found.offsets[-1][1]] if found.overflowing else query, text)
        for (query, text), found in zip(pairs, asked, strict=True)
    ]
    return read_together(tokenizer, shortened, cut="only_second", max_tokens=max_tokens)


def _read_prompted(
    tokenizer: Any, entry: PromptedReranker, before: int, after: int, pairs: Sequence[Pair]
) -> Iterator[Reading]:
    r"""Read pairs as ``<s>A: query\nB: text\nprompt``.

    Query and text are cut at three quarters of ``max_tokens`` and at ``max_tokens``, both together
    at ``max_tokens`` plus separator and prompt, after which these come once more: FlagEmbedding
    counts them on top. Beside query and text there are ``before`` tokens of start and separator,
    behind them ``after`` of separator and prompt.
    """
    cut: dict[str, Any] = {"add_special_tokens": False, "truncation": True}
    limit = entry.max_tokens
    asked = [entry.query_prefix + query for query, _ in pairs]
    texts = [entry.text_prefix + text for _, text in pairs]
    for query, text in zip(
        encode(tokenizer, asked, max_length=limit * 3 // 4, **cut),
        encode(tokenizer, texts, max_length=limit, **cut),
        strict=True,
    ):
        text.truncate(max(0, limit + after - before - len(query)))
        n_tokens = before + len(query) + len(text) + after
        yield Reading(n_tokens, text, before=len(entry.text_prefix))


KEPT = (
    "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
    "hidden_act", "max_position_embeddings", "rms_norm_eps", "attention_bias", "pad_token_id",
)  # fmt: skip
REQUIRED = {"head_multi": True, "head_type": "simple", "rope_scaling": None}


def _load_minicpm(folder: Path, entry: FlagLayerwiseReranker) -> Any:
    """Load MiniCPM's layers up to the cut-off and that layer's linear output, in float32.

    The network takes what LayerWiseFlagLLMReranker gives it, and gives what it takes: ``logits``,
    for each cut-off layer (n_pairs, n_tokens), in float32.
    """
    import torch
    from transformers import GraniteConfig, GraniteModel

    config = read_json(folder / "config.json")
    _check_minicpm(folder, config, entry)
    cutoff = entry.cutoff_layer
    head_name = f"lm_head.{cutoff - config['start_layer']}.linear_head.weight"

    def wanted(name: str) -> bool:
        layer = re.match(r"model\.layers\.(\d+)\.", name)
        in_reach = name.startswith("model.") and (layer is None or int(layer[1]) < cutoff)
        return in_reach or name == head_name

    weights = read_tensors(folder, wanted)
    if head_name not in weights:
        raise InputError(f"{folder}: no tensor {head_name}; is this a layerwise checkpoint?")
    head_size = config["hidden_size"] // config["num_attention_heads"]
    granite = GraniteConfig(
        **{key: config[key] for key in KEPT if key in config},
        num_hidden_layers=cutoff,
        embedding_multiplier=config.get("scale_emb", 1),
        residual_multiplier=config.get("scale_depth", 1) / math.sqrt(config["num_hidden_layers"]),
        attention_multiplier=head_size**-0.5,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": float(config.get("rope_theta", 10_000.0)),
        },
    )

    class CutMiniCpm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = granite
            self.model = GraniteModel(granite)
            self.head = torch.nn.Linear(granite.hidden_size, 1, bias=False)

        def forward(self, **inputs: Any) -> Any:
            inputs.pop("cutoff_layers", None)  # the layers beyond are not there
            output = self.model(**inputs, use_cache=False)
            logits = linear_in_float32(self.head, output.last_hidden_state)
            return SimpleNamespace(logits=(logits[..., 0],))

    renamed = {name.replace(head_name, "head.weight"): w for name, w in weights.items()}
    return set_weights(CutMiniCpm(), renamed, entry)


def _check_minicpm(folder: Path, config: Mapping[str, Any], entry: FlagLayerwiseReranker) -> None:
    check_config(config, REQUIRED, where=f"{folder}: backend flag-layerwise")
    if "start_layer" not in config:
        raise InputError(
            f"{folder}: backend flag-layerwise: its config.json has no start_layer; the checkpoint "
            "has no output per layer. Use flag-llm for other language models."
        )
    first, last = config["start_layer"], config["num_hidden_layers"]
    if not first <= entry.cutoff_layer <= last:
        raise InputError(
            f"{folder}: cutoff_layer is {entry.cutoff_layer}; the checkpoint has outputs for "
            f"layers {first} to {last}"
        )
