"""Two rerankers without a reranker's checkpoint: BM25, and a bi-encoder's similarity.

**BM25** uses fixed statistics: a reranker's score may depend on nothing but the pair, so document
frequencies cannot come from the other texts. A word's inverse document frequency is log(1 + r),
where r is its rank by frequency: by Zipf's law, the share of texts with a word of rank r falls as 1
/ r. The ranks come from the whole words in a WordPiece vocabulary, which is ordered by frequency;
any other word has the next rank after the last.

**Bi-encoders** score by the similarity of the vectors of query and text: cosine, or MaxSim divided
by the number of query tokens.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psibench.config.rerankers import BM25_VOCABULARY, BiEncoderReranker, Bm25Reranker
from psibench.models.checkpoints import checkpoint_identity, resolve_checkpoint
from psibench.models.dtypes import fast_dtype
from psibench.models.load import load_encoder
from psibench.models.protocols import Encoder, TokenizedText
from psibench.rerankers.protocols import RERANKER_VERSIONS, Scores, TextPair, calibrated
from psibench.search.bm25 import DEFAULT_LANGUAGE, bm25_tokenizer, terms_of
from psibench.tables.provenance import hash_params

K1, B = 1.5, 0.75
AVERAGE_LENGTH = 50
"""Number of terms in an average text, without stop words."""


class TermPair(NamedTuple):
    """Terms of a query, and the count of each term in a text."""

    query: list[str]
    counts: Counter[str]
    length: int

    @property
    def n_tokens(self) -> int:
        """Number of terms of both."""
        return len(self.query) + self.length


@dataclass(frozen=True)
class LexicalReranker:
    """A `Reranker` by BM25; see `load_lexical`."""

    name: str
    entry: Bm25Reranker
    tokenizer: Any
    ranks: dict[str, int]
    unlisted_rank: int
    identity: str
    max_tokens: None = None
    """Texts are never cut."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        return hash_params(
            {
                "calibration": self.entry.calibration.model_dump(mode="json"),
                "identity": self.identity,
                "version": RERANKER_VERSIONS[self.entry.backend],
            }
        )

    def tokenize(self, pairs: Sequence[TextPair]) -> list[TermPair]:
        """Split queries and texts into stems, each distinct text once."""
        distinct = list({text: None for pair in pairs for text in pair})
        terms = dict(zip(distinct, terms_of(self.tokenizer, distinct), strict=True))
        return [TermPair(terms[q], Counter(terms[t]), len(terms[t])) for q, t in pairs]

    def visible_char_ends(self, pairs: Sequence[TextPair]) -> list[int]:
        """Return the length of each text, because texts are read completely."""
        return [len(text) for _, text in pairs]

    def score(self, items: Sequence[TermPair]) -> Scores:
        """Score pairs, one by one."""
        raw = np.array([self._share(item) for item in items], dtype=np.float64)
        return calibrated(raw, self.entry.calibration)

    def _share(self, item: TermPair) -> float:
        """Return BM25 divided by its upper bound for the query.

        The weight of a term is idf * tf / (tf + k1 (1 - b + b length / average)), the saturation of
        Robertson and Zaragoza 2009, section 3.4; its limit for tf -> infinity is idf. The result is
        in [0, 1), and 0 for a query without terms. For one query it orders texts as BM25 does;
        unlike BM25 it is comparable between long and short queries.
        """
        slack = K1 * (1 - B + B * item.length / AVERAGE_LENGTH)
        reached = possible = 0.0
        for term in item.query:
            idf = float(np.log1p(self.ranks.get(term, self.unlisted_rank)))
            possible += idf
            count = item.counts.get(term, 0)
            if count:
                reached += idf * count / (count + slack)
        return reached / possible if possible else 0.0


def load_lexical(name: str, entry: Bm25Reranker) -> LexicalReranker:
    """Load the ranks of the vocabulary, and the tokenizer of the BM25 retriever."""
    tokenizer = bm25_tokenizer(DEFAULT_LANGUAGE)
    path = Path(resolve_checkpoint(BM25_VOCABULARY)) / "vocab.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    words = [line for line in lines if line.isalpha() and len(line) > 1]
    ranks: dict[str, int] = {}
    for rank, stems in enumerate(terms_of(tokenizer, words), start=1):
        for stem in stems:  # a stop word has none
            ranks.setdefault(stem, rank)
    identity = checkpoint_identity(BM25_VOCABULARY, None)
    return LexicalReranker(name, entry, tokenizer, ranks, len(words) + 1, identity)


CACHE_BYTES = 1 << 30


