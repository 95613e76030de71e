"""Rerankers that sentence-transformers' `CrossEncoder` scores, and four that it cannot read.

- A sequence classifier with one output over query and text. Both are cut longest first; the raw
  output is the logit, its sigmoid the score, also where a checkpoint declares none
  (mmarco-mMiniLMv2): the papers compare scores in [0, 1].
- Qwen3-Reranker: how probable "yes" is against "no" as the answer to a fixed question. Format and
  score as on the model card (Qwen/Qwen3-Reranker-0.6B) and in Zhang et al. 2025, arXiv:2506.05176,
  section 2: softmax over the logits of "yes" and "no" at the last position, which is the sigmoid of
  their difference. `CrossEncoder` fills the format in as a chat template, and puts its end back
  where a pair was cut.

Own code reads and runs gte-multilingual-reranker and Jina's two (`architecture`): the code that
comes with these checkpoints imports what transformers 5 no longer has, so that `CrossEncoder`
cannot load them. And the text side of jina-reranker-m0, whose head neither it nor FlagEmbedding has
(the checkpoint's modeling.py would need `trust_remote_code`): a pair is one prompt, the text first,
and a token behind it that means nothing else there. Two dense layers over that token's state give
the logit; the score is the sigmoid of the logit less 2.65. The network is Qwen2-VL's text model,
which is Qwen2 where there is no picture.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from psibench.config.rerankers import CrossEncoderReranker, JinaM0Reranker, Qwen3Reranker
from psibench.errors import InputError
from psibench.models.architectures.gte import gte_config
from psibench.models.architectures.jina_v4 import NAMES, OTHER_PARTS, text_config
from psibench.models.checkpoints import read_json, resolve_checkpoint
from psibench.models.dtypes import fast_dtype
from psibench.models.weights import (
    load_port,
    quiet,
    read_tensors,
    set_weights,
    tokenizer_folder,
)
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
    read_together,
    take_faster_engine,
)
from psibench.rerankers.protocols import Pair

QWEN3_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
QWEN3_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
MIN_ROOM = 32

BEFORE_TEXT = "**Document**:\n"
BEFORE_QUERY = "\n**Query**:\n"
SCORE_TOKEN = 100
BIAS = 2.65
HEAD = "score."

Logits = Callable[[list[Pair]], Any]


def load_cross_encoder(name: str, entry: CrossEncoderReranker, *, device: str) -> CheckpointScorer:
    """Load a sequence classifier with float32 weights; reduced formats run under autocast.

    Raises InputError if it has several outputs or no trained one, or takes fewer tokens.
    """
    dtype = fast_dtype(device) if entry.dtype == "auto" else entry.dtype
    load = _load_library if entry.architecture == "auto" else _load_ported
    tokenizer, logits = load(entry, device, dtype)

    def autocast_logits(pairs: list[Pair]) -> Any:
        import torch

        with torch.autocast(device, getattr(torch, dtype), enabled=dtype != "float32"):
            return logits(pairs)

    read = partial(read_together, tokenizer, cut="longest_first", max_tokens=entry.max_tokens)
    return CheckpointScorer(name, entry, dtype, entry.max_tokens, read, autocast_logits)


def _load_library(entry: CrossEncoderReranker, device: str, dtype: str) -> tuple[Any, Logits]:
    import torch
    from sentence_transformers import CrossEncoder

    code = {"code_revision": entry.code_revision} if entry.code_revision else {}
    path = resolve_checkpoint(entry.checkpoint, entry.revision)
    if Path(path).is_dir():
        tokenizer_folder(Path(path))
    model = CrossEncoder(
        path,
        device=device,
        revision=entry.revision,
        max_length=entry.max_tokens,
        activation_fn=torch.nn.Identity(),
        trust_remote_code=entry.trust_remote_code,
        model_kwargs={"dtype": "float32", **code},
        config_kwargs=dict(code),
    )
    network, has_modules = model.transformers_model, len(model) > 1
    check_classifier(network, entry, n_outputs=model.num_labels, has_modules=has_modules)
    logits = partial(_predict, model)
    if (device, dtype) == ("cpu", "float32") and not (has_modules or entry.trust_remote_code):
        take_faster_engine(network, model.tokenizer, entry, logits)
    last_product_in_float32(model)
    return model.tokenizer, logits


def _predict(model: Any, pairs: list[Pair]) -> Any:
    return model.predict(pairs, batch_size=len(pairs), show_progress_bar=False)


def _load_ported(entry: CrossEncoderReranker, device: str, _: str) -> tuple[Any, Logits]:
    """Load a checkpoint into a class that is not its own; see the module's beginning."""
    import torch

    folder = checkpoint_folder(entry)
    config = read_json(folder / "config.json")
    tokenizer = fast_tokenizer(folder)
    model = _PORTS[entry.architecture](folder, config, entry).to(device).eval()
    if hasattr(model, "config"):
        check_positions(model, entry, entry.max_tokens)
    last_product_in_float32(model)

    def logits(pairs: list[Pair]) -> Any:
        inputs = tokenizer(
            *(list(side) for side in zip(*pairs, strict=True)),
            truncation="longest_first",
            max_length=entry.max_tokens,
            padding=True,
            return_token_type_ids=False,
            return_tensors="pt",
        ).to(device)
        with torch.inference_mode():
            output = model(**inputs)
        return getattr(output, "logits", output)[:, 0].cpu()

    return tokenizer, logits


