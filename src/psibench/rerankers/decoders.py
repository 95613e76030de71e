"""Rerankers that are language models: the score is computed from the state of the last token.

A pair is one prompt. Batches are padded after it, where no token of a causal network sees the
padding, so that other pairs change neither positions nor rounding. transformers has the networks.

- ``qwen3``: the probability of "yes" against "no" as the answer to a fixed question. Format and
  score follow the model card (Qwen/Qwen3-Reranker-0.6B) and Zhang et al. 2025, arXiv:2506.05176,
  section 2: softmax over the logits of both words, which is the sigmoid of their difference.
- ``flag-llm``: the logit of "Yes". FlagEmbedding's `FlagLLMReranker` loads the checkpoint; query,
  text and prompt are tokenized separately, as there. psibench computes only the last position's
  logit of "Yes", where the library computes all words' logits at all positions.
- ``mxbai``: mxbai-rerank-v2, which reads pairs in the same way. The score is the logit of "1"
  minus the logit of "0" (github.com/mixedbread-ai/mxbai-rerank). Here ``max_tokens`` includes the
  query's prefix of about 25 tokens.
- ``flag-layerwise``: FlagEmbedding's `LayerWiseFlagLLMReranker`, the output of a middle layer of
  MiniCPM, with pairs read as by ``flag-llm``. FlagEmbedding 1.4.2 cannot load its network with
  transformers 5, which replaces the config's `rope_scaling: null` (KeyError 'type' in
  `MiniCPMAttention._init_rope`). MiniCPM (Hu et al. 2024, arXiv:2404.06395, section 4) is Llama
  with embeddings times scale_emb and residual branches times scale_depth / sqrt(layers), which
  transformers calls Granite.

FlagEmbedding's and mxbai's rerankers run in float16 on a GPU, as in the papers, and in float32 on a
CPU.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from psibench.config.rerankers import (
    FlagLayerwiseReranker,
    FlagLlmReranker,
    MxbaiReranker,
    PromptedReranker,
    Qwen3Reranker,
)
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_folder, read_json_object
from psibench.models.networks import check_positions
from psibench.models.packing import Packed, pack_network
from psibench.models.tokenizing import load_checkpoint_tokenizer, pad_rows
from psibench.models.weights import (
    check_network_config,
    check_tokenizer,
    checking_weights,
    load_port,
    quiet,
    read_tensors,
    set_weights,
)
from psibench.rerankers.checkpoints import (
    CheckpointScorer,
    Reading,
    Tokens,
    encode,
    number_format,
    visible_chars,
)
from psibench.rerankers.flag_pairs import Read, reads_prompted
from psibench.rerankers.protocols import TextPair

DecoderEntry = Qwen3Reranker | PromptedReranker


def load_decoder(name: str, entry: DecoderEntry, *, device: str) -> CheckpointScorer:
    """Load a language model in the entry's number format, with its output layer in float32.

    Raises InputError if an answer is not a single token, there is no output at ``cutoff_layer``, or
    the network takes fewer tokens than ``max_tokens`` and the prompt.
    """
    import torch

    folder = checkpoint_folder(entry)
    dtype = number_format(entry, device)
    with quiet():
        network, head, longest, read = _load(folder, entry, dtype)
    is_prompted = longest > entry.max_tokens
    key = "max_tokens with its prompt" if is_prompted else "max_tokens"
    check_positions(network, entry.checkpoint, longest, key)
    network.config.use_cache = False  # nothing is generated
    network.to(device, getattr(torch, dtype)).eval()
    head.to(device).eval()

    def logits(items: Sequence[Tokens], packed: Packed | None = None) -> Any:
        rows = [item.ids for item in items]
        last = torch.tensor([item.n_tokens - 1 for item in items])
        with torch.inference_mode():
            if packed is None:
                states = network(input_ids=pad_rows(rows).to(device)).last_hidden_state
            else:
                states = packed(rows)
            return head(states[torch.arange(len(items)), last].float())[:, 0]

    scorer = CheckpointScorer(name, entry, dtype, longest, read, logits)
    packed = pack_network(
        network,
        device=device,
        dtype=dtype,
        tokenize=lambda texts: [item.ids for item in scorer.tokenize([(t, t) for t in texts])],
        title=f"checkpoint {entry.checkpoint!r}",
    )
    if packed is None:
        return scorer
    return replace(scorer, logits=partial(logits, packed=packed), packs=True)


def _load(folder: Path, entry: DecoderEntry, dtype: str) -> tuple[Any, Any, int, Read]:
    """Return the network, the output layer, the longest input, and a function that reads pairs."""
    if isinstance(entry, FlagLayerwiseReranker):
        tokenizer = load_checkpoint_tokenizer(folder, as_stored=True)
        network, head = _load_minicpm(folder, entry)
    elif isinstance(entry, FlagLlmReranker):
        from FlagEmbedding import FlagLLMReranker

        with checking_weights(folder):
            library = FlagLLMReranker(str(folder), devices="cpu")
        tokenizer = check_tokenizer(library.tokenizer, folder)
        network = library.model.base_model
        head = _answer_head(library.model, tokenizer, entry)
        library.model = None  # which the library would move to the CPU when it is deleted
    else:
        from transformers import AutoModelForCausalLM

        tokenizer = load_checkpoint_tokenizer(folder)
        model = load_port(AutoModelForCausalLM, folder, dtype=dtype)
        network, head = model.base_model, _answer_head(model, tokenizer, entry)
    if isinstance(entry, Qwen3Reranker):
        return network, head, entry.max_tokens, _reads_qwen3(tokenizer, entry)
    return network, head, *reads_prompted(tokenizer, entry)


def _answer_head(model: Any, tokenizer: Any, entry: DecoderEntry) -> Any:
    """Return a float32 layer for an answer's logit, minus the other answer's if there are two."""
    import torch

    words = ["Yes"]
    if isinstance(entry, Qwen3Reranker | MxbaiReranker):
        words = ["yes", "no"] if isinstance(entry, Qwen3Reranker) else ["1", "0"]
    tokens = []
    for word in words:
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: its tokenizer does not read {word!r} as one "
                f"token, whose logit would be the score. Is {entry.backend!r} the right backend?"
            )
        tokens.append(ids[0])
    output = model.get_output_embeddings()
    head = torch.nn.Linear(output.in_features, 1, bias=output.bias is not None)
    with torch.no_grad():
        for target, rows in ((head.weight, output.weight), (head.bias, output.bias)):
            if rows is not None:
                answer, *against = (rows[token].float() for token in tokens)
                target.copy_(answer - sum(against))
    return head


# --- Reading pairs ---

QWEN3_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
QWEN3_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
MIN_PAIR_TOKENS = 32


def _reads_qwen3(tokenizer: Any, entry: Qwen3Reranker) -> Read:
    """Read pairs between prefix and suffix, cut at the text's end to ``max_tokens`` in total."""
    prefix, suffix = (each.ids for each in encode(tokenizer, [QWEN3_PREFIX, QWEN3_SUFFIX]))
    longest = entry.max_tokens - len(prefix) - len(suffix)
    if longest < MIN_PAIR_TOKENS:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} leaves {longest} "
            f"tokens for a pair after the prompt's tokens; set it to at least "
            f"{entry.max_tokens - longest + MIN_PAIR_TOKENS}"
        )

    def read(pairs: Sequence[TextPair]) -> Iterator[Reading]:
        heads = [
            f"<Instruct>: {entry.instruction}\n<Query>: {query}\n<Document>: " for query, _ in pairs
        ]
        whole = [head + text for head, (_, text) in zip(heads, pairs, strict=True)]
        cut = {"add_special_tokens": False, "truncation": True, "max_length": longest}
        encodings = encode(tokenizer, whole, **cut)
        for head, encoding in zip(heads, encodings, strict=True):
            visible = partial(visible_chars, encoding, before=len(head))
            yield Reading([*prefix, *encoding.ids, *suffix], visible)

    return read


