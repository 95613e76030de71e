"""Compare the token counts of an embedding service with ours, and warn of what they reveal."""

import logging
from collections.abc import Mapping

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.models.protocols import Role

logger = logging.getLogger("psibench")

SPECIAL_TOKENS = 4
"""Most special tokens of a text; services may leave them out of their counts."""
LEAST_COUNTED = 0.9
"""Share of our token count; a service that counts fewer may have cut texts."""
LEAST_ADDED, LEAST_BESIDES = 3, 2
"""Least tokens of a prefix. A service may count up to two special tokens, unless our count, too,
includes special tokens: then `LEAST_BESIDES`."""
LONGEST_PREFIX = 64
"""Tokens; a longer constant excess is not looked for."""
LEAST_REQUESTS, LEAST_TEXTS = 3, 50
"""Evidence for a prefix."""
MOST_REQUESTS = 200
"""Requests of a role that are compared; later ones have nothing new."""
DEVIATION = 0.02
"""Tokens per text by which a request's excess may differ from a prefix of whole tokens."""
LEAST_CONSTANT = 0.9
"""Share of the requests that must have the same excess per text."""


class TokenCounts:
    """Compares counts request by request; warns once of texts cut, and once of a prefix added.

    A text that the service puts before each text adds the same whole number of tokens to every
    text, whatever its length. Another tokenizer adds tokens in proportion to the length, and no
    whole number per text.

    Parameters
    ----------
    model
        Id of the entry, for messages.
    n_special
        Special tokens that the entry's tokenizer adds to each text.
    """

    def __init__(self, entry: EmbeddingApiModel, model: str, *, n_special: int) -> None:
        self._entry, self._model = entry, model
        self._least_added = LEAST_BESIDES if n_special else LEAST_ADDED
        self._warned = set[str]()
        self._added: dict[Role, list[tuple[int, int]]] = {"query": [], "document": []}

    def compare(
        self, counted: int, n_tokens: int, *, n_texts: int, longest: int, role: Role
    ) -> None:
        """Compare the counts of one request.

        Parameters
        ----------
        counted
            Tokens of the request, by the service.
        n_tokens, longest
            Tokens of all its texts, and of its longest text, by the entry's tokenizer.
        """
        if counted < LEAST_COUNTED * (n_tokens - SPECIAL_TOKENS * n_texts):
            self._warn_of_cuts(counted, n_tokens, n_texts)
        # With a prefix, the service may have cut texts near the limit.
        is_whole = longest + LONGEST_PREFIX <= self._entry.max_tokens
        if is_whole and len(self._added[role]) < MOST_REQUESTS:
            self._added[role].append((counted - n_tokens, n_texts))
            self._look_for_prefix(role)

    def _look_for_prefix(self, role: Role) -> None:
        fields: Mapping[str, object] = getattr(self._entry, f"{role}_fields")
        prompt: str = getattr(self._entry, f"{role}_prompt")
        # Without a prompt, and with fields that may name the role, the service should add its own.
        is_expected = not prompt and bool(fields)
        found = self._added[role]
        n_texts = sum(n for _, n in found)
        if is_expected or len(found) < LEAST_REQUESTS or n_texts < LEAST_TEXTS:
            return
        rates = sorted(excess / n for excess, n in found)
        added = round(rates[len(rates) // 2])
        n_equal = sum(abs(rate - added) <= DEVIATION for rate in rates)
        if not self._least_added <= added <= LONGEST_PREFIX or n_equal < LEAST_CONSTANT * len(
            rates
        ):
            return
        self._warn_of_prefix(role, prompt, added, n_texts)

    def _warn_of_prefix(self, role: Role, prompt: str, added: int, n_texts: int) -> None:
        if "prefix" in self._warned:
            return
        self._warned.add("prefix")
        key = f"{role}_prompt"
        if prompt:
            said = (
                f"psibench sends {prompt!r} before each {role} ({key} of the entry), so that the "
                f"model may read two prompts. If the service adds one itself, remove {key} from "
                "the entry: other vectors are then stored"
            )
        else:
            said = (
                f"{key} of the entry is empty, so that the service adds it; find out whether it "
                "fits both queries and documents, e.g. whether a field of the request "
                "(query_fields, document_fields) chooses it"
            )
        logger.warning(
            "model %r: the service counted %d tokens more than were sent for each %s (%s texts), "
            "as if it put a prompt of its own before each text. %s (docs/embedding-apis.md)",
            *(self._model, added, role, f"{n_texts:,}", said),
        )

    def _warn_of_cuts(self, counted: int, n_tokens: int, n_texts: int) -> None:
        if "cuts" in self._warned:
            return
        self._warned.add("cuts")
        entry = self._entry
        logger.warning(
            "model %r: the service counted %s tokens in %d texts, but the tokenizer %r counts "
            "%s. Either this is not the model's tokenizer, or the service cuts texts to fewer than "
            "max_tokens (%d), so that evidence counts as read although it was cut. Look up the "
            "service's longest text (docs/embedding-apis.md), and lower max_tokens to it",
            self._model, f"{counted:,}", n_texts, entry.tokenizer, f"{n_tokens:,}",
            entry.max_tokens,
        )  # fmt: skip
