"""Cross-encoders: a sequence classifier with one output over query and text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from psibench.config.rerankers import CheckpointReranker, CrossEncoderReranker
from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.transformer import usable_positions
from psibench.models.weights import read_tensors
from psibench.rerankers.checkpoints import (
    checkpoint_folder,
    fast_tokenizer,
    last_product_in_float32,
    loading,
    read_config,
    set_weights,
)
from psibench.rerankers.protocols import Pair, PairTokens
from psibench.rerankers.transformer import (
    TransformerReranker,
    encodings_of,
    entry_fingerprint,
    resolve_dtype,
    visible_char_end,
)

Logits = Callable[[dict[str, Any]], Any]
CHUNK = 1024  # pairs per tokenizer call


def load_cross_encoder(
    name: str, entry: CrossEncoderReranker, *, device: str
) -> TransformerReranker:
    """Load a cross-encoder with float32 weights; reduced formats run under autocast.

    Query and text are cut longest first, as sentence-transformers does. The raw output is the
    logit; its sigmoid is the score, also where a checkpoint declares none (mmarco-mMiniLMv2): the
    papers compare scores in [0, 1].

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, has several outputs, or takes fewer tokens than
        ``max_tokens``.
    """
    if entry.architecture == "auto":
        tokenizer, logits = _by_sentence_transformers(entry, device)
        uses_types = "token_type_ids" in tokenizer.model_input_names
    else:
        tokenizer, logits = _by_own_class(entry, device)
        uses_types = False

    dtype = resolve_dtype(entry.dtype, device)
    return TransformerReranker(
        name=name,
        fingerprint=entry_fingerprint(entry, dtype=dtype),
        max_tokens=entry.max_tokens,
        layout=PairTemplate(tokenizer, entry.max_tokens, "longest_first", uses_types),
        logits=logits,
        device=device,
        pad_id=tokenizer.pad_token_id or 0,
        autocast=dtype,
        activation=entry.activation,
    )


@dataclass(frozen=True)
class PairTemplate:
    """Pairs by the tokenizer's own template, at most ``max_tokens`` each.

    Attributes
    ----------
    cut
        What loses its end where both are too long.
    types
        Whether the model has segment ids.
    query_limit
        Tokens of a query beyond which it is cut before anything else; None: no such limit.
    """

    tokenizer: Any
    max_tokens: int
    cut: Literal["longest_first", "only_second"]
    types: bool
    query_limit: int | None = None

    def encode(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Tokenize pairs."""
        items: list[PairTokens] = []
        for encoded, chunk in self._encoded(pairs):
            kinds = encoded["token_type_ids"] if self.types else [None] * len(chunk)
            items += [
                PairTokens(
                    np.asarray(ids, dtype=np.int32),
                    None if kind is None else np.asarray(kind, dtype=np.int32),
                )
                for ids, kind in zip(encoded["input_ids"], kinds, strict=True)
            ]
        return items

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say what is read of each text."""
        return [
            visible_char_end(encoding, text, sequence=1)
            for encoded, chunk in self._encoded(pairs)
            for encoding, (_, text) in zip(encodings_of(encoded), chunk, strict=True)
        ]

    def _encoded(self, pairs: Sequence[Pair]) -> Iterator[tuple[Any, Sequence[Pair]]]:
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            encoded = self.tokenizer(
                [self._shortened(query) for query, _ in chunk],
                [text for _, text in chunk],
                truncation=self.cut,
                max_length=self.max_tokens,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=self.types,
                verbose=False,
            )
            yield encoded, chunk

    def _shortened(self, query: str) -> str:
        """Cut a query after its first ``query_limit`` tokens."""
        limit = self.query_limit
        if limit is None or len(query.encode()) <= limit:  # no token has less than a byte
            return query
        offsets = self.tokenizer(
            query, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        return query if len(offsets) <= limit else query[: offsets[limit - 1][1]]


def classifier_logits(classifier: Any) -> Logits:
    """Return tensors -> (n_pairs,) for a module that gives (n_pairs, 1), or an object with it."""

    def logits(tensors: dict[str, Any]) -> Any:
        output = classifier(**tensors)
        return getattr(output, "logits", output)[:, 0].float()

    return logits


def check_positions(model: Any, entry: CheckpointReranker) -> None:
    """Refuse a ``max_tokens`` beyond the positions the transformer has.

    Raises
    ------
    InputError
        Naming both.
    """
    positions = usable_positions(model)
    if positions is not None and entry.max_tokens > positions:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} is more than its "
            f"{positions} positions; lower max_tokens"
        )


def load_sentence_transformers(
    entry: CheckpointReranker, device: str, options: Mapping[str, Any]
) -> Any:
    """Load sentence-transformers' CrossEncoder with float32 weights.

    Raises
    ------
    InputError
        If it cannot be loaded, has several outputs, or takes fewer tokens than ``max_tokens``.
    """
    from sentence_transformers import CrossEncoder

    path = resolve_checkpoint(entry.checkpoint, entry.revision)
    with loading(entry):
        model = CrossEncoder(path, device=device, revision=entry.revision, **options)
    if model.num_labels != 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: has {model.num_labels} outputs; a reranker has 1. "
            "Is it a classifier, or a checkpoint without a trained head?"
        )
    if model.transformers_model is not None:
        check_positions(model.transformers_model, entry)
    last_product_in_float32(model)
    model.eval()
    return model


def _by_sentence_transformers(entry: CrossEncoderReranker, device: str) -> tuple[Any, Logits]:
    code = {"code_revision": entry.code_revision} if entry.code_revision else {}
    model = load_sentence_transformers(
        entry,
        device,
        {
            "trust_remote_code": entry.trust_remote_code,
            "model_kwargs": {"dtype": "float32", **code},
            "config_kwargs": dict(code),
        },
    )
    return model.tokenizer, lambda tensors: model(dict(tensors))["scores"][:, 0].float()


def _by_own_class(entry: CrossEncoderReranker, device: str) -> tuple[Any, Logits]:
    """Load a checkpoint whose own code is not run; see `psibench.rerankers.architectures`."""
    with loading(entry):
        folder = checkpoint_folder(entry)
        config = read_config(folder)
        tokenizer = fast_tokenizer(folder)
    if entry.architecture == "gte":
        from psibench.rerankers.architectures import gte

        model = gte.load(folder, config)
    elif entry.architecture == "jina-bert":
        from psibench.rerankers.architectures import jina_bert

        model = jina_bert.build(config)
        set_weights(model, {k: w.float() for k, w in read_tensors(folder).items()}, entry)
    else:
        from psibench.rerankers.architectures import flash_xlm_roberta

        model = flash_xlm_roberta.build(config)
        weights = flash_xlm_roberta.convert(read_tensors(folder))
        set_weights(model, {k: w.float() for k, w in weights.items()}, entry)
    if hasattr(model, "config"):
        check_positions(model, entry)
    last_product_in_float32(model)
    return tokenizer, classifier_logits(model.to(device).eval())
