"""Rerankers that are language models: a number made of the state of a pair's last token.

A pair is one prompt. Batches are padded behind it, where no token of a causal network sees it: a
pair's positions, and so its rounding, are its own. transformers has the networks.

- ``qwen3``: how probable "yes" is against "no" as the answer to a fixed question. Format and score
  as on the model card (Qwen/Qwen3-Reranker-0.6B) and in Zhang et al. 2025, arXiv:2506.05176,
  section 2: softmax over the logits of both words, which is the sigmoid of their difference.
- ``flag-llm``: the logit of "Yes", read as FlagEmbedding's `FlagLLMReranker` reads pairs (version
  1.4.2, the BGE authors' package): query, text and prompt tokenized apart.
- ``mxbai``: mxbai-rerank-v2, whose makers read alike. The score is the logit of "1" less that of
  "0" (github.com/mixedbread-ai/mxbai-rerank). Their query's prefix is counted in ``max_tokens``
  here, some 25 tokens.
- ``flag-layerwise``: FlagEmbedding's `LayerWiseFlagLLMReranker`, the output of a middle layer of
  MiniCPM. Neither the network that FlagEmbedding has nor the one that comes with the checkpoint
  runs on transformers 5. MiniCPM (Hu et al. 2024, arXiv:2404.06395, section 4) is Llama with
  embeddings times scale_emb and residual branches times scale_depth / sqrt(layers): what
  transformers calls Granite.

FlagEmbedding's and mxbai's run in float16 on a GPU, as the papers' did, and in float32 on a CPU.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from psibench.config.rerankers import (
    FlagLayerwiseReranker,
    MxbaiReranker,
    PromptedReranker,
    Qwen3Reranker,
)
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_folder, read_json
from psibench.models.networks import check_positions
from psibench.models.tokenizing import load_tokenizer, pad_rows
from psibench.models.weights import check_config, load_port, quiet, read_tensors, set_weights
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    Tokens,
    encode,
    number_format,
)
from psibench.rerankers.protocols import Pair

DecoderEntry = Qwen3Reranker | PromptedReranker
Read = Callable[[Sequence[Pair]], Iterator[Reading]]
CUT: dict[str, Any] = {"add_special_tokens": False, "truncation": True}


def load_decoder(name: str, entry: DecoderEntry, *, device: str) -> CheckpointScorer:
    """Load a language model, weights in the entry's number format, its last layers in float32.

    Raises InputError if the answers are not one token each, there is no output at ``cutoff_layer``,
    or the network takes fewer tokens than ``max_tokens`` and the prompt.
    """
    import torch

    folder = checkpoint_folder(entry)
    dtype = number_format(entry, device)
    with quiet():
        network, head, longest, read = _load(folder, entry, dtype)
    is_prompted = longest > entry.max_tokens
    key = "max_tokens with its prompt" if is_prompted else "max_tokens"
    check_positions(network, entry.checkpoint, longest, key)
    network.config.use_cache = False  # no token comes after the last
    network.to(device, getattr(torch, dtype)).eval()
    head.to(device).eval()

    def logits(items: Sequence[Tokens]) -> Any:
        ids = pad_rows([item.ids for item in items]).to(device)
        last = torch.tensor([item.n_tokens - 1 for item in items])
        with torch.inference_mode():
            states = network(input_ids=ids).last_hidden_state
            return head(states[torch.arange(len(items)), last].float())[:, 0]

    return CheckpointScorer(name, entry, dtype, longest, read, logits)


def _load(folder: Path, entry: DecoderEntry, dtype: str) -> tuple[Any, Any, int, Read]:
    """Return network, output layer, longest input, and how pairs are read."""
    if isinstance(entry, FlagLayerwiseReranker):
        tokenizer = load_tokenizer(folder, as_stored=True)
        network, head = _load_minicpm(folder, entry)
    else:
        from transformers import AutoModelForCausalLM

        tokenizer = load_tokenizer(folder)
        model = load_port(AutoModelForCausalLM, folder, dtype=dtype)
        network, head = model.base_model, _answer_head(model, tokenizer, entry)
    if isinstance(entry, Qwen3Reranker):
        return network, head, entry.max_tokens, _reads_qwen3(tokenizer, entry)
    return network, head, *_reads_prompted(tokenizer, entry)


def _answer_head(model: Any, tokenizer: Any, entry: DecoderEntry) -> Any:
    """Return the layer that gives the logit of an answer, less that of another, in float32."""
    import torch

    words = ["Yes"]
    if isinstance(entry, Qwen3Reranker | MxbaiReranker):
        words = ["yes", "no"] if isinstance(entry, Qwen3Reranker) else ["1", "0"]
    tokens = []
    for word in words:
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: {word!r} is not one token of its tokenizer, "
                f"whose logit is this backend's score. Is {entry.backend!r} the right backend?"
            )
        tokens.append(ids[0])
    output = model.get_output_embeddings()
    head = torch.nn.Linear(output.in_features, 1, bias=output.bias is not None)
    with torch.no_grad():
        for kept, rows in ((head.weight, output.weight), (head.bias, output.bias)):
            if rows is not None:
                answer, *against = (rows[token].float() for token in tokens)
                kept.copy_(answer - sum(against))
    return head


# --- What is read of a pair ---

QWEN3_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
QWEN3_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
MIN_ROOM = 32


def _reads_qwen3(tokenizer: Any, entry: Qwen3Reranker) -> Read:
    """Read pairs between prefix and suffix, which ``max_tokens`` counts: the text's end is cut."""
    prefix, suffix = (found.ids for found in encode(tokenizer, [QWEN3_PREFIX, QWEN3_SUFFIX]))
    room = entry.max_tokens - len(prefix) - len(suffix)
    if room < MIN_ROOM:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} leaves {room} tokens "
            f"beside the format's own; needed: {MIN_ROOM}"
        )

    def read(pairs: Sequence[Pair]) -> Iterator[Reading]:
        heads = [
            f"<Instruct>: {entry.instruction}\n<Query>: {query}\n<Document>: " for query, _ in pairs
        ]
        whole = [head + text for head, (_, text) in zip(heads, pairs, strict=True)]
        encodings = encode(tokenizer, whole, max_length=room, **CUT)
        for head, found in zip(heads, encodings, strict=True):
            yield Reading([*prefix, *found.ids, *suffix], found, before=len(head))

    return read


