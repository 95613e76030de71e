"""Texts for a service: cut to its model's longest input, and counted in tokens."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.errors import InputError
from psibench.llm.embeddings import role_fields
from psibench.models.counting import load_tokenizer
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import tokenize_texts
from psibench.tables.provenance import hash_params

SET_BY_CALLS = ("truncation", "padding")
"""Settings of a tokenizer that its calls change."""


@dataclass(frozen=True)
class ApiTexts:
    """The part of an ``Encoder`` that needs no service: identity, salts, tokens.

    Attributes
    ----------
    identity
        Identity of the tokenizer, see ``tokenizer_identity``.
    """

    entry: EmbeddingApiModel
    tokenizer: Any
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors, except the text and its prompt.

        Covers the model, the fields of a request, the tokenizer, ``max_tokens`` and ``version``. It
        excludes the address, because a model gives the same vectors on every host (set ``version``
        if it does not), the API key, and settings of speed and price.
        """
        fields = {
            "model", "query_fields", "document_fields", "vectors_path", "max_tokens", "version",
        }  # fmt: skip
        return hash_params(
            self.entry.model_dump(mode="json", include=fields)
            | {"tokenizer": self.identity, "embedding-api": MODEL_VERSIONS[self.entry.backend]}
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt and fields, which distinguish equal texts of two roles."""
        fields = role_fields(self.entry, role)
        prompt = self.prompt(role)
        return f"{prompt}\0{json.dumps(fields, sort_keys=True)}" if fields else prompt

    def prompt(self, role: Role) -> str:
        """Return the text put before each text of a role."""
        return self.entry.query_prompt if role == "query" else self.entry.document_prompt

    def sent(self, text: str, item: TokenizedText, role: Role) -> str:
        """Return the text to send: the prompt and the visible part of the text."""
        return self.prompt(role) + text[: item.visible_char_end]

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts; cuts texts that are too long between two characters.

        A cut text is tokenized again, like on the service, and shortened until it fits: a prefix
        may have more tokens than the same characters in the whole text.
        """
        prompt, most = self.prompt(role), self.entry.max_tokens
        items = tokenize_texts(self.tokenizer, texts, prompt=prompt, max_tokens=most)
        ends = {
            place: item.visible_char_end
            for place, item in enumerate(items)
            if item.visible_char_end < len(texts[place]) or item.n_tokens >= most
        }
        while ends:
            cut = {place: texts[place][:end] for place, end in ends.items()}
            whole = tokenize_texts(self.tokenizer, list(cut.values()), prompt=prompt)
            read = tokenize_texts(
                self.tokenizer, list(cut.values()), prompt=prompt, max_tokens=most
            )
            next_ends = {}
            for (place, end), all_of_it, item in zip(ends.items(), whole, read, strict=True):
                if all_of_it.n_tokens <= most or not end:
                    items[place] = TokenizedText(item.windows, item.content, end)
                else:
                    next_ends[place] = min(item.visible_char_end, end - 1)
            ends = next_ends
        return items


def load_api_texts(entry: EmbeddingApiModel, *, model: str) -> ApiTexts:
    """Load a model's tokenizer.

    Raises
    ------
    InputError
        If it cannot be loaded, or a prompt already has ``max_tokens`` tokens.
    """
    tokenizer = load_tokenizer(entry.tokenizer, option=f"model {model!r}: tokenizer")
    texts = ApiTexts(entry, tokenizer, tokenizer_identity(tokenizer, name=entry.tokenizer))
    roles: tuple[Role, ...] = ("query", "document")
    for role in roles:
        (prompt,) = tokenize_texts(tokenizer, [""], prompt=texts.prompt(role))
        if prompt.n_tokens >= entry.max_tokens:
            raise InputError(
                f"model {model!r}: {role}_prompt has {prompt.n_tokens} tokens and max_tokens is "
                f"{entry.max_tokens}, which leaves no tokens for texts; shorten the prompt or "
                "raise max_tokens"
            )
    return texts


def tokenizer_identity(tokenizer: Any, *, name: str) -> str:
    """Return ``sha256:`` and the hash of everything that decides a tokenizer's tokens.

    The hash excludes the folder and the commit, so that paid vectors stay valid after another
    download of the same files.

    Raises
    ------
    InputError
        If the tokenizer is not from the tokenizers library, which gives the character offsets.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(
            f"tokenizer {name!r}: {type(tokenizer).__name__} gives no character offsets of tokens; "
            "use a checkpoint with a tokenizer.json"
        )
    plain = json.loads(backend.to_str())
    content = {key: value for key, value in plain.items() if key not in SET_BY_CALLS}
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
