"""The rerankers of FlagEmbedding, by its formats and formulas (version 1.4.2).

Its classes are not used to score: compute_score runs the first batch of every call twice, takes
any RuntimeError for lack of memory, computes the logits of all positions of a language model,
takes no revision, and its MiniCPM does not run on transformers 5. Tests hold the scores against
its public classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.config.rerankers import (
    FlagLayerwiseReranker,
    FlagLlmReranker,
    FlagReranker,
    PromptedReranker,
)
from psibench.rerankers.architectures import minicpm
from psibench.rerankers.causal import last_logits, load_causal, load_tokenizer
from psibench.rerankers.checkpoints import (
    checkpoint_folder,
    fast_tokenizer,
    loading,
    read_config,
)
from psibench.rerankers.cross_encoder import PairTemplate, load_sentence_transformers
from psibench.rerankers.protocols import Pair, PairTokens
from psibench.rerankers.transformer import (
    TransformerReranker,
    encodings_of,
    entry_fingerprint,
    resolve_dtype,
    visible_char_end,
)

SEPARATOR = "\n"


def load_flag(name: str, entry: FlagReranker, *, device: str) -> TransformerReranker:
    """Load what FlagReranker loads: a cross-encoder whose score is the sigmoid of its logit.

    A query is cut at three quarters of ``max_tokens``, the text at what remains.

    Raises
    ------
    InputError
        As `psibench.rerankers.cross_encoder.load_sentence_transformers`.
    """
    options = {"model_kwargs": {"dtype": "float32"}}
    model = load_sentence_transformers(entry, device, options)
    tokenizer = model.tokenizer
    dtype = resolve_dtype(entry.dtype, device)
    layout = PairTemplate(
        tokenizer,
        entry.max_tokens,
        "only_second",
        types="token_type_ids" in tokenizer.model_input_names,
        query_limit=entry.max_tokens * 3 // 4,
    )
    return TransformerReranker(
        name=name,
        fingerprint=entry_fingerprint(entry, dtype=dtype),
        max_tokens=entry.max_tokens,
        layout=layout,
        logits=lambda tensors: model(dict(tensors))["scores"][:, 0].float(),
        device=device,
        pad_id=tokenizer.pad_token_id or 0,
        autocast=dtype,
    )


def load_flag_llm(name: str, entry: FlagLlmReranker, *, device: str) -> TransformerReranker:
    """Load what FlagLLMReranker loads (bge-reranker-v2-gemma), weights in the entry's format.

    The raw score is the logit of the first token of "Yes" at the last position.

    Raises
    ------
    InputError
        If it cannot be loaded.
    """
    tokenizer = load_tokenizer(entry)
    layout = PromptedLayout.of(tokenizer, entry, always_start=False)
    dtype = resolve_dtype(entry.dtype, device)
    model = load_causal(entry, device=device, dtype=dtype, longest=layout.longest)
    yes = tokenizer("Yes", add_special_tokens=False)["input_ids"][0]
    return _language_model(name, entry, layout, last_logits(model, yes), device, dtype)


def load_flag_layerwise(
    name: str, entry: FlagLayerwiseReranker, *, device: str
) -> TransformerReranker:
    """Load what LayerWiseFlagLLMReranker loads, up to ``cutoff_layer``.

    The raw score is that layer's linear output on the normed hidden state at the last position.

    Raises
    ------
    InputError
        If it cannot be loaded, or has no output at that layer.
    """
    dtype = resolve_dtype(entry.dtype, device)
    with loading(entry):
        folder = checkpoint_folder(entry)
        config = read_config(folder)
        tokenizer = fast_tokenizer(folder)
    layout = PromptedLayout.of(tokenizer, entry, always_start=True)
    model, head = minicpm.load(folder, config, entry, dtype=dtype)
    model, head = model.to(device).eval(), head.to(device)

    def logits(tensors: dict[str, Any]) -> Any:
        hidden = model(**tensors, use_cache=False).last_hidden_state[:, -1]
        return hidden.float() @ head.float()

    return _language_model(name, entry, layout, logits, device, dtype)


def _language_model(
    name: str,
    entry: PromptedReranker,
    layout: "PromptedLayout",
    logits: Callable[[Any], Any],
    device: str,
    dtype: str,
) -> TransformerReranker:
    return TransformerReranker(
        name=name,
        fingerprint=entry_fingerprint(entry, dtype=dtype),
        max_tokens=layout.longest,
        layout=layout,
        logits=logits,
        device=device,
        pad_id=layout.tokenizer.pad_token_id or 0,
        padding_side="left",
    )


@dataclass(frozen=True)
class PromptedLayout:
    r"""Pairs as tokens of ``<s>A: query\nB: text\nprompt``.

    Query and text are cut at three quarters of ``max_tokens`` and at ``max_tokens``, both together
    at ``max_tokens`` plus separator and prompt, after which these come once more: FlagEmbedding
    counts them on top.
    """

    tokenizer: Any
    entry: PromptedReranker
    start: list[int]
    separator: list[int]
    prompt: list[int]

    @classmethod
    def of(cls, tokenizer: Any, entry: PromptedReranker, *, always_start: bool) -> "PromptedLayout":
        """Make the layout; without ``always_start`` a start token that is also padding is none."""
        separator, prompt = _encode(tokenizer, [SEPARATOR, entry.prompt])["input_ids"]
        start = tokenizer.bos_token_id
        has_start = start is not None and (always_start or start != tokenizer.pad_token_id)
        return cls(tokenizer, entry, [start] if has_start else [], separator, prompt)

    @property
    def longest(self) -> int:
        """Tokens of the longest input."""
        return self.entry.max_tokens + 2 * (len(self.separator) + len(self.prompt))

    def encode(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Tokenize pairs."""
        if not pairs:
            return []
        queries, texts = self._encoded(pairs)
        items = []
        for query, text in zip(queries, texts["input_ids"], strict=True):
            ids = [*self.start, *query, *self.separator, *text][: self._limit]
            ids += [*self.separator, *self.prompt]
            items.append(PairTokens(np.array(ids, dtype=np.int32)))
        return items

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say what is read of each text: its end is cut, after the query's."""
        if not pairs:
            return []
        queries, texts = self._encoded(pairs)
        ends = []
        for query, encoding, (_, text) in zip(queries, encodings_of(texts), pairs, strict=True):
            taken = len(self.start) + len(query) + len(self.separator)
            encoding.truncate(max(0, self._limit - taken))
            ends.append(visible_char_end(encoding, text, before=len(self.entry.text_prefix)))
        return ends

    @property
    def _limit(self) -> int:
        return self.entry.max_tokens + len(self.separator) + len(self.prompt)

    def _encoded(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], Any]:
        entry = self.entry
        queries = [entry.query_prefix + query for query, _ in pairs]
        texts = [entry.text_prefix + text for _, text in pairs]
        return (
            _encode(self.tokenizer, queries, limit=entry.max_tokens * 3 // 4)["input_ids"],
            _encode(self.tokenizer, texts, limit=entry.max_tokens),
        )


def _encode(tokenizer: Any, texts: list[str], *, limit: int | None = None) -> Any:
    options = {"truncation": True, "max_length": limit} if limit else {}
    return tokenizer(texts, add_special_tokens=False, verbose=False, **options)
