"""A reranker that notes every pair it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.rerankers.protocols import Reranker, Scores, TextPair
from psibench.store.pairs import pair_keys


@dataclass(frozen=True)
class Noted:
    """What the reranker reads of a pair, with the pair's address."""

    key: str
    item: Any

    @property
    def n_tokens(self) -> int:
        """Tokens of the pair."""
        return int(self.item.n_tokens)


@dataclass(frozen=True)
class NotingReranker:
    """A `Reranker` that writes each batch into a log before it is scored."""

    inner: Reranker
    log: Path

    @property
    def name(self) -> str:
        """Registry id."""
        return self.inner.name

    @property
    def fingerprint(self) -> str:
        """The reranker's own."""
        return self.inner.fingerprint

    @property
    def max_tokens(self) -> int | None:
        """The reranker's own."""
        return self.inner.max_tokens

    def tokenize(self, pairs: Sequence[TextPair]) -> list[Noted]:
        """Tokenize, and keep each pair's address."""
        keys = [key.hex() for key in pair_keys(pairs).tolist()]
        return [Noted(*both) for both in zip(keys, self.inner.tokenize(pairs), strict=True)]

    def score(self, items: Sequence[Noted]) -> Scores:
        """Note the batch, then score it."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(" ".join(noted.key for noted in items) + "\n")
        return self.inner.score([noted.item for noted in items])


def noted(log: Path) -> list[list[str]]:
    """Read a log: the pairs of every batch; half a line at its end is no batch."""
    text = log.read_text("utf-8") if log.exists() else ""
    return [line.split() for line in text.split("\n")[:-1]]
