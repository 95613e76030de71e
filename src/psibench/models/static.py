"""Static embeddings: the mean of a text's token embeddings, whatever their order.

sentence-transformers loads the embeddings of its StaticEmbedding checkpoints and of model2vec's
(0.10). From a transformer's checkpoint, the input word embeddings are used.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import StaticModel
from psibench.errors import InputError
from psibench.models.checkpoints import (
    checkpoint_identity,
    is_static,
    read_json_object,
    read_modules,
    transformer_folder,
)
from psibench.models.declared import STATIC_TABLES, declared_number, kept_dimensions
from psibench.models.library_keys import check_requirements, refuse_unknown_modules
from psibench.models.networks import text_transformer
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import tokenize_texts
from psibench.models.weights import (
    load_model,
    read_tensors,
    refuse_untrusted_activations,
)
from psibench.reading import shown
from psibench.tables.provenance import hash_params

logger = logging.getLogger("psibench")

MODEL2VEC_LENGTH = 512
"""Tokens that model2vec reads of a text if config.json has no `max_length`."""


@dataclass(frozen=True)
class Reading:
    """How a library reads a text. The default reads all tokens.

    Attributes
    ----------
    max_tokens
        Longest text in tokens; None: no limit.
    max_chars
        Characters, prompt included, to which a text is cut before it is tokenized; None: no limit.
    left_out
        Id of a token that is left out of the mean; None: no token.
    """

    max_tokens: int | None = None
    max_chars: int | None = None
    left_out: int | None = None


@dataclass(frozen=True)
class StaticEncoder:
    """An ``Encoder`` whose vector of a text does not depend on the order of its tokens."""

    entry: StaticModel
    tokenizer: Any
    embeddings: np.ndarray
    identity: str
    reading: Reading = Reading()
    modules: Any = None
    """sentence-transformers' modules after the embeddings, in float32, if they do more than scale
    vectors."""
    dimensions: int | None = None

    @property
    def max_tokens(self) -> int | None:
        """Longest text in tokens; None: no limit."""
        return self.reading.max_tokens

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        chosen = self.entry.model_dump(mode="json", include={"library", "whole_texts"})
        return hash_params(
            {"identity": self.identity, "static": MODEL_VERSIONS[self.entry.backend]}
            | chosen
            | ({"dimensions": self.dimensions} if self.dimensions else {})
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts without special tokens, cut as the entry's library cuts them."""
        prompt, reading = self.salt(role), self.reading
        if reading.max_chars is not None:
            prompt = prompt[: reading.max_chars]
            texts = [text[: reading.max_chars - len(prompt)] for text in texts]
        items = tokenize_texts(
            self.tokenizer,
            texts,
            prompt=prompt,
            max_tokens=reading.max_tokens,
            special_tokens=False,
        )
        return [_without(item, reading.left_out) for item in items]

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Average the embeddings of each text's tokens into a (1, dim) unit vector.

        Sums run in float64 over sorted token ids, so that the order of tokens never changes the
        bits. A text without tokens gives the zero vector; modules may change that.
        """
        vectors = []
        for window in windows:
            vector = self.embeddings[np.sort(window)].astype(np.float64).sum(axis=0)
            if self.modules is not None:
                vector = self._through_modules(vector / max(1, len(window)))
            vector = vector[: self.dimensions]
            norm = np.linalg.norm(vector)
            vectors.append((vector / norm if norm > 0 else vector).astype(np.float32)[None, :])
        return vectors

    def _through_modules(self, mean: np.ndarray) -> np.ndarray:
        import torch

        features = {"sentence_embedding": torch.from_numpy(mean).float()[None, :]}
        with torch.inference_mode():
            found: np.ndarray = self.modules(features)["sentence_embedding"][0].double().numpy()
        return found


def _without(item: TokenizedText, token: int | None) -> TokenizedText:
    if token is None:
        return item
    (window,), (content,) = item.windows, item.content
    kept = window != token
    return replace(item, windows=(window[kept],), content=(content[kept],))


def load_static(entry: StaticModel, folder: Path) -> StaticEncoder:
    """Load static embeddings, or the input word embeddings of a transformer.

    Raises
    ------
    InputError
        If the entry has keys that do not fit the checkpoint, a position-blind control would not
        read whole texts, the embeddings are not floating-point numbers, or the tokenizer does not
        fit them.
    """
    if is_static(folder):
        return _load_static_checkpoint(entry, folder)
    given = entry.model_dump(include={"library", "whole_texts", "dimensions"})
    for key, value in given.items():
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: {key} is {value!r}, which is for checkpoints of "
            "static embeddings, and this is a transformer, whose word embeddings are averaged over "
            f"whole texts; remove {key} from the model's entry"
        )
    from sentence_transformers import SentenceTransformer

    model = load_model(SentenceTransformer, folder, trust_remote_code=entry.trust_remote_code)
    transformer = text_transformer(model[0], entry.checkpoint)
    weights = transformer.get_input_embeddings().weight.detach().float().numpy()
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    return StaticEncoder(entry, model.tokenizer, weights, identity)


def _load_static_checkpoint(entry: StaticModel, folder: Path) -> StaticEncoder:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from transformers import PreTrainedTokenizerFast

    check_requirements(folder)
    refuse_unknown_modules(folder)
    refuse_untrusted_activations(folder)
    inner = transformer_folder(folder)
    for name, tensor in read_tensors(inner, STATIC_TABLES.__contains__).items():
        if not tensor.is_floating_point():
            raise InputError(
                f"{inner}: {name} has {tensor.dtype} numbers, which sentence-transformers does not "
                "average; save the model with floating-point numbers (model2vec: quantize_to)"
            )
    if read_modules(folder):
        trust = entry.trust_remote_code
        first, *others = load_model(SentenceTransformer, folder, trust_remote_code=trust)
    else:
        first, others = StaticEmbedding.load(str(folder), local_files_only=True), []
    table = first.embedding.weight.detach().float().numpy()
    _check_vocabulary(first.tokenizer.get_vocab(), len(table), inner)
    has_modules = not all(isinstance(module, Normalize) for module in others)
    encoder = StaticEncoder(
        entry,
        PreTrainedTokenizerFast(tokenizer_object=first.tokenizer, name_or_path=str(inner)),
        table,
        checkpoint_identity(entry.checkpoint, entry.revision),
        reading_of(entry, folder, first.tokenizer),
        torch.nn.Sequential(*others).float().eval() if has_modules else None,
        kept_dimensions(entry, folder),
    )
    _check_dimensions(encoder)
    _check_control(encoder)
    return encoder


def reading_of(entry: StaticModel, folder: Path, tokenizer: Any | None = None) -> Reading:
    """Return how the entry's library reads a text.

    ``tokenizer`` is of the library tokenizers, by default the one in the folder; the word
    embeddings of a transformer are averaged over whole texts.

    Raises InputError if model2vec's max_length is no whole number.
    """
    if not is_static(folder):
        return Reading()
    if tokenizer is None:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(transformer_folder(folder) / "tokenizer.json"))
    if entry.library == "sentence-transformers":
        cut = tokenizer.truncation
        return Reading(None if cut is None or entry.whole_texts else cut["max_length"])
    left_out = _unknown_token(tokenizer)
    if entry.whole_texts:
        return Reading(left_out=left_out)
    path = folder / "config.json"
    config = read_json_object(path)
    if "max_length" in config and config["max_length"] is None:
        return Reading(left_out=left_out)
    tokens = declared_number(path, "max_length") or MODEL2VEC_LENGTH
    if tokens != int(tokens):
        raise InputError(f"{path}: max_length is {shown(tokens)}, expected a whole number or null")
    median_chars = int(np.median([len(word) for word in tokenizer.get_vocab()]))
    return Reading(int(tokens), int(tokens) * median_chars, left_out)


def _unknown_token(tokenizer: Any) -> int | None:
    """Return the id of the token for unknown words, as model2vec finds it."""
    if hasattr(tokenizer.model, "unk_token"):
        word = tokenizer.model.unk_token
        return None if word is None else tokenizer.token_to_id(word)
    found: int | None = json.loads(tokenizer.to_str())["model"].get("unk_id")
    return found


def _check_vocabulary(words: dict[str, int], n_embeddings: int, folder: Path) -> None:
    """Raise InputError if a tokenizer has words without embeddings, or far fewer words."""
    last = max(words.values(), default=-1)
    if last >= n_embeddings or len(words) < n_embeddings / 2:
        raise InputError(
            f"{folder}: the tokenizer has {len(words):,} words, numbered up to {last:,}, but there "
            f"are {n_embeddings:,} embeddings. Is the tokenizer truncated, or another model's?"
        )


def _check_dimensions(encoder: StaticEncoder) -> None:
    wanted, entry = encoder.entry.dimensions, encoder.entry
    if wanted is None:
        return
    (vector,) = replace(encoder, dimensions=None).forward([np.array([0])], [np.array([True])])
    if wanted > vector.shape[1]:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: dimensions is {wanted}, but its vectors have "
            f"{vector.shape[1]}; lower dimensions, or remove it"
        )


def _check_control(encoder: StaticEncoder) -> None:
    entry, limit = encoder.entry, encoder.max_tokens
    if limit is None:
        return
    if entry.control == "position-blind":
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: {entry.library} reads only the first {limit:,} "
            "tokens of a text, so that a control with `control: position-blind` would miss late "
            "evidence; set `whole_texts: true` in the model's entry"
        )
    logger.info(
        "checkpoint %r: as %s does, only the first %s tokens of a text are read; `whole_texts: "
        "true` in the model's entry reads all",
        *(entry.checkpoint, entry.library, f"{limit:,}"),
    )
