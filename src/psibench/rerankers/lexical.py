"""BM25 between a query and a text, with statistics that are fixed beforehand.

A reranker's score may depend on nothing but the pair, so document frequencies cannot come from
the texts at hand. A word's inverse document frequency is log(1 + r), r its rank by frequency:
by Zipf's law a word of rank r occurs in a share of texts that falls as 1 / r. Ranks are those of
the whole words of a WordPiece vocabulary, which is ordered by frequency; a word it lacks has the
rank after the last.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.models import Bm25Model
from psibench.config.rerankers import Bm25Reranker
from psibench.errors import InputError
from psibench.models.bm25 import bm25_tokenizer
from psibench.models.checkpoints import checkpoint_identity, resolve_checkpoint
from psibench.rerankers.protocols import Pair, Scores, calibrated
from psibench.rerankers.versions import RERANKER_VERSIONS
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class TermPair:
    """Terms of a query, and how often each term stands in a text."""

    query: list[str]
    counts: Counter[str]
    length: int

    @property
    def n_tokens(self) -> int:
        """Terms of both."""
        return len(self.query) + self.length


@dataclass(frozen=True)
class LexicalReranker:
    """A `Reranker` by BM25; see `load_lexical`."""

    name: str
    entry: Bm25Reranker
    stems: Any
    ranks: dict[str, int]
    unlisted_rank: int
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        excluded = {"description", "tokens_per_batch", "vocabulary"}
        return hash_params(
            self.entry.model_dump(mode="json", exclude=excluded)
            | {"identity": self.identity, "version": RERANKER_VERSIONS[self.entry.backend]}
        )

    @property
    def max_tokens(self) -> int | None:
        """Nothing is cut."""
        return None

    def tokenize(self, pairs: Sequence[Pair]) -> list[TermPair]:
        """Cut queries and texts into stems, each distinct one once."""
        distinct = list({text: None for pair in pairs for text in pair})
        terms = dict(zip(distinct, self.stems(distinct), strict=True))
        return [TermPair(terms[q], Counter(terms[t]), len(terms[t])) for q, t in pairs]

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """All of every text is read."""
        return [len(text) for _, text in pairs]

    def score(self, items: Sequence[TermPair]) -> Scores:
        """Score pairs, one by one."""
        raw = np.array([self._share(item) for item in items], dtype=np.float64)
        return calibrated(raw, self.entry.calibration)

    def _share(self, item: TermPair) -> float:
        """Return BM25 divided by what the query could reach: its terms without end.

        The term's weight is idf * tf / (tf + k1 (1 - b + b length / average)), the saturation of
        Robertson and Zaragoza 2009, section 3.4; its limit for tf -> infinity is idf. In [0, 1);
        0 for a query without terms. For one query it orders texts as BM25 does; unlike BM25 it
        also compares between long and short queries.
        """
        entry = self.entry
        slack = entry.k1 * (1 - entry.b + entry.b * item.length / entry.average_length)
        reached = possible = 0.0
        for term in item.query:
            idf = float(np.log1p(self.ranks.get(term, self.unlisted_rank)))
            possible += idf
            count = item.counts.get(term, 0)
            if count:
                reached += idf * count / (count + slack)
        return reached / possible if possible else 0.0


def load_lexical(name: str, entry: Bm25Reranker) -> LexicalReranker:
    """Read the vocabulary's ranks; the tokenizer is that of the BM25 retriever.

    Raises
    ------
    InputError
        If the vocabulary cannot be read or the stemmer is unknown.
    """
    model = Bm25Model(backend="bm25s", stemmer=entry.stemmer, stopwords=entry.stopwords)
    stems = bm25_tokenizer(model)
    path = Path(resolve_checkpoint(entry.vocabulary)) / "vocab.txt"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(
            f"vocabulary {entry.vocabulary!r}: no vocab.txt ({error.strerror}). Give a local "
            "checkpoint of BERT's kind, or embedded:all-MiniLM-L6-v2."
        ) from error
    words = [line for line in lines if line.isalpha() and len(line) > 1]
    ranks: dict[str, int] = {}
    for rank, found in enumerate(stems(words), start=1):
        for stem in found:  # a stop word has none
            ranks.setdefault(stem, rank)
    identity = checkpoint_identity(entry.vocabulary, None)
    return LexicalReranker(name, entry, stems, ranks, len(words) + 1, identity)