def _reads_prompted(tokenizer: Any, entry: PromptedReranker) -> tuple[int, Read]:
    r"""Read pairs as ``<s>A: query\nB: text\nprompt``; returns the longest input, too.

    Query and text are cut at three quarters of ``max_tokens`` and at ``max_tokens``, both together
    at ``max_tokens`` plus separator and prompt, after which these come once more: FlagEmbedding
    counts them on top.
    """
    separator, prompt = (
        found.ids for found in encode(tokenizer, ["\n", entry.prompt], add_special_tokens=False)
    )
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    if start == [tokenizer.pad_token_id] and not isinstance(entry, FlagLayerwiseReranker):
        start = []
    limit, behind = entry.max_tokens, [*separator, *prompt]

    def read(pairs: Sequence[Pair]) -> Iterator[Reading]:
        queries = [entry.query_prefix + query for query, _ in pairs]
        texts = [entry.text_prefix + text for _, text in pairs]
        for query, text in zip(
            encode(tokenizer, queries, max_length=limit * 3 // 4, **CUT),
            encode(tokenizer, texts, max_length=limit, **CUT),
            strict=True,
        ):
            before = [*start, *query.ids, *separator]
            text.truncate(max(0, limit + len(behind) - len(before)))
            ids = [*before, *text.ids, *behind]
            yield Reading(ids, text, before=len(entry.text_prefix))

    return limit + 2 * len(behind), read


# --- MiniCPM, which transformers has under another name ---

KEPT = (
    "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
    "hidden_act", "max_position_embeddings", "rms_norm_eps", "attention_bias", "pad_token_id",
)  # fmt: skip
REQUIRED = {"head_multi": True, "head_type": "simple", "rope_scaling": None}


def _load_minicpm(folder: Path, entry: FlagLayerwiseReranker) -> tuple[Any, Any]:
    """Load MiniCPM's layers up to the cut-off and that layer's linear output, in float32."""
    import torch
    from transformers import GraniteConfig, GraniteModel

    config, cutoff = read_json(folder / "config.json"), entry.cutoff_layer
    check_config(config, REQUIRED, where=f"{folder}: backend flag-layerwise")
    if "start_layer" not in config:
        raise InputError(
            f"{folder}: backend flag-layerwise: its config.json has no start_layer; the checkpoint "
            "has no output per layer. Use flag-llm for other language models."
        )
    first, n_layers = config["start_layer"], config["num_hidden_layers"]
    if not first <= cutoff <= n_layers:
        raise InputError(
            f"{folder}: cutoff_layer is {cutoff}; the checkpoint has outputs for layers {first} to "
            f"{n_layers}"
        )
    head_name = f"lm_head.{cutoff - first}.linear_head.weight"

    def wanted(name: str) -> bool:
        layer = re.match(r"model\.layers\.(\d+)\.", name)
        in_reach = name.startswith("model.") and (layer is None or int(layer[1]) < cutoff)
        return in_reach or name == head_name

    weights = read_tensors(folder, wanted)
    if head_name not in weights:
        raise InputError(f"{folder}: no tensor {head_name}; is this a layerwise checkpoint?")
    head_size = config["hidden_size"] // config["num_attention_heads"]
    rope = {"rope_type": "default", "rope_theta": float(config.get("rope_theta", 10_000.0))}
    granite = GraniteConfig(
        **{key: config[key] for key in KEPT if key in config},
        num_hidden_layers=cutoff,
        embedding_multiplier=config.get("scale_emb", 1),
        residual_multiplier=config.get("scale_depth", 1) / math.sqrt(n_layers),
        attention_multiplier=head_size**-0.5,
        rope_parameters=rope,
    )
    head = torch.nn.Linear(granite.hidden_size, 1, bias=False)
    set_weights(head, {"weight": weights.pop(head_name)}, folder)
    renamed = {name.removeprefix("model."): tensor for name, tensor in weights.items()}
    return set_weights(GraniteModel(granite), renamed, folder), head