class EncodedPair(NamedTuple):
    """Query and text, tokenized separately."""

    query: TokenizedText
    text: TokenizedText

    @property
    def n_tokens(self) -> int:
        """Number of tokens of both."""
        return self.query.n_tokens + self.text.n_tokens


@dataclass
class SimilarityReranker:
    """A `Reranker` that runs an encoder: cosine, or MaxSim divided by the number of query tokens.

    The best of a text's windows counts. MaxSim is divided as in bge-m3, so that scores of long and
    short queries are comparable. A query or text without tokens has the raw score 0.
    """

    name: str
    entry: BiEncoderReranker
    encoder: Encoder
    cached: dict[bytes, np.ndarray] = field(default_factory=dict)
    """Vectors by a window's tokens, because many pairs share a document or a query."""
    cached_bytes: int = 0
    max_tokens: None = None
    """Query and text are cut separately, so their total length does not show whether one was
    cut."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        return hash_params(
            {
                "encoder": self.encoder.fingerprint,
                "salts": [self.encoder.salt("query"), self.encoder.salt("document")],
                "calibration": self.entry.calibration.model_dump(mode="json"),
                "version": RERANKER_VERSIONS[self.entry.backend],
            }
        )

    def tokenize(self, pairs: Sequence[TextPair]) -> list[EncodedPair]:
        """Tokenize queries and texts, each distinct text once."""
        queries, texts = ({pair[side]: None for pair in pairs} for side in (0, 1))
        as_queries = self.encoder.tokenize(list(queries), "query")
        as_documents = self.encoder.tokenize(list(texts), "document")
        query_of = dict(zip(queries, as_queries, strict=True))
        document_of = dict(zip(texts, as_documents, strict=True))
        return [EncodedPair(query_of[query], document_of[text]) for query, text in pairs]

    def visible_char_ends(self, pairs: Sequence[TextPair]) -> list[int]:
        """Return how many leading characters of each text the encoder reads, for any query."""
        texts = list({text: None for _, text in pairs})
        items = self.encoder.tokenize(texts, "document")
        ends = {text: item.visible_char_end for text, item in zip(texts, items, strict=True)}
        return [ends[text] for _, text in pairs]

    def score(self, items: Sequence[EncodedPair]) -> Scores:
        """Encode the distinct queries and texts of a batch, then compare."""
        queries = self._vectors([item.query for item in items])
        texts = self._vectors([item.text for item in items])
        pairs = zip(queries, texts, strict=True)
        raw = np.array([_similarity(query, text) for query, text in pairs], dtype=np.float64)
        return calibrated(raw, self.entry.calibration)

    def _vectors(self, items: Sequence[TokenizedText]) -> list[np.ndarray]:
        """Return the (n_vectors, dim) vectors of each text's windows or tokens."""
        texts = [
            [(w.tobytes() + keep.tobytes(), (w, keep)) for w, keep in zipped]
            for zipped in (zip(item.windows, item.content, strict=True) for item in items)
        ]
        windows_of = dict(keyed for text in texts for keyed in text)
        vectors_of = {key: self.cached[key] for key in windows_of if key in self.cached}
        if self.cached_bytes > CACHE_BYTES:
            self.cached, self.cached_bytes = {}, 0
        # A batch has windows of similar length, so that none is padded to twice its length.
        by_length: dict[int, list[bytes]] = {}
        for key, (window, _) in windows_of.items():
            if key not in vectors_of:
                by_length.setdefault(len(window).bit_length(), []).append(key)
        for keys in by_length.values():
            windows, content = zip(*(windows_of[key] for key in keys), strict=True)
            for key, vectors in zip(keys, self.encoder.forward(windows, content), strict=True):
                vectors_of[key] = vectors.copy()  # a view would keep the whole batch in memory
                self.cached[key] = vectors_of[key]
                self.cached_bytes += len(key) + vectors.nbytes
        return [
            item.vectors([vectors_of[key] for key, _ in text])
            for item, text in zip(items, texts, strict=True)
        ]


def _similarity(query: np.ndarray, text: np.ndarray) -> float:
    """Return the mean over query vectors of the largest inner product with a text vector."""
    if not len(query) or not len(text):
        return 0.0
    products = query.astype(np.float64) @ text.astype(np.float64).T
    return float(products.max(axis=1).mean())


def load_similarity(name: str, entry: BiEncoderReranker, *, device: str) -> SimilarityReranker:
    """Load the encoder of a bi-encoder entry.

    Raises InputError if its checkpoint cannot be loaded.
    """
    wanted = entry.encoder.dtype
    dtype = fast_dtype(device) if wanted in (None, "auto") else wanted
    return SimilarityReranker(name, entry, load_encoder(entry.encoder, device=device, dtype=dtype))