def _gte(folder: Path, config: Mapping[str, Any], _: CrossEncoderReranker) -> Any:
    """Load GTE's encoder (`psibench.models.architectures.gte`) with a classifier."""
    from transformers import GteForSequenceClassification

    native = gte_config(folder, config, num_labels=1)
    return load_port(GteForSequenceClassification, folder, "gte", config=native, dtype="float32")


def _jina_bert(folder: Path, config: Mapping[str, Any], entry: CrossEncoderReranker) -> Any:
    from psibench.models.architectures import jina_bert

    return set_weights(jina_bert.build(config), read_tensors(folder), entry)


def _flash_xlm_roberta(folder: Path, config: Mapping[str, Any], entry: CrossEncoderReranker) -> Any:
    from psibench.models.architectures.flash_xlm_roberta import build, convert

    return set_weights(build(config), convert(read_tensors(folder)), entry)


_PORTS = {"gte": _gte, "jina-bert": _jina_bert, "flash-xlm-roberta": _flash_xlm_roberta}


def load_qwen3(name: str, entry: Qwen3Reranker, *, device: str) -> CheckpointScorer:
    """Load a Qwen3 reranker, weights in the entry's number format.

    ``max_tokens`` counts prefix and suffix; what is too long loses its end, the suffix never.
    Raises InputError if there are no tokens "yes" and "no", or no room is left for a text.
    """
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    dtype = fast_dtype(device) if entry.dtype == "auto" else entry.dtype
    network = Transformer(
        str(checkpoint_folder(entry)),
        transformer_task="text-generation",
        max_seq_length=entry.max_tokens,
        model_kwargs={"dtype": dtype},
        processor_kwargs={"chat_template": qwen3_template(entry.instruction)},
    )
    check_positions(network.model, entry, entry.max_tokens)
    count_positions_from_text(network.model)
    tokenizer = network.tokenizer
    keep_logits_of(network.model, answer_tokens(tokenizer, ("yes", "no"), entry))
    model = CrossEncoder(
        modules=[network, LogitScore(true_token_id=0, false_token_id=1)],
        device=device,
        activation_fn=torch.nn.Identity(),
    )
    prefix, suffix = encode(tokenizer, [QWEN3_PREFIX, QWEN3_SUFFIX])
    fixed = len(prefix) + len(suffix)
    room = entry.max_tokens - fixed
    if room < MIN_ROOM:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} leaves {room} tokens "
            f"beside the format's own; needed: {MIN_ROOM}"
        )
    cut = model.preprocess([("a", "a " * entry.max_tokens)])["input_ids"][0].tolist()
    if cut[: len(prefix)] != prefix.ids or cut[-len(suffix) :] != suffix.ids:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: a text that is too long would lose the end of the "
            "format, whose next word is the score; is its tokenizer that of Qwen3?"
        )

    def read(pairs: Sequence[Pair]) -> Iterator[Reading]:
        """Read pairs between prefix and suffix: their end is what is cut."""
        heads = [f"{qwen3_question(entry.instruction)}{query}\n<Document>: " for query, _ in pairs]
        whole = [head + text for head, (_, text) in zip(heads, pairs, strict=True)]
        encodings = encode(
            tokenizer, whole, add_special_tokens=False, truncation=True, max_length=room
        )
        for head, found in zip(heads, encodings, strict=True):
            yield Reading(fixed + len(found), found, before=len(head))

    logits = partial(_predict, model)
    return CheckpointScorer(name, entry, dtype, entry.max_tokens, read, logits)


def qwen3_question(instruction: str) -> str:
    """Write what stands between prefix and query."""
    return f"<Instruct>: {instruction}\n<Query>: "


def qwen3_template(instruction: str) -> str:
    """Write the model card's format as a chat template of a query and a document."""
    query, document = (
        f"{{{{ (messages | selectattr('role', 'eq', '{role}') | first).content }}}}"
        for role in ("query", "document")
    )
    begin, middle, end = (
        f"{{{{ {json.dumps(part, ensure_ascii=False)} }}}}"
        for part in (QWEN3_PREFIX + qwen3_question(instruction), "\n<Document>: ", QWEN3_SUFFIX)
    )
    return begin + query + middle + document + end


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
    head = _jina_head(folder, config.hidden_size, entry).to(device)
    logits = partial(_jina_logits, tokenizer, network.to(device).eval(), head, entry)
    read = partial(_jina_read, tokenizer, entry)
    return CheckpointScorer(name, entry, dtype, entry.max_tokens, read, logits)


def _jina_head(folder: Path, hidden: int, entry: JinaM0Reranker) -> Any:
    from torch import nn

    head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    found = read_tensors(folder, lambda name: name.startswith(HEAD))
    weights = {name.removeprefix(HEAD): tensor for name, tensor in found.items()}
    return set_weights(head, weights, entry).eval()


def _jina_logits(
    tokenizer: Any, network: Any, head: Any, entry: JinaM0Reranker, pairs: list[Pair]
) -> Any:
    """Score a batch, padded behind its texts, where no token of a causal network sees it."""
    import torch

    ids = [torch.tensor(found) for _, found in _jina_inputs(tokenizer, entry, pairs)]
    last = torch.tensor([len(found) - 1 for found in ids])
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    with torch.inference_mode():
        states = network(input_ids=padded.to(network.device)).last_hidden_state
        logits = head(states[torch.arange(len(ids)), last].float())
    return logits[:, 0].cpu() - BIAS


def _jina_read(tokenizer: Any, entry: JinaM0Reranker, pairs: Sequence[Pair]) -> Iterator[Reading]:
    for text, ids in _jina_inputs(tokenizer, entry, pairs):
        yield Reading(len(ids), text)


def _jina_inputs(
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