# --- MiniCPM, which transformers calls Granite ---

_MINICPM_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
    "hidden_act", "max_position_embeddings", "rms_norm_eps", "attention_bias", "pad_token_id",
)  # fmt: skip
_REQUIRED_MINICPM = {"head_multi": True, "head_type": "simple", "rope_scaling": None}


def _load_minicpm(folder: Path, entry: FlagLayerwiseReranker) -> tuple[Any, Any]:
    """Load MiniCPM's layers up to the cut-off, and that layer's output layer in float32."""
    import torch
    from transformers import GraniteConfig, GraniteModel

    config, cutoff = read_json_object(folder / "config.json"), entry.cutoff_layer
    check_network_config(config, _REQUIRED_MINICPM, where=f"{folder}: backend flag-layerwise")
    if "start_layer" not in config:
        raise InputError(
            f"{folder}: backend flag-layerwise: its config.json has no start_layer, so the "
            "checkpoint has no output per layer. Use flag-llm for other language models."
        )
    first, n_layers = config["start_layer"], config["num_hidden_layers"]
    if not first <= cutoff <= n_layers:
        raise InputError(
            f"{folder}: cutoff_layer is {cutoff}; the checkpoint has outputs for the layers "
            f"{first} to {n_layers}"
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
        **{key: config[key] for key in _MINICPM_KEYS if key in config},
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
