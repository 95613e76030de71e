"""A reranker that scores from a table, and its registry entry."""

from dataclasses import dataclass

import numpy as np

from psibench.config.rerankers import Bm25Reranker
from psibench.rerankers.protocols import Scores

ENTRY = Bm25Reranker(backend="bm25", calibration={"midpoint": 0.5, "slope": 1.0})


@dataclass
class Item:
    pair: tuple[str, str]
    n_tokens: int = 3


class PairReranker:
    """Scores pairs from a table, (query, document) -> score, or by a function of the two texts.

    Texts of the table are ``{id} text``. Keeps the ids of the requested pairs.
    """

    max_tokens = None

    def __init__(self, name: str, known) -> None:
        self.name, self.known, self.fingerprint = name, known, f"{name:0<32}"
        self.asked: list[tuple[str, str]] = []
        self.n_loads = 0

    def tokenize(self, pairs):
        return [Item(pair) for pair in pairs]

    def visible_char_ends(self, pairs):
        return [len(text) for _, text in pairs]

    def score(self, items):
        self.asked += [tuple(text.split()[0] for text in item.pair) for item in items]
        values = np.array([self._value(item.pair) for item in items])
        return Scores(10 * values, values)

    def _value(self, pair) -> float:
        if callable(self.known):
            return self.known(*pair)
        return self.known[tuple(text.split()[0] for text in pair)]
